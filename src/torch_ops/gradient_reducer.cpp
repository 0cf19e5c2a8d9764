#include "torch_ops/gradient_reducer.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

#include <algorithm>
#include <map>

#include "core/ranks.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "timeline/nvtx.hpp"
#include "torch_ops/requests.hpp"

namespace kolo::detail {
namespace {

// Returns a number that identifies the order in which autograd stores the dimensions of the
// parameter's gradients: 0 for row-major.
std::int64_t code_of_order(const at::Tensor& parameter) {
  if (parameter.is_contiguous() || !parameter.is_non_overlapping_and_dense()) return 0;
  std::int64_t code = 0;
  for (const std::int64_t dimension : order_in_memory(parameter)) code = code * 64 + dimension + 1;
  return code;
}

// Ranks compare numbers by their sums: n numbers x are equal if and only if n * sum(x * x) is equal
// to sum(x) * sum(x) (Cauchy-Schwarz). Joined ranks add nothing to n or to the sums. The numbers
// are below this, so that nothing overflows.
constexpr std::int64_t kLargestCompared = std::int64_t{1} << 16;

at::Tensor to_compare(std::initializer_list<std::int64_t> numbers) {
  std::vector<std::int64_t> summands = {1};
  for (const std::int64_t number : numbers) {
    const std::int64_t compared = number % kLargestCompared;
    summands.insert(summands.end(), {compared, compared * compared});
  }
  return at::tensor(summands, at::kLong);
}

// `sums` is the sum of all ranks' to_compare().
bool are_equal(const at::Tensor& sums) {
  const auto all = sums.accessor<std::int64_t, 1>();
  for (std::int64_t i = 1; i < all.size(0); i += 2) {
    if (all[0] * all[i + 1] != all[i] * all[i]) return false;
  }
  return true;
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
  check_options(options);
  state_->options = std::move(options);
  BackwardPass::watch();
}

GradientReducer::~GradientReducer() {
  if (const auto running = session_or_null()) running->engine().tracing().stop_counting(this);
}

void GradientReducer::attach(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  references_when_accumulated();  // not amid a backward pass
  MutexLock lock(state_->mutex);
  const std::size_t known = state_->parameters.size();
  std::size_t listed = 0;
  std::vector<at::Tensor> added;
  for (const auto& group : groups) {
    for (const at::Tensor& tensor : group.params()) {
      if (listed++ < state_->listed) continue;
      const auto listener = listener_of(tensor);
      if (listener != nullptr && listener != state_) {
        throw InvalidArgumentError(
            "parameter " + std::to_string(listed - 1) + " of " + state_->options.name() +
            " belongs to another DistributedOptimizer already: its gradient would "
            "be reduced twice; destroy that one first");
      }
      state_->check_dtype(tensor, listed - 1);
      added.push_back(tensor);
    }
  }
  state_->listed = listed;
  for (const at::Tensor& tensor : added) {
    if (listener_of(tensor) == state_) continue;  // listed twice
    State::Parameter& parameter = state_->parameters.emplace_back();
    parameter.tensor = tensor;
    set_listener(tensor, state_, state_->parameters.size() - 1);
    parameter.accumulator = hook_before_accumulation(tensor);
  }
  if (state_->parameters.size() == known) return;
  // The new ones may have gradients already.
  if (state_->synchronized) state_->remember_reduced();
  state_->synchronized = false;
  state_->name_parameters(known);
  state_->add_units(known);
}

// --- a pass ---

void GradientReducer::State::before_accumulation(std::size_t index) {
  if (reduces_steps() || is_fork_of_rank()) return;
  const MutexLock lock(mutex);
  if (enter_pass() && synchronized) remember_reduced();
  Parameter& parameter = parameters[index];
  if (units[parameter.unit].in_flight()) {
    parameter.repeats = true;
    throw InvalidArgumentError(
        "the gradient of " + parameter.name + ", shape " +
        to_string(parameter.tensor.sizes().vec()) +
        ", changes while it is being reduced: one backward() reaches the parameter more than once, "
        "in a backward() that a function calls in turn, which it did not do before. Run it under "
        "no_sync(); step() then reduces");
  }
  set_reduced_part_aside(parameter);
  parameter.is_new = !parameter.tensor.grad().defined();
  parameter.prepared = true;
}

void GradientReducer::State::accumulated(std::size_t index) {
  if (reduces_steps() || is_fork_of_rank()) return;
  const MutexLock lock(mutex);
  const bool entered = enter_pass();
  Parameter& parameter = parameters[index];
  if (!std::exchange(parameter.prepared, false)) {  // autograd has made another node
    parameter.accumulator = hook_before_accumulation(parameter.tensor);
    parameter.is_new = false;
    if (entered && synchronized) {
      throw InvalidArgumentError(
          parameter.name +
          ": the parameter has turned trainable, or has got data of another dtype or device, since "
          "gradients were reduced; call zero_grad() or step() before the next backward()");
    }
  }
  if (parameter.tensor.grad().requires_grad() && options.process_set().size() > 1) {
    throw InvalidArgumentError(
        "the gradient of " + parameter.name +
        " has a graph, from backward() with create_graph; a reduced gradient has none. Compute a "
        "penalty from what torch::autograd::grad() returns, and call backward() without "
        "create_graph");
  }
  synchronized = false;
  parameter.repeats = parameter.repeats || parameter.reached;
  parameter.reached = true;
  if (!pass_reduces || !may_leave_early(units[parameter.unit])) return;
  in_hook = &parameter;
  FirstError error;
  error.catch_from([&] { send(parameter.unit, error); });
  in_hook = nullptr;
  error.rethrow();
}

// Returns whether this is the first hook of the pass.
bool GradientReducer::State::enter_pass() {
  BackwardPass* const current = BackwardPass::current();
  if (pass != nullptr && pass == current) return false;
  const std::string who = "DistributedOptimizer '" + options.name() + "': ";
  if (current == nullptr) {
    throw InvalidArgumentError(
        who +
        "this backward() runs on an engine of autograd that another library has set since the "
        "optimizer was made; load that library first");
  }
  if (pass != nullptr) {
    throw InvalidArgumentError(who +
                               "two threads are in a backward() that reaches its parameters; let "
                               "one begin when the other has ended");
  }
  if (!current->add(shared_from_this())) throw InvalidArgumentError(who + "backward() has failed");
  pass = current;
  notice_join();
  pass_reduces = no_sync == 0 && ++passes >= options.backward_passes_per_step();
  pass_submitted = false;
  if (pass_reduces) submit_place();
  return true;
}

// Returns whether the unit can be submitted before the pass ends: all of its gradients are there,
// and earlier passes have shown that none of them is reached twice and which are sparse.
bool GradientReducer::State::may_leave_early(const Unit& unit) const {
  return has_layouts(unit) &&
         std::all_of(unit.members.begin(), unit.members.end(), [&](std::size_t member) {
           const Parameter& parameter = parameters[member];
           return !parameter.tensor.requires_grad() ||
                  (parameter.reached && parameter.known && !parameter.repeats);
         });
}

void GradientReducer::State::submit() {
  const MutexLock lock(mutex);
  if (!pass_reduces) return;
  FirstError error;
  submit_rest(error);
  error.rethrow();
  pass_submitted = true;
}

void GradientReducer::State::wait() {
  const timeline::nvtx::Scope range("waits for gradients");
  const MutexLock lock(mutex);
  FirstError error;
  if (pass_reduces) {
    error.catch_from([&] { check_place(); });
    error.catch_from([&] { wait_for_all(error); });
    synchronized = pass_submitted && error.none();
  }
  leave_pass(error);
  error.rethrow();
}

// Gives up what this rank has not submitted, because the other ranks wait for it.
void GradientReducer::State::fail(const std::string& why) {
  const MutexLock lock(mutex);
  FirstError ignored;
  if (pass_reduces) {
    ignored.catch_from([&] { submit_held(ignored); });
    const std::string message = "backward() ended with an error: " + why;
    if (!without_layout().empty()) {
      ignored.catch_from([&] {
        kolo::give_up(Call("DistributedOptimizer", "allreduce", OpKind::kAllreduce,
                           options.name() + ".layouts", options.process_set()),
                      {}, message);
      });
    }
    for (Unit& unit : units) {
      if (unit.in_flight() || !is_trainable(unit)) continue;
      ignored.catch_from([&] { give_up(unit, message); });
    }
    ignored.catch_from([&] { check_place(); });
    ignored.catch_from([&] { wait_for_all(ignored); });
  }
  synchronized = false;
  leave_pass(ignored);
}

void GradientReducer::State::leave_pass(FirstError& error) {
  pass = nullptr;
  const at::NoGradGuard no_grad;
  for (Parameter& parameter : parameters) {
    parameter.known = parameter.known || parameter.reached;
    parameter.reached = false;
    parameter.prepared = false;
    if (!parameter.reduced_part.defined()) continue;
    // Not reduced in this pass. Each rank keeps its share, so that a later reduction gives it back.
    error.catch_from([&] {
      const double share = share_of_reduced();
      if (share != 1.0) parameter.reduced_part.mul_(share);
      add_reduced_part(parameter);
    });
    parameter.reduced_part = at::Tensor();
  }
}

// --- reduction ---

void GradientReducer::State::give_up(Unit& unit, const std::string& why) const {
  if (std::exchange(unit.given_up, true)) return;
  const auto tell = [&](OpKind kind, const std::string& name) {
    kolo::give_up(Call("DistributedOptimizer", name_of(kind), kind, name, options.process_set()),
                  {}, why);
  };
  bool dense = false;
  for (const std::size_t member : unit.members) {
    const Parameter& parameter = parameters[member];
    if (!parameter.tensor.requires_grad()) continue;
    if (parameter.layout == Layout::kSparse) {
      tell(OpKind::kAllgather, parameter.name + ".sparse");
    } else {
      dense = true;
    }
  }
  if (dense) tell(OpKind::kAllreduce, unit.name);
}

// A join() of this process set has ended since the last reduction.
void GradientReducer::State::notice_join() {
  const auto running = session_or_null();
  if (running == nullptr) return;
  const std::uint64_t ended = unnamed_names(*running, options.process_set()).joins();
  if (ended == joins) return;
  joins = ended;
  passes = 0;
  steps = 0;
  reductions = 0;
  layouts_agreed = false;
}

void GradientReducer::State::submit_place() {
  ranks_in_reduction = options.process_set().size();
  if (ranks_in_reduction == 1) return;
  place = allreduce_async_(
      to_compare({steps, reductions, options.average_over_joined() ? 1 : 0}),
      AllreduceOptions(place_name()).op(ReduceOp::Sum).process_set(options.process_set()));
}

// Throws on all ranks or on none.
void GradientReducer::State::check_place() {
  auto compared = std::exchange(place, {});
  if (!compared) return;
  const at::Tensor sums = compared->wait();
  ranks_in_reduction = sums[0].item<std::int64_t>();
  if (are_equal(sums)) return;
  const std::int64_t over_joined = options.average_over_joined() ? 1 : 0;
  const at::Tensor all = allgather(
      at::tensor({std::int64_t{rank()}, steps, reductions, over_joined}, at::kLong).view({1, 4}),
      OperationOptions(place_name() + ": which one").process_set(options.process_set()));
  const auto places = all.accessor<std::int64_t, 2>();
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> ranks_at;
  for (std::int64_t i = 0; i < all.size(0); ++i)
    ranks_at[{places[i][1], places[i][2]}].push_back(static_cast<int>(places[i][0]));
  if (ranks_at.size() == 1) {
    throw MismatchError("DistributedOptimizer '" + options.name() +
                        "': the option average_over_joined differs between ranks");
  }
  std::string text;
  for (const auto& [at, who] : ranks_at) {
    if (!text.empty()) text += "; ";
    text += "backward() " + std::to_string(at.second + 1) + " of step " +
            std::to_string(at.first + 1) + " on " + rank_list(who);
  }
  throw MismatchError("DistributedOptimizer '" + options.name() +
                      "': the ranks reduce gradients of different passes: " + text +
                      ". All ranks must call backward() and step() equally often. Add losses up "
                      "before one backward(); a rank with fewer batches calls join()");
}

// The parameters whose layout the ranks have to agree on before the next reduction.
std::vector<GradientReducer::State::Parameter*> GradientReducer::State::without_layout() {
  std::vector<Parameter*> found;
  for (Parameter& parameter : parameters) {
    const bool known = layouts_agreed && parameter.layout != Layout::kUnknown;
    if (parameter.tensor.requires_grad() && !known) found.push_back(&parameter);
  }
  return found;
}

// A gradient is exchanged as sparse if it is sparse on some ranks and dense on none. If no rank has
// one yet, later ones are made dense. The ranks also compare the orders in which they store
// dimensions.
void GradientReducer::State::agree_on_layouts() {
  const std::vector<Parameter*> unknown = without_layout();
  if (unknown.empty()) return;
  enum Column : std::uint8_t { kIsDense, kIsSparse, kOrder, kMinusOrder, kColumns };
  at::Tensor seen = at::zeros({static_cast<std::int64_t>(unknown.size()), kColumns}, at::kLong);
  auto mine = seen.accessor<std::int64_t, 2>();
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    auto row = mine[static_cast<std::int64_t>(i)];
    const at::Tensor& tensor = unknown[i]->tensor;
    row[kOrder] = code_of_order(tensor);
    row[kMinusOrder] = -row[kOrder];
    const at::Tensor& gradient = tensor.grad();
    const bool has_layout = unknown[i]->layout != Layout::kUnknown;
    if (!has_layout && !gradient.defined()) continue;
    const bool sparse = has_layout ? unknown[i]->layout == Layout::kSparse
                                   : gradient.is_sparse() && !options.sparse_as_dense();
    row[sparse ? kIsSparse : kIsDense] = 1;
  }
  seen = allreduce(seen, AllreduceOptions(options.name() + ".layouts")
                             .op(ReduceOp::Max)
                             .process_set(options.process_set()));
  const auto most = seen.accessor<std::int64_t, 2>();
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    const auto row = most[static_cast<std::int64_t>(i)];
    const bool is_sparse = row[kIsSparse] == 1 && row[kIsDense] == 0;
    unknown[i]->layout = is_sparse ? Layout::kSparse : Layout::kDense;
    unknown[i]->order_differs = row[kOrder] != -row[kMinusOrder];
  }
  layouts_agreed = true;
}

