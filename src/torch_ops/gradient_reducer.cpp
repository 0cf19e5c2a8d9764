#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "core/thread_annotations.hpp"
#include "kolo/error.h"
#include "kolo/operations.h"
#include "kolo/optimizer.h"
#include "torch_ops/call.hpp"

namespace kolo::detail {

namespace {

// Of several things that are done one after the other, all are tried; then the first error is
// thrown.
class FirstError {
 public:
  template <typename Function>
  void catch_from(Function&& function) {
    try {
      function();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

}  // namespace

struct GradientReducer::State {
  struct Parameter {
    at::Tensor tensor;
    std::string name;
    std::size_t unit = 0;
    int passes = 0;           // accumulations since the last reduction
    bool was_sparse = false;  // its gradient, once
  };

  // A dense gradient on its way.
  struct Travelling {
    std::size_t parameter = 0;
    at::Tensor work;  // what is reduced: the gradient, or a copy in another dtype, or zeros
    bool was_undefined = false;
  };

  // Parameters whose gradients are reduced together.
  struct Unit {
    std::string name;
    std::vector<std::size_t> members;
    // In flight.
    std::optional<GroupHandle> reduction;
    std::vector<Travelling> dense;
    std::vector<std::pair<std::size_t, Handle>> sparse;  // by parameter

    bool in_flight() const { return reduction.has_value() || !sparse.empty(); }
  };

  DistributedOptimizerOptions options;  // constant after construction

  // Hooks may run on several threads at once: autograd has one a device.
  Mutex mutex;
  std::vector<Parameter> parameters KOLO_GUARDED_BY(mutex);
  std::vector<Unit> units KOLO_GUARDED_BY(mutex);
  bool synchronized KOLO_GUARDED_BY(mutex) = false;  // no gradient was accumulated since
  bool skip KOLO_GUARDED_BY(mutex) = false;
  bool no_sync KOLO_GUARDED_BY(mutex) = false;

  void add_units(std::size_t first) KOLO_REQUIRES(mutex);
  void name_parameters(std::size_t first) KOLO_REQUIRES(mutex);
  void gradient_ready(std::size_t index) KOLO_EXCLUDES(mutex);
  bool is_ready(const Unit& unit) const KOLO_REQUIRES(mutex);
  bool is_trainable(const Unit& unit) const KOLO_REQUIRES(mutex);
  void submit(Unit& unit) KOLO_REQUIRES(mutex);
  void submit_sparse(Unit& unit, std::size_t index, const at::Tensor& gradient)
      KOLO_REQUIRES(mutex);
  void submit_dense(Unit& unit, std::vector<Travelling> dense) KOLO_REQUIRES(mutex);
  at::Tensor reducible_gradient(Parameter& parameter) const;
  at::Tensor compressed(const at::Tensor& gradient) const;
  AllreduceOptions reduction(const std::string& name) const;
  void submit_missing(FirstError& error) KOLO_REQUIRES(mutex);
  void wait_for_all(FirstError& error) KOLO_REQUIRES(mutex);
  void finish_dense(Unit& unit) KOLO_REQUIRES(mutex);
  void finish_sparse(Unit& unit, FirstError& error) KOLO_REQUIRES(mutex);
};

namespace {

using torch::autograd::PostAccumulateGradHook;

// Called by autograd when a parameter's gradient has been accumulated. Runs a hook that was there
// before it first.
class ReduceHook final : public PostAccumulateGradHook {
 public:
  ReduceHook(std::function<void()> ready, std::unique_ptr<PostAccumulateGradHook> before)
      : ready_(std::move(ready)), before_(std::move(before)) {}

  void operator()(const at::Tensor& parameter) override {
    if (before_) (*before_)(parameter);
    ready_();
  }

  std::unique_ptr<PostAccumulateGradHook> release_before() { return std::move(before_); }

 private:
  std::function<void()> ready_;
  std::unique_ptr<PostAccumulateGradHook> before_;
};

// The shape of the values of a sparse gradient without any.
std::vector<std::int64_t> rows_of_nothing(const at::Tensor& parameter) {
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[0] = 0;
  return shape;
}

ReduceHook* hook_of(const at::Tensor& parameter) {
  // A tensor that never needed a gradient has no place for hooks yet.
  torch::autograd::impl::materialize_autograd_meta(parameter);
  return dynamic_cast<ReduceHook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

}  // namespace

namespace {

void check(const DistributedOptimizerOptions& options) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgumentError("DistributedOptimizer '" + options.name() + "': " + why);
  };
  if (options.backward_passes_per_step() < 1) {
    refuse("backward_passes_per_step is " + std::to_string(options.backward_passes_per_step()) +
           ", but at least 1 is meant");
  }
  if (options.gradient_predivide_factor() <= 0) refuse("gradient_predivide_factor must be above 0");
  if (options.gradient_predivide_factor() != 1.0 && options.op() != ReduceOp::Average) {
    refuse("gradient_predivide_factor belongs to Average, not to " +
           std::string(name_of(options.op())));
  }
  if (options.num_groups() < 0) refuse("num_groups must be 0 or more");
  if (options.num_groups() > 0 && !options.groups().empty())
    refuse("give groups or num_groups, not both");
  std::set<std::string> names;
  for (const auto& [name, parameter] : options.named_parameters()) {
    if (!names.insert(name).second) refuse("named_parameters has '" + name + "' twice");
  }
}

}  // namespace

GradientReducer::GradientReducer(DistributedOptimizerOptions options)
    : state_(std::make_shared<State>()) {
  if (options.name().empty()) {
    options.name("optimizer" + std::to_string(session("DistributedOptimizer")->next_optimizer()));
  }
  if (!options.process_set().included()) {
    throw InvalidArgumentError(options.name() + ": this rank is no member of process set " +
                               std::to_string(options.process_set().id()) +
                               "; make the optimizer on its members only");
  }
  check(options);
  state_->options = std::move(options);
}

GradientReducer::~GradientReducer() {
  MutexLock lock(state_->mutex);
  for (State::Parameter& parameter : state_->parameters) {
    ReduceHook* hook = hook_of(parameter.tensor);
    if (hook == nullptr) continue;  // somebody put another hook in its place
    torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, hook->release_before());
  }
}

void GradientReducer::attach(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  MutexLock lock(state_->mutex);
  const std::size_t known = state_->parameters.size();
  std::size_t index = 0;
  for (const auto& group : groups) {
    for (const at::Tensor& tensor : group.params()) {
      if (index++ < known) continue;
      if (hook_of(tensor) != nullptr) {
        throw InvalidArgumentError(
            "parameter " + std::to_string(index - 1) + " of " + state_->options.name() +
            " belongs to another DistributedOptimizer already: its gradient would "
            "be reduced twice; destroy that one first");
      }
      state_->parameters.emplace_back().tensor = tensor;
      // Autograd may be running the hook while this object is destroyed.
      auto ready = [weak = std::weak_ptr<State>(state_), at = index - 1] {
        if (const auto state = weak.lock()) state->gradient_ready(at);
      };
      auto before = std::move(torch::autograd::impl::post_acc_grad_hooks(tensor));
      torch::autograd::impl::set_post_acc_grad_hooks(
          tensor, std::make_unique<ReduceHook>(std::move(ready), std::move(before)));
    }
  }
  if (index == known) return;
  state_->name_parameters(known);
  state_->add_units(known);
}

void GradientReducer::State::name_parameters(std::size_t first) {
  for (std::size_t i = first; i < parameters.size(); ++i) {
    const auto named =
        std::find_if(options.named_parameters().begin(), options.named_parameters().end(),
                     [&](const auto& entry) { return entry.second.is_same(parameters[i].tensor); });
    const bool has_name = named != options.named_parameters().end();
    // Parameters of a group that is added later cannot have been named.
    if (!has_name && first == 0 && !options.named_parameters().empty()) {
      throw InvalidArgumentError("DistributedOptimizer '" + options.name() + "': parameter " +
                                 std::to_string(i) + ", shape " +
                                 to_string(parameters[i].tensor.sizes().vec()) +
                                 ", is not in named_parameters; name all or none");
    }
    parameters[i].name =
        options.name() + ".gradient." + (has_name ? named->first : std::to_string(i));
  }
}

// Units for the parameters from `first` on.
void GradientReducer::State::add_units(std::size_t first) {
  std::vector<bool> placed(parameters.size(), false);
  const auto add = [&](std::vector<std::size_t> members) {
    if (members.empty()) return;
    Unit& unit = units.emplace_back();
    unit.name = members.size() == 1 ? parameters[members[0]].name
                                    : options.name() + ".group." + std::to_string(units.size() - 1);
    for (const std::size_t member : members) {
      parameters[member].unit = units.size() - 1;
      placed[member] = true;
    }
    unit.members = std::move(members);
  };
  for (const std::vector<at::Tensor>& group : options.groups()) {
    std::vector<std::size_t> members;
    for (std::size_t i = first; i < parameters.size(); ++i) {
      const bool listed = std::any_of(group.begin(), group.end(), [&](const at::Tensor& tensor) {
        return tensor.is_same(parameters[i].tensor);
      });
      if (listed && !placed[i]) members.push_back(i);
    }
    add(std::move(members));
  }
  if (first == 0 && options.num_groups() > 0) {
    const std::size_t count = parameters.size();
    const auto groups = static_cast<std::size_t>(options.num_groups());
    for (std::size_t g = 0; g < groups; ++g) {
      std::vector<std::size_t> members(count * (g + 1) / groups - count * g / groups);
      std::iota(members.begin(), members.end(), count * g / groups);
      add(std::move(members));
    }
  }
  for (std::size_t i = first; i < parameters.size(); ++i) {
    if (!placed[i]) add({i});
  }
}

void GradientReducer::State::gradient_ready(std::size_t index) {
  MutexLock lock(mutex);
  Parameter& parameter = parameters[index];
  Unit& unit = units[parameter.unit];
  if (unit.in_flight()) {
    throw InvalidArgumentError(
        "the gradient of " + parameter.name + ", shape " +
        to_string(parameter.tensor.sizes().vec()) +
        ", was accumulated once more before step() or synchronize(): its reduction is in "
        "flight. Call step() after backward(), say how often backward() comes with "
        "backward_passes_per_step, or accumulate under no_sync()");
  }
  synchronized = false;
  if (no_sync) return;
  ++parameter.passes;
  if (is_ready(unit)) submit(unit);
}

bool GradientReducer::State::is_ready(const Unit& unit) const {
  return std::all_of(unit.members.begin(), unit.members.end(), [&](std::size_t member) {
    const Parameter& parameter = parameters[member];
    return !parameter.tensor.requires_grad() ||
           parameter.passes >= options.backward_passes_per_step();
  });
}

bool GradientReducer::State::is_trainable(const Unit& unit) const {
  return std::any_of(unit.members.begin(), unit.members.end(),
                     [&](std::size_t member) { return parameters[member].tensor.requires_grad(); });
}

AllreduceOptions GradientReducer::State::reduction(const std::string& name) const {
  AllreduceOptions reduction =
      AllreduceOptions(name).op(options.op()).process_set(options.process_set());
  const double factor = options.gradient_predivide_factor();
  if (factor == 1.0) return reduction;
  return reduction.op(ReduceOp::Sum)
      .prescale_factor(1.0 / factor)
      .postscale_factor(factor / options.process_set().size());
}

at::Tensor GradientReducer::State::reducible_gradient(Parameter& parameter) const {
  at::Tensor gradient = parameter.tensor.grad();
  if (!gradient.defined()) return gradient;
  if (gradient.is_sparse() && options.sparse_as_dense())
    return parameter.tensor.mutable_grad() = gradient.to_dense();
  // Autograd may give two parameters views of one storage as gradients (those of a sum, say), which
  // is fine for reading; reduced in place, it would be reduced twice.
  if (!gradient.is_sparse() && gradient.has_storage() && gradient.storage().use_count() > 1)
    return parameter.tensor.mutable_grad() = gradient.clone();
  return gradient;
}

at::Tensor GradientReducer::State::compressed(const at::Tensor& gradient) const {
  const bool wide = gradient.scalar_type() == at::kFloat || gradient.scalar_type() == at::kDouble;
  if (!wide || options.compression() == Compression::None) return gradient;
  return gradient.to(options.compression() == Compression::Fp16 ? at::kHalf : at::kBFloat16);
}

void GradientReducer::State::submit(Unit& unit) {
  std::vector<Travelling> dense;
  for (const std::size_t member : unit.members) {
    Parameter& parameter = parameters[member];
    if (!parameter.tensor.requires_grad()) continue;
    const at::Tensor gradient = reducible_gradient(parameter);
    if (gradient.defined() && gradient.is_sparse()) parameter.was_sparse = true;
    if (parameter.was_sparse && !options.sparse_as_dense() &&
        (!gradient.defined() || gradient.is_sparse())) {
      submit_sparse(unit, member, gradient);
      continue;
    }
    const at::Tensor values = gradient.defined()
                                  ? gradient
                                  : at::zeros_like(parameter.tensor, at::MemoryFormat::Contiguous);
    dense.push_back({member, compressed(values), !gradient.defined()});
  }
  if (!dense.empty()) submit_dense(unit, std::move(dense));
}

void GradientReducer::State::submit_sparse(Unit& unit, std::size_t index,
                                           const at::Tensor& gradient) {
  const Parameter& parameter = parameters[index];
  const at::Tensor mine =
      gradient.defined() ? gradient
                         : at::sparse_coo_tensor(at::empty({1, 0}, at::kLong),
                                                 at::empty({0}, parameter.tensor.options())
                                                     .reshape(rows_of_nothing(parameter.tensor)),
                                                 parameter.tensor.sizes());
  unit.sparse.emplace_back(index,
                           sparse_allreduce_async(mine, reduction(parameter.name + ".sparse")));
}

void GradientReducer::State::submit_dense(Unit& unit, std::vector<Travelling> dense) {
  const Call call("DistributedOptimizer", "allreduce", unit.name, options.process_set());
  std::vector<at::Tensor> works;
  bool absent = true;
  for (const Travelling& one : dense) {
    works.push_back(one.work);
    absent = absent && one.was_undefined;
  }
  std::shared_ptr<Operation> operation = make_allreduce(call, works, reduction(unit.name));
  if (dense.size() > 1) {
    for (std::size_t i = 0; i < dense.size(); ++i)
      operation->descriptor.tensors[i].name = parameters[dense[i].parameter].name;
  }
  operation->absent = absent;
  unit.dense = std::move(dense);
  unit.reduction = kolo::submit(call.session, std::move(operation),
                                std::make_shared<const std::vector<at::Tensor>>(std::move(works)));
}

// Parameters that backward() did not reach here, but may have reached on another rank. A unit that
// cannot be submitted does not keep the others from it.
void GradientReducer::State::submit_missing(FirstError& error) {
  for (Unit& unit : units) {
    if (unit.in_flight() || !is_trainable(unit)) continue;
    error.catch_from([&] { submit(unit); });
  }
}

void GradientReducer::State::finish_dense(Unit& unit) {
  GroupHandle handle = std::move(*unit.reduction);
  unit.reduction.reset();
  const std::vector<Travelling> dense = std::exchange(unit.dense, {});
  handle.wait();
  if (handle.absent_everywhere()) return;
  for (const Travelling& one : dense) {
    at::Tensor& parameter = parameters[one.parameter].tensor;
    const at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) {
      parameter.mutable_grad() = one.work.to(parameter.scalar_type());
    } else if (!one.work.is_same(gradient)) {
      const at::NoGradGuard no_grad;
      parameter.mutable_grad().copy_(one.work);
    }
  }
}

void GradientReducer::State::finish_sparse(Unit& unit, FirstError& error) {
  for (auto& [index, handle] : std::exchange(unit.sparse, {})) {
    error.catch_from(
        [&, &at = index, &one = handle] { parameters[at].tensor.mutable_grad() = one.wait(); });
  }
}

// Every reduction is waited for, so that all gradients are the caller's again.
void GradientReducer::State::wait_for_all(FirstError& error) {
  for (Unit& unit : units) {
    if (unit.reduction) error.catch_from([&] { finish_dense(unit); });
    finish_sparse(unit, error);
  }
  for (Parameter& parameter : parameters) parameter.passes = 0;
}

void GradientReducer::synchronize() {
  MutexLock lock(state_->mutex);
  FirstError error;
  state_->submit_missing(error);
  state_->wait_for_all(error);
  error.rethrow();
  state_->synchronized = true;
}

void GradientReducer::synchronize_unless_done() {
  {
    MutexLock lock(state_->mutex);
    const bool done = std::exchange(state_->synchronized, false);
    if (state_->skip || done) return;
  }
  synchronize();
  MutexLock lock(state_->mutex);
  state_->synchronized = false;
}

void GradientReducer::check_no_reduction_in_flight(const char* call) const {
  MutexLock lock(state_->mutex);
  for (const State::Unit& unit : state_->units) {
    if (!unit.in_flight()) continue;
    throw InvalidArgumentError(std::string(call) +
                               "() between backward() and step(): the gradient of " +
                               state_->parameters[unit.members[0]].name +
                               " is being reduced; call it before backward() or after step()");
  }
}

at::Tensor GradientReducer::average_loss(const at::Tensor& loss) {
  if (!loss.defined()) return loss;
  return allreduce(loss, AllreduceOptions(state_->options.name() + ".loss")
                             .process_set(state_->options.process_set()));
}

void GradientReducer::set_skip(bool skip) {
  MutexLock lock(state_->mutex);
  state_->skip = skip;
}

void GradientReducer::set_no_sync(bool no_sync) {
  MutexLock lock(state_->mutex);
  state_->no_sync = no_sync;
}

}  // namespace kolo::detail
