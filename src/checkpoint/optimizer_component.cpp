// LibTorch's optimizers index their state by the address of each parameter. kolo saves it under the
// parameter's name, so that another process and other tools find it.
#include <ATen/ATen.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <type_traits>

#include "checkpoint/components.hpp"
#include "core/scalar_type.hpp"
#include "kolo/error.h"
#include "kolo/optim/adadelta.h"
#include "kolo/optim/adamax.h"
#include "kolo/optim/asgd.h"
#include "kolo/optim/lamb.h"
#include "kolo/optim/lars.h"
#include "kolo/optim/nadam.h"
#include "kolo/optim/radam.h"
#include "kolo/optim/rprop.h"

namespace kolo::checkpoint {
namespace {

using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

// Lists the fields of each optimizer's options and state once, for both saving and restoring:
// `visit` receives the name and the field.
template <typename Visit>
void visit_fields(torch::optim::SGDOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("momentum", o.momentum());
  visit("dampening", o.dampening());
  visit("weight_decay", o.weight_decay());
  visit("nesterov", o.nesterov());
}
template <typename Visit>
void visit_fields(torch::optim::SGDParamState& s, Visit&& visit) {
  visit("momentum_buffer", s.momentum_buffer());
}

template <typename AdamOptions, typename Visit>
void visit_adam_options(AdamOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("beta1", std::get<0>(o.betas()));
  visit("beta2", std::get<1>(o.betas()));
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("amsgrad", o.amsgrad());
}
template <typename AdamState, typename Visit>
void visit_adam_state(AdamState& s, Visit&& visit) {
  visit("step", s.step());
  visit("exp_avg", s.exp_avg());
  visit("exp_avg_sq", s.exp_avg_sq());
  visit("max_exp_avg_sq", s.max_exp_avg_sq());
}
template <typename Visit>
void visit_fields(torch::optim::AdamOptions& o, Visit&& visit) {
  visit_adam_options(o, visit);
}
template <typename Visit>
void visit_fields(torch::optim::AdamParamState& s, Visit&& visit) {
  visit_adam_state(s, visit);
}
template <typename Visit>
void visit_fields(torch::optim::AdamWOptions& o, Visit&& visit) {
  visit_adam_options(o, visit);
}
template <typename Visit>
void visit_fields(torch::optim::AdamWParamState& s, Visit&& visit) {
  visit_adam_state(s, visit);
}

template <typename Visit>
void visit_fields(torch::optim::RMSpropOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("alpha", o.alpha());
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("momentum", o.momentum());
  visit("centered", o.centered());
}
template <typename Visit>
void visit_fields(torch::optim::RMSpropParamState& s, Visit&& visit) {
  visit("step", s.step());
  visit("square_avg", s.square_avg());
  visit("momentum_buffer", s.momentum_buffer());
  visit("grad_avg", s.grad_avg());
}

template <typename Visit>
void visit_fields(torch::optim::AdagradOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("lr_decay", o.lr_decay());
  visit("weight_decay", o.weight_decay());
  visit("initial_accumulator_value", o.initial_accumulator_value());
  visit("eps", o.eps());
}
template <typename Visit>
void visit_fields(torch::optim::AdagradParamState& s, Visit&& visit) {
  visit("step", s.step());
  visit("sum", s.sum());
}

// kolo's own optimizers list their fields themselves.
template <typename Fields, typename Visit>
auto visit_fields(Fields& fields, Visit&& visit)
    -> decltype(Fields::visit_fields(fields, [](const char*, auto&) {})) {
  Fields::visit_fields(fields, [&visit](const char* name, auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, optim::detail::Pair>) {
      const std::string singular(name, std::strlen(name) - 1);  // betas becomes beta1 and beta2
      visit((singular + "1").c_str(), std::get<0>(field));
      visit((singular + "2").c_str(), std::get<1>(field));
    } else {
      visit(name, field);
    }
  });
}

template <typename Visit>
void visit_fields(torch::optim::LBFGSOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("max_iter", o.max_iter());
  visit("max_eval", o.max_eval());
  visit("tolerance_grad", o.tolerance_grad());
  visit("tolerance_change", o.tolerance_change());
  visit("history_size", o.history_size());
  visit("line_search_fn", o.line_search_fn());
}
// Without `al`, which each step refills.
template <typename Visit>
void visit_fields(torch::optim::LBFGSParamState& s, Visit&& visit) {
  visit("func_evals", s.func_evals());
  visit("n_iter", s.n_iter());
  visit("t", s.t());
  visit("prev_loss", s.prev_loss());
  visit.flat("d", s.d());
  visit.flat("H_diag", s.H_diag());
  visit.flat("prev_flat_grad", s.prev_flat_grad());
  visit.list("old_dirs", s.old_dirs());
  visit.list("old_stps", s.old_stps());
  visit.list("ro", s.ro());
}

// --- saving and restoring fields ---

struct Out {
  Capture& capture;
  const std::string folder;
  const Kind kind;