// If the ranks cannot agree on layouts, units with a known layout are submitted all the same,
// because other ranks may have sent theirs already. All ranks give the other units up.
void GradientReducer::State::submit_rest(FirstError& error) {
  bool agreed = false;
  error.catch_from([&] {
    // A rank in another pass may know other layouts.
    if (!without_layout().empty()) check_place();
    agree_on_layouts();
    agreed = true;
  });
  error.catch_from([&] { submit_missing(error); });
  if (agreed) return;
  for (Unit& unit : units) {
    if (unit.in_flight() || !is_trainable(unit)) continue;
    error.catch_from([&] { give_up(unit, "the ranks have not agreed on its layout"); });
  }
}

void GradientReducer::State::reduce(FirstError& error) {
  notice_join();
  error.catch_from([&] { submit_place(); });
  submit_rest(error);
  error.catch_from([&] { check_place(); });
  error.catch_from([&] { wait_for_all(error); });
}

// Marks all gradients as reduced: they are equal on all ranks, whatever the program has done to
// them since. A later addition is reduced alone, so every parameter needs the hook before
// accumulation.
void GradientReducer::State::remember_reduced() {
  for (Parameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    if (!tensor.requires_grad() || !tensor.grad().defined()) continue;
    parameter.reduced = SeenTensor(tensor.grad());
    if (parameter.accumulator != torch::autograd::impl::grad_accumulator(tensor))
      parameter.accumulator = hook_before_accumulation(tensor);
  }
}

