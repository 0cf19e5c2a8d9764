// The common part of kolo's optimizers. Each of them adds its options, its state and its update.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::optim::detail {

// Two numbers of an option, such as Adam's betas.
using Pair = std::tuple<double, double>;

// Writes fields to an archive as LibTorch's optimizers do: undefined tensors are left out.
struct FieldWriter {
  torch::serialize::OutputArchive& archive;  // outlives this

  // Writes one field.
  template <class T>
  void operator()(const char* name, const T& field) const {
    const c10::IValue value(field);
    if (value.isTensor() && !value.toTensor().defined()) return;
    archive.write(name, value);
  }
};

// Reads fields from an archive. A tensor that is missing in the archive stays as it is; any other
// missing field is a c10::Error.
struct FieldReader {
  torch::serialize::InputArchive& archive;  // outlives this

  // Reads one field.
  template <class T>
  void operator()(const char* name, T& field) const {
    c10::IValue value;
    if (archive.try_read(name, value)) {
      field = value.template to<T>();
    } else {
      TORCH_CHECK((std::is_same_v<T, torch::Tensor>), "the archive has no '", name,
                  "': it belongs to another optimizer, or is damaged");
    }
  }
};

// Collects fields, to compare them.
struct FieldList {
  std::vector<c10::IValue>& values;  // outlives this

  // Adds one field.
  template <class T>
  void operator()(const char* /*name*/, const T& field) const {
    values.emplace_back(field);
  }
};

// The options of an optimizer. Derived has lr(), and a static visit_fields(self, visit), which
// calls visit(name, field) for each field; its name in archives and checkpoints is Python's.
template <class Derived>
struct Options : torch::optim::OptimizerCloneableOptions<Derived> {
  // Reads the fields.
  void serialize(torch::serialize::InputArchive& archive) override {
    Derived::visit_fields(static_cast<Derived&>(*this), FieldReader{archive});
  }
  // Writes the fields.
  void serialize(torch::serialize::OutputArchive& archive) const override {
    Derived::visit_fields(static_cast<const Derived&>(*this), FieldWriter{archive});
  }
  // The learning rate; schedulers call this and set_lr().
  double get_lr() const override { return static_cast<const Derived&>(*this).lr(); }
  // Sets the learning rate.
  void set_lr(double lr) override { static_cast<Derived&>(*this).lr(lr); }

  friend bool operator==(const Derived& left, const Derived& right) {
    std::vector<c10::IValue> of_left;
    std::vector<c10::IValue> of_right;
    Derived::visit_fields(left, FieldList{of_left});
    Derived::visit_fields(right, FieldList{of_right});
    return of_left == of_right;
  }
};

// The state that an optimizer keeps for each parameter. Derived has a visit_fields() like that of
// Options, a default constructor, after which it is read from an archive, and a constructor that
// takes a parameter and options, for the first step.
template <class Derived>
struct ParamState : torch::optim::OptimizerCloneableParamState<Derived> {
  // Reads the fields.
  void serialize(torch::serialize::InputArchive& archive) override {
    Derived::visit_fields(static_cast<Derived&>(*this), FieldReader{archive});
  }
  // Writes the fields.
  void serialize(torch::serialize::OutputArchive& archive) const override {
    Derived::visit_fields(static_cast<const Derived&>(*this), FieldWriter{archive});
  }
};

// An optimizer that updates each parameter by itself. OptionsType::check() throws
// InvalidArgumentError for options that are out of range, and OptionsType::kOptimizer is the
// optimizer's name. One thread at a time; not collective.
template <class OptionsType, class StateType>
class PerParameterOptimizer : public torch::optim::Optimizer {
 public:
  // Updates, in place, every parameter that has a gradient; the others and their state stay as they
  // are. Any floating or complex dtype, any device. If a closure is given, calls it first, with
  // gradients enabled, and returns its loss. Throws InvalidArgumentError for a sparse gradient.
  torch::Tensor step(LossClosure closure = nullptr) override;
  // Adds a group, with its own complete options, or with the defaults. Throws InvalidArgumentError
  // like the constructor; the group is then not added.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);
  // Writes options and state, as LibTorch's optimizers do.
  void save(torch::serialize::OutputArchive& archive) const override;
  // Replaces the whole state and the groups' options. Throws c10::Error if the archive is damaged,
  // has other fields, or is of other parameters (their number and shapes count), and
  // InvalidArgumentError if an option in it is out of range; all is then as before.
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  PerParameterOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                        const OptionsType& defaults);

 private:
  // Makes one step with a parameter that has a gradient. Complex numbers come as pairs of real
  // ones, in a last dimension; as_real() makes them of a state's tensors.
  virtual void update(torch::Tensor& value, const torch::Tensor& gradient, StateType& state,
                      const OptionsType& options) const = 0;

  void keep_options(std::size_t index, const torch::optim::OptimizerParamGroup& given);
  StateType& state_of(const torch::Tensor& parameter, const OptionsType& options);
};

}  // namespace kolo::optim::detail