  void operator()(const char* name, at::Tensor& field) const { flat(name, field); }
  void flat(const std::string& name, const at::Tensor& field) const {
    if (field.defined()) capture.tensor(folder + "/" + name, field, {kind, std::nullopt, {}});
  }
  void list(const char* name, const std::deque<at::Tensor>& field) const {
    for (std::size_t i = 0; i < field.size(); ++i)
      flat(std::string(name) + "/" + std::to_string(i), field[i]);
  }
  template <typename Number>
  void operator()(const char* name, Number& field) const {
    capture.value(folder + "/" + name, field);
  }
  template <typename T>
  void operator()(const char* name, std::optional<T>& field) const {
    if (field) capture.value(folder + "/" + name, *field);
  }
};

// Whether a parameter's state in the file is usable.
struct Found {
  std::int64_t elements = 0;  // of all parameters together
  bool all_fit = true;
};

struct In {
  Request& request;
  const std::string folder;
  const at::Tensor parameter;  // undefined for options
  const Kind kind;
  Found* found;  // null for options, where any field may be missing

  // Creates a tensor like the parameter, as the optimizer's first step does. A tensor that is
  // missing in the file may be missing in the optimizer, too (momentum_buffer, max_exp_avg_sq).
  void operator()(const char* name, at::Tensor& field) const {
    const TensorEntry* entry = request.find(folder + "/" + name);
    if (entry == nullptr) return;
    // For a complex parameter some optimizers keep pairs of real numbers.
    const bool as_real = parameter.is_complex() && !c10::isComplexType(scalar_type(entry->type));
    take(name, field,
         at::zeros_like(as_real ? at::view_as_real(parameter) : parameter,
                        at::MemoryFormat::Preserve));
  }
  // A tensor over all parameters, one after the other. Only the file knows its shape.
  void flat(const std::string& name, at::Tensor& field) const {
    const TensorEntry* entry = request.find(folder + "/" + name);
    if (entry == nullptr) return;
    std::vector<std::int64_t> shape = entry->shape;
    if (entry->kind == Kind::kPerRank && !shape.empty()) shape.erase(shape.begin());
    const auto elements = static_cast<std::int64_t>(elements_of(shape).value_or(0));
    if (elements != 1 && elements != found->elements) {
      request.mismatched(folder + "/" + name, "the file has " + std::to_string(elements) +
                                                  " elements, the program " +
                                                  std::to_string(found->elements));
      found->all_fit = false;
      return;
    }
    take(name, field, at::zeros(shape, parameter.options().dtype(scalar_type(entry->type))));
  }
  void list(const char* name, std::deque<at::Tensor>& field) const {
    const std::size_t count = request.names_in(folder + "/" + name).size();
    field.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      flat(std::string(name) + "/" + std::to_string(i), field[i]);
  }
  template <typename Number>
  void operator()(const char* name, Number& field) const {
    note(request.value_of<Number>(folder + "/" + name,
                                  [&field](const Number& number) { field = number; }));
  }
  template <typename T>
  void operator()(const char* name, std::optional<T>& field) const {
    if (request.has(folder + "/" + name)) {
      note(request.value_of<T>(folder + "/" + name, [&field](const T& value) { field = value; }));
    } else {
      request.then([&field] { field.reset(); });
    }
  }

 private:
  void note(bool fits) const {
    if (found == nullptr) return;
    found->all_fit = found->all_fit && fits;
  }
  void take(const std::string& name, at::Tensor& field, const at::Tensor& made) const {
    const bool fits = request.tensor(folder + "/" + name, made, {kind, std::nullopt, {}});
    if (fits) request.then([&field, made] { field = made; });
    note(fits);
  }
};

// --- the known optimizers ---

class Family {
 public:
  virtual ~Family() = default;
  virtual const char* name() const = 0;
  // Whether a parameter has state before the first step.
  virtual bool has_state_at_once() const = 0;
  virtual bool owns(const OptimizerOptions& options) const = 0;
  virtual std::unique_ptr<OptimizerParamState> make_state() const = 0;
  virtual void save(OptimizerOptions& options, const Out& out) const = 0;
  virtual void save(OptimizerParamState& state, const Out& out) const = 0;
  virtual void restore(OptimizerOptions& options, const In& in) const = 0;
  virtual void restore(OptimizerParamState& state, const In& in) const = 0;
};

template <typename Options, typename State>
class FamilyOf : public Family {
 public:
  explicit FamilyOf(const char* name) : name_(name) {}
  const char* name() const override { return name_; }
  bool has_state_at_once() const override {
    return std::is_same_v<State, torch::optim::AdagradParamState>;
  }
  bool owns(const OptimizerOptions& options) const override {
    return dynamic_cast<const Options*>(&options) != nullptr;
  }
  std::unique_ptr<OptimizerParamState> make_state() const override {
    return std::make_unique<State>();
  }
  void save(OptimizerOptions& options, const Out& out) const override {
    visit_fields(static_cast<Options&>(options), out);
  }
  void save(OptimizerParamState& state, const Out& out) const override {
    visit_fields(static_cast<State&>(state), out);
  }
  void restore(OptimizerOptions& options, const In& in) const override {
    visit_fields(static_cast<Options&>(options), in);
  }
  void restore(OptimizerParamState& state, const In& in) const override {
    visit_fields(static_cast<State&>(state), in);
  }