// Leaves a gradient in place that has changed since it was marked: it is the rank's own
// contribution to the next reduction.
void GradientReducer::State::set_reduced_part_aside(Parameter& parameter) {
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  const SeenTensor reduced = std::exchange(parameter.reduced, {});
  if (gradient.defined() && reduced.is_unchanged(gradient))
    parameter.reduced_part = std::exchange(gradient, {});
}

// Adds the new part to the reduced part, which becomes the gradient.
void GradientReducer::State::add_reduced_part(Parameter& parameter) const {
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  at::Tensor part = std::exchange(parameter.reduced_part, {});
  if (!part.defined()) return;
  if (gradient.defined()) use_on_device(gradient);  // it may be freed before the device has read it
  if (!gradient.defined()) {
    gradient = part;
  } else if (part.is_sparse() && !gradient.is_sparse()) {
    gradient = gradient + part;  // a dense tensor cannot be added to a sparse one in place
  } else {
    gradient = part.add_(gradient);
  }
}

// The factor by which a rank scales a reduced gradient that it contributes to another reduction, so
// that the result contains the gradient once.
double GradientReducer::State::share_of_reduced() const {
  return options.op() == ReduceOp::Sum ? 1.0 / options.process_set().size() : 1.0;
}

// Returns the factor that turns an average over all ranks into one over the ranks that took part.
double GradientReducer::State::correction_for_joined() const {
  if (options.average_over_joined()) return 1.0;
  return static_cast<double>(options.process_set().size()) /
         static_cast<double>(ranks_in_reduction);
}