 private:
  const char* const name_;
};

template <typename Options, typename State>
std::unique_ptr<Family> family(const char* name) {
  return std::make_unique<FamilyOf<Options, State>>(name);
}

template <typename Options, typename State>
std::unique_ptr<Family> own_family() {
  return family<Options, State>(Options::kOptimizer);
}

const std::vector<std::unique_ptr<Family>>& families() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Family>> made;
    made.push_back(family<torch::optim::SGDOptions, torch::optim::SGDParamState>("SGD"));
    made.push_back(family<torch::optim::AdamOptions, torch::optim::AdamParamState>("Adam"));
    made.push_back(family<torch::optim::AdamWOptions, torch::optim::AdamWParamState>("AdamW"));
    made.push_back(
        family<torch::optim::RMSpropOptions, torch::optim::RMSpropParamState>("RMSprop"));
    made.push_back(
        family<torch::optim::AdagradOptions, torch::optim::AdagradParamState>("Adagrad"));
    made.push_back(family<torch::optim::LBFGSOptions, torch::optim::LBFGSParamState>("LBFGS"));
    made.push_back(own_family<optim::AdadeltaOptions, optim::AdadeltaParamState>());
    made.push_back(own_family<optim::AdamaxOptions, optim::AdamaxParamState>());
    made.push_back(own_family<optim::ASGDOptions, optim::ASGDParamState>());
    made.push_back(own_family<optim::LAMBOptions, optim::LAMBParamState>());
    made.push_back(own_family<optim::LARSOptions, optim::LARSParamState>());
    made.push_back(own_family<optim::NAdamOptions, optim::NAdamParamState>());
    made.push_back(own_family<optim::RAdamOptions, optim::RAdamParamState>());
    made.push_back(own_family<optim::RpropOptions, optim::RpropParamState>());
    return made;
  }();
  return all;
}

// Returns null for an unknown optimizer.
const Family* family_of(const torch::optim::Optimizer& optimizer) {
  for (const auto& family : families()) {
    const auto& groups = optimizer.param_groups();
    const bool owns_all = std::all_of(groups.begin(), groups.end(), [&](const auto& group) {
      return family->owns(group.options());
    });
    if (!groups.empty() && owns_all) return family.get();
  }
  return nullptr;
}

class OptimizerComponent : public Component {
 public:
  OptimizerComponent(const std::string& name, torch::optim::Optimizer& optimizer,
                     const ParameterNames& names, Kind kind)
      : Component(name), optimizer_(optimizer), names_(names), kind_(kind) {}

  void capture(Capture& capture) const override {
    const Family* family = family_of(optimizer_);
    if (family == nullptr) return capture_unknown(capture);
    capture.value(inside({"type"}), std::string(family->name()));
    auto& groups = optimizer_.param_groups();
    for (std::size_t i = 0; i < groups.size(); ++i)
      family->save(groups[i].options(), {capture, group_folder(i), kind_});
    for (const auto& [name, parameter] : parameters()) {
      const auto state = optimizer_.state().find(parameter.unsafeGetTensorImpl());
      if (state != optimizer_.state().end())
        family->save(*state->second, {capture, state_folder(name), kind_});
    }
  }