void GradientReducer::State::leave_joined_out() {
  const double factor = correction_for_joined();
  if (factor == 1.0) return;
  std::vector<at::Tensor> dense;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& gradient = parameter.tensor.grad();
    if (!parameter.tensor.requires_grad() || !gradient.defined()) continue;
    if (parameter.layout == Layout::kSparse) {
      parameter.tensor.mutable_grad() = gradient * factor;
    } else {
      dense.push_back(gradient);
    }
  }
  if (!dense.empty()) at::_foreach_mul_(dense, factor);
}

bool GradientReducer::State::has_layouts(const Unit& unit) const {
  return std::all_of(unit.members.begin(), unit.members.end(), [&](std::size_t member) {
    const Parameter& parameter = parameters[member];
    return !parameter.tensor.requires_grad() ||
           (layouts_agreed && parameter.layout != Layout::kUnknown);
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
  gradient = in_layout(parameter, gradient);
  // Autograd's gradients have the parameter's strides. One that the program has set may not.
  const bool is_comparable =
      gradient.layout() == at::kStrided && gradient.sizes() == parameter.tensor.sizes();
  if (is_comparable && !torch::autograd::utils::obeys_layout_contract(gradient, parameter.tensor))
    gradient = torch::autograd::utils::clone_obey_contract(gradient.detach(), parameter.tensor);
  if (!gradient.is_same(parameter.tensor.grad())) parameter.tensor.mutable_grad() = gradient;
  if (shares_storage(parameter, gradient))
    return parameter.tensor.mutable_grad() = gradient.clone();
  return gradient;
}

// Autograd may give two parameters views of one storage as gradients (those of a sum, say), which
// is fine for reading; reduced in place, it would be reduced twice. A gradient that was there
// before this pass is not in autograd's hand.
bool GradientReducer::State::shares_storage(const Parameter& parameter,
                                            const at::Tensor& gradient) const {
  if (gradient.is_sparse() || !gradient.has_storage()) return false;
  const bool just_came = in_hook == &parameter && parameter.is_new;
  return gradient.storage().use_count() > (just_came ? references_when_accumulated() : 1);
}

at::Tensor GradientReducer::State::in_layout(const Parameter& parameter,
                                             const at::Tensor& gradient) const {
  const bool dense = options.sparse_as_dense() || parameter.layout == Layout::kDense;
  if (gradient.is_sparse() && dense) return gradient.to_dense();
  if (!gradient.is_sparse() && parameter.layout == Layout::kSparse) return gradient.to_sparse(1);
  return gradient;
}

void GradientReducer::synchronize() {
  if (state_->reduces_steps() || is_fork_of_rank()) return;
  const MutexLock lock(state_->mutex);
  if (state_->synchronized) return;
  const timeline::nvtx::Scope range("waits for gradients");
  FirstError error;
  state_->reduce(error);
  error.rethrow();
  state_->synchronized = true;
}

void GradientReducer::synchronize_unless_done() {
  {
    const MutexLock lock(state_->mutex);
    state_->passes = 0;
    if (!state_->synchronized && state_->skip > 0) return;
  }
  synchronize();
  const MutexLock lock(state_->mutex);
  // Reducing equal gradients again changes nothing, except for Sum.
  if (state_->share_of_reduced() != 1.0) state_->remember_reduced();
  state_->synchronized = false;
}

void GradientReducer::forget_gradients() {
  const MutexLock lock(state_->mutex);
  state_->synchronized = false;
  state_->passes = 0;
  for (State::Parameter& parameter : state_->parameters) parameter.reduced = {};
}

void GradientReducer::check_no_reduction_in_flight(const char* call) const {
  if (is_fork_of_rank()) return;
  MutexLock lock(state_->mutex);
  for (const State::Unit& unit : state_->units) {
    if (!unit.in_flight()) continue;
    throw InvalidArgumentError(std::string(call) + "() during backward(): the gradient of " +
                               state_->parameters[unit.members[0]].name +
                               " is being reduced; call it before backward() or after it");
  }
}

at::Tensor GradientReducer::average_loss(const at::Tensor& loss) {
  if (!loss.defined() || is_fork_of_rank()) return loss;
  const at::Tensor mean = allreduce(loss, AllreduceOptions(state_->options.name() + ".loss")
                                              .process_set(state_->options.process_set()));
  const MutexLock lock(state_->mutex);
  return mean * state_->correction_for_joined();
}

void GradientReducer::set_skip(bool skip) {
  if (state_->reduces_steps()) {
    throw InvalidArgumentError(state_->options.name() +
                               ": skip_synchronize() with Adasum, where step() itself is what is "
                               "reduced; without it ranks would part. Gradients are this rank's "
                               "own: clip them before step()");
  }
  MutexLock lock(state_->mutex);
  state_->skip += skip ? 1 : -1;
}

void GradientReducer::end_step(torch::optim::Optimizer& base) {
  const auto running = session_or_null();
  NamedTensors compared;
  {
    const MutexLock lock(state_->mutex);
    ++state_->steps;
    state_->reductions = 0;
    if (state_->compares_after_step()) {
      const std::size_t prefix = (state_->options.name() + ".gradient.").size();
      for (const State::Parameter& parameter : state_->parameters)
        compared.emplace_back(parameter.name.substr(prefix), parameter.tensor);
    }
  }
  if (running != nullptr) running->engine().tracing().end_step(this);
  state_->broadcast_buffers();
  if (compared.empty()) return;
  // With Adasum each rank makes its own steps, so the states differ.
  const std::string& name = state_->options.name();
  check_in_sync("DistributedOptimizer '" + name + "'", compared, {},
                reduces_steps() ? nullptr : &base,
                OperationOptions(name + ".in_sync").process_set(state_->options.process_set()));
}

void GradientReducer::State::broadcast_buffers() const {
  const ProcessSet& set = options.process_set();
  if (options.broadcast_buffers().empty() || is_fork_of_rank() || set.size() == 1) return;
  grouped_broadcast_(options.broadcast_buffers(), set.ranks()[0],
                     OperationOptions(options.name() + ".buffers").process_set(set));
}

// Returns whether the ranks compare their parameters after this step.
bool GradientReducer::State::compares_after_step() const {
  const auto running = session_or_null();
  if (running == nullptr || options.process_set().size() == 1) return false;
  const std::int64_t every = options.check_in_sync_every() > 0 ? options.check_in_sync_every()
                                                               : running->config().check_in_sync;
  return every > 0 && steps % every == 0;
}

void GradientReducer::set_no_sync(bool no_sync) {
  MutexLock lock(state_->mutex);
  state_->no_sync += no_sync ? 1 : -1;
}

}  // namespace kolo::detail