  void restore(Request& request) override {
    const Family* family = family_of(optimizer_);
    if (family == nullptr) return restore_unknown(request);
    if (!is_of(*family, request)) return;
    auto& groups = optimizer_.param_groups();
    for (std::size_t i = 0; i < groups.size(); ++i)
      family->restore(groups[i].options(), {request, group_folder(i), {}, kind_, nullptr});
    // A rank without a row in the file keeps its state.
    request.mute(kind_ == Kind::kPerRank && !request.has_own(inside({"state"})));
    // kolo's first version saved the state once for each time that a parameter is listed.
    for (const std::string& position : repeated()) request.pass_over(state_folder(position));
    // Callbacks write to the fields of these states after reading, so the states must not move.
    const auto made = std::make_shared<std::vector<Made>>();
    std::int64_t elements = 0;  // LBFGS counts a parameter each time it is listed
    for (const auto& group : groups)
      for (const at::Tensor& parameter : group.params()) elements += parameter.numel();
    for (const auto& [name, parameter] : parameters()) {
      Made& one = made->emplace_back();
      one.key = parameter.unsafeGetTensorImpl();
      if (request.names_in(state_folder(name)).empty()) {
        one.fits = !family->has_state_at_once();  // then it has never stepped
        if (!one.fits) request.missing(state_folder(name));
        continue;
      }
      one.state = family->make_state();
      Found found{elements};
      family->restore(*one.state, {request, state_folder(name), parameter, kind_, &found});
      one.fits = found.all_fit;
    }
    request.then([this, made] {
      for (Made& one : *made) {
        if (!one.fits) continue;
        optimizer_.state().erase(one.key);
        if (one.state != nullptr) optimizer_.state()[one.key] = std::move(one.state);
      }
    });
    request.mute(false);
  }

 private:
  struct Named {
    std::string name;
    at::Tensor parameter;
  };
  // The restored state of a parameter. If it does not fit, the old one stays.
  struct Made {
    void* key = nullptr;
    std::unique_ptr<OptimizerParamState> state;  // null: the file has none
    bool fits = true;
  };

  // Skips the state of another optimizer, in which the same names may mean something else.
  bool is_of(const Family& family, Request& request) const {
    const Value* found = request.find_value(inside({"type"}));
    const auto* type = found == nullptr ? nullptr : std::get_if<std::string>(found);
    if (type != nullptr && *type == family.name())
      return request.value(inside({"type"}), [](const Value&) {});
    request.pass_over(inside({}));
    if (type == nullptr) {
      request.missing(inside({"type"}));
    } else {
      request.mismatched(inside({}),
                         "the file has " + *type + "'s state, the program's is " + family.name());
    }
    return false;
  }

  // Returns each parameter once. A parameter without a name, or whose name is already used, is
  // named by its position.
  std::vector<Named> parameters() const {
    std::vector<Named> all;
    std::set<const at::TensorImpl*> known;
    std::set<std::string> used;
    std::size_t position = 0;
    for (const auto& group : optimizer_.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const std::string number = std::to_string(position++);
        if (!known.insert(parameter.unsafeGetTensorImpl()).second) continue;
        const auto found = names_.find(parameter.unsafeGetTensorImpl());
        const bool has_name = found != names_.end() && used.insert(found->second).second;
        all.push_back({has_name ? found->second : number, parameter});
      }
    }
    return all;
  }

  // Returns the positions at which a parameter is listed again.
  std::vector<std::string> repeated() const {
    std::vector<std::string> positions;
    std::set<const at::TensorImpl*> known;
    std::size_t position = 0;
    for (const auto& group : optimizer_.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const bool is_new = known.insert(parameter.unsafeGetTensorImpl()).second;
        if (!is_new) positions.push_back(std::to_string(position));
        ++position;
      }
    }
    return positions;
  }

  std::string group_folder(std::size_t index) const {
    return inside({"groups", std::to_string(index)});
  }
  std::string state_folder(const std::string& parameter) const {
    return inside({"state", parameter});
  }

  void capture_unknown(Capture& capture) const {
    capture.bytes(inside({}), detail::to_archive([this](auto& out) { optimizer_.save(out); }),
                  Kind::kArchive);
  }
  void restore_unknown(Request& request) {
    request.bytes(inside({}), Kind::kArchive, [this](const std::string& bytes) {
      detail::from_archive(bytes, [this](auto& in) { optimizer_.load(in); });
    });
  }

  torch::optim::Optimizer& optimizer_;  // the program's, which outlives the checkpoint
  const ParameterNames& names_;         // the checkpoint's
  const Kind kind_;
};

}  // namespace

Added optimizer_component(const std::string& name, torch::optim::Optimizer& optimizer,
                          const ParameterNames& names, Kind kind) {
  if (kind == Kind::kPerRank && family_of(optimizer) == nullptr) {
    throw InvalidArgumentError("checkpoint: add_per_rank('" + name +
                               "') supports only LibTorch's and kolo's optimizers; for another one "
                               "use add(), which saves rank 0's state");
  }
  return std::make_unique<OptimizerComponent>(name, optimizer, names, kind);
}

}  // namespace kolo::checkpoint
