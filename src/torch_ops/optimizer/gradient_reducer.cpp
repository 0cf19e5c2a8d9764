#include "torch_ops/optimizer/gradient_reducer.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/exception.hpp"
#include "engine/engine.hpp"
#include "kolo/error.h"
#include "kolo/operations.h"
#include "timeline/nvtx.hpp"
#include "torch_ops/ops/call.hpp"
#include "torch_ops/optimizer/options.hpp"
#include "torch_ops/optimizer/reducible_gradient.hpp"

namespace kolo::detail {

GradientReducer::State::State(DistributedOptimizerOptions given)
    : options(std::move(given)),
      table(options),
      layouts(options, table),
      place(options),
      reduced_parts(table),
      outbox(options, table),
      ready(table),
      step_reduction(table, outbox) {}

// Adds the parameters that the groups have now, and removes those that they do not have any more.
void GradientReducer::State::attach(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  std::size_t count = 0;
  bool is_as_before = true;
  for (const auto& group : groups) {
    for (const at::Tensor& tensor : group.params()) {
      is_as_before =
          is_as_before && count < listed.size() && listed[count] == tensor.unsafeGetTensorImpl();
      ++count;
    }
  }
  if (is_as_before && count == listed.size()) return hook_trainable();
  const auto self = shared_from_this();
  std::vector<const c10::TensorImpl*> now;
  std::vector<at::Tensor> fresh;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& group : groups) {
    for (const at::Tensor& tensor : group.params()) {
      const auto listener = listener_of(tensor);
      if (listener != nullptr && listener != self) {
        throw InvalidArgumentError(
            "parameter " + std::to_string(now.size()) + " of " + options.name() +
            " belongs to another DistributedOptimizer already: its gradient would "
            "be reduced twice; destroy that one first");
      }
      if (listener == nullptr) table.check_dtype(tensor, now.size());
      now.push_back(tensor.unsafeGetTensorImpl());
      if (listener == nullptr && seen.insert(now.back()).second) fresh.push_back(tensor);
    }
  }
  end_failed_reduction();
  remove_others({now.begin(), now.end()});
  if (!fresh.empty()) add(fresh);
  listed = std::move(now);
  hook_trainable();
}

// A parameter that has turned trainable has no hook before accumulation yet.
void GradientReducer::State::hook_trainable() {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!progress[i].accumulator && table[i].tensor.requires_grad())
      progress[i].accumulator = hook_before_accumulation(table[i].tensor);
  }
}

void GradientReducer::State::remove_others(const std::unordered_set<const c10::TensorImpl*>& kept) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const at::Tensor& tensor = table[i].tensor;
    if (!tensor.defined() || kept.count(tensor.unsafeGetTensorImpl()) > 0) continue;
    if (pass != nullptr) {
      throw InvalidArgumentError(table[i].name +
                                 ": the parameter was removed from the optimizer's groups during "
                                 "backward(); remove it before backward() or after it");
    }
    set_listener(tensor, nullptr, 0);
    progress[i] = {};
    outbox.forget(i);
    table.remove(i);
  }
}

void GradientReducer::State::add(const std::vector<at::Tensor>& fresh) {
  // A new parameter's gradient, if it has one, is this rank's own and will be reduced.
  if (synchronized) mark_reduced();
  synchronized = false;
  const std::size_t known = table.size();
  table.add(fresh);
  reduced_parts.grow();
  outbox.grow();
  progress.resize(table.size());
  for (std::size_t i = known; i < table.size(); ++i) {
    set_listener(table[i].tensor, shared_from_this(), i);
    progress[i].accumulator = hook_before_accumulation(table[i].tensor);
  }
}

// --- a pass ---

void GradientReducer::State::before_accumulation(std::size_t index) {
  if (reduces_steps() || is_fork_of_rank()) return;
  const MutexLock lock(mutex);
  if (enter_pass()) {
    if (synchronized) mark_reduced();
    reduced_parts.set_shared_aside();
  }
  const Parameter& parameter = table[index];
  if (progress[index].reached) progress[index].repeats = true;
  if (outbox.has(parameter.unit)) {
    throw InvalidArgumentError(
        "the gradient of " + parameter.name + ", shape " +
        to_string(parameter.tensor.sizes().vec()) +
        ", changes while it is being reduced: a nested backward() reaches the parameter again, "
        "which no earlier backward() did. Run the outer backward() under no_sync(); step() then "
        "reduces the gradients");
  }
  reduced_parts.set_aside(index);
  progress[index].is_new = !parameter.tensor.grad().defined();
  progress[index].prepared = true;
}

void GradientReducer::State::accumulated(std::size_t index, const at::Tensor& gradient) {
  if (reduces_steps() || is_fork_of_rank()) return;
  const MutexLock lock(mutex);
  const bool entered = enter_pass();
  const Parameter& parameter = table[index];
  Progress& mine = progress[index];
  if (!std::exchange(mine.prepared, false)) {  // autograd has made another node
    mine.accumulator = hook_before_accumulation(parameter.tensor);
    mine.is_new = false;
    if (entered && synchronized) {
      throw InvalidArgumentError(
          parameter.name +
          ": the parameter became trainable, or its data changed dtype or device, since gradients "
          "were reduced; call zero_grad() or step() before the next backward()");
    }
  }
  if (parameter.tensor.grad().requires_grad() && options.process_set().size() > 1) {
    throw InvalidArgumentError(
        "the gradient of " + parameter.name +
        " has a graph, from backward() with create_graph; a reduced gradient cannot have a graph. "
        "Compute a penalty from what torch::autograd::grad() returns, and call backward() without "
        "create_graph");
  }
  synchronized = false;
  if (mine.is_new) mine.made = SeenTensor(gradient);
  mine.repeats = mine.repeats || mine.reached;
  mine.reached = true;
  if (!pass_reduces || !may_leave_early(table.units()[parameter.unit])) return;
  in_hook = &parameter;
  FirstError error;
  error.catch_from([&] {
    ready.add(parameter.unit,
              [&](const std::vector<std::size_t>& units) { send_early(units, error); });
  });
  in_hook = nullptr;
  error.rethrow();
}

// Returns whether this is the first hook of the pass.
bool GradientReducer::State::enter_pass() {
  BackwardPass* const current = BackwardPass::current();
  if (pass != nullptr && pass == current) return false;
  const std::string who = "DistributedOptimizer '" + options.name() + "': ";
  if (current == nullptr) {
    throw InvalidArgumentError(who +
                               "another library has replaced autograd's engine since the optimizer "
                               "was made; load that library before the optimizer is made");
  }
  if (pass != nullptr) {
    throw InvalidArgumentError(who +
                               "two threads run a backward() that reaches the optimizer's "
                               "parameters; let one begin after the other has ended");
  }
  if (!current->add(shared_from_this())) throw InvalidArgumentError(who + "backward() has failed");
  end_failed_reduction();
  pass = current;
  notice_join();
  pass_reduces = no_sync == 0 && ++passes >= options.backward_passes_per_step();
  pass_submitted = false;
  return true;
}

// Returns whether the unit can be sent before the pass ends: all of its gradients are there, and
// earlier passes have shown that none of them is reached twice and which are sparse.
bool GradientReducer::State::may_leave_early(const Unit& unit) const {
  return layouts.is_complete(unit) &&
         std::all_of(unit.members.begin(), unit.members.end(), [&](std::size_t member) {
           const Progress& one = progress[member];
           return !table[member].tensor.requires_grad() ||
                  (one.reached && one.known && !one.repeats);
         });
}

void GradientReducer::State::submit() {
  const MutexLock lock(mutex);
  if (!pass_reduces) return;
  FirstError error;
  send_rest(error);
  error.rethrow();
  pass_submitted = true;
}

void GradientReducer::State::wait() {
  const timeline::nvtx::Scope range("waits for gradients");
  const MutexLock lock(mutex);
  FirstError error;
  if (pass_reduces) {
    finish(error);
    ++reductions;
    synchronized = pass_submitted && error.none();
  }
  leave_pass(error);
  error.rethrow();
}

void GradientReducer::State::fail(const std::string& why) {
  const MutexLock lock(mutex);
  FirstError ignored;
  if (pass_reduces) give_up_reduction("backward() ended with an error: " + why);
  synchronized = false;
  leave_pass(ignored);
}

void GradientReducer::State::leave_pass(FirstError& error) {
  pass = nullptr;
  ready.forget();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < progress.size(); ++i) {
    progress[i].known = progress[i].known || progress[i].reached;
    progress[i].reached = false;
    progress[i].prepared = false;
    // A part that is still aside was not reduced in this pass. Each rank keeps its share, so that
    // a later reduction gives the part back.
    if (reduction_has_failed || !reduced_parts.is_aside(i)) continue;
    error.catch_from([&] { reduced_parts.put_back(i, share_of_reduced()); });
  }
}

// --- a reduction ---

void GradientReducer::State::reduce(FirstError& error) {
  notice_join();
  send_rest(error);
  finish(error);
  ++reductions;
}

// Called before anything is sent. A rank that cannot send anything calls it, too, because the
// others wait for the comparison.
void GradientReducer::State::begin_reduction() {
  if (!std::exchange(reduction_has_begun, true)) place.submit();
}

void GradientReducer::State::send(const std::vector<std::size_t>& units, FirstError& error) {
  outbox.send(
      units, [&](std::size_t unit) { return gradients_of(table.units()[unit]); }, error);
}

void GradientReducer::State::send_early(const std::vector<std::size_t>& units, FirstError& error) {
  error.catch_from([&] { begin_reduction(); });
  std::vector<std::size_t> complete;
  std::copy_if(units.begin(), units.end(), std::back_inserter(complete), [&](std::size_t unit) {
    return may_leave_early(table.units()[unit]) && !outbox.has(unit);
  });
  send(complete, error);
}

std::vector<at::Tensor> GradientReducer::State::gradients_of(const Unit& unit) {
  std::vector<at::Tensor> gradients;
  for (const std::size_t member : unit.members) {
    const Parameter& parameter = table[member];
    if (!parameter.tensor.requires_grad()) continue;
    reduced_parts.set_aside(member);
    const bool is_autograds = progress[member].made.is_same(parameter.tensor.grad());
    // Autograd does not refer to a gradient that was there before this pass.
    const bool has_just_come = in_hook == &parameter && progress[member].is_new && is_autograds;
    gradients.push_back(reducible_gradient(
        parameter, options.sparse_as_dense(),
        {has_just_come ? references_when_accumulated() : 1, /*may_replace=*/is_autograds}));
  }
  return gradients;
}

// Sends the parameters that backward() did not reach here, but may have reached on another rank. If
// the ranks cannot agree on layouts, units with a known layout are sent all the same, because other
// ranks may have sent theirs already. All ranks give the other units up.
void GradientReducer::State::send_rest(FirstError& error) {
  error.catch_from([&] {
    const Engine::WaitsAtOnce waits;
    begin_reduction();
  });
  bool agreed = false;
  error.catch_from([&] {
    // A rank in another pass may know other layouts.
    if (!layouts.is_complete()) place.check();
    layouts.complete();
    agreed = true;
  });
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < table.units().size(); ++i) {
    const Unit& unit = table.units()[i];
    if (!outbox.has(i) && table.is_trainable(unit) && layouts.is_complete(unit)) rest.push_back(i);
  }
  std::optional<Engine::WaitsAtOnce> waits;
  if (options.compression().make() == nullptr) waits.emplace();  // a compressor may take long
  send(rest, error);
  waits.reset();
  if (!agreed) give_up_rest("the ranks have not agreed on its layout", error);
}

// Gives up what this rank has not sent, because the other ranks wait for it. Does not wait for what
// it has sent: another rank may be in a collective of its graph, which this one does not reach.
void GradientReducer::State::give_up_reduction(const std::string& why) {
  FirstError ignored;
  // After a comparison that fails, the other ranks do not agree on layouts.
  if (!reduction_has_begun) {
    ignored.catch_from([&] { place.give_up(why); });
  } else if (!layouts.is_complete()) {
    ignored.catch_from([&] {
      Call("DistributedOptimizer", "allreduce", OpKind::kAllreduce, layouts.name(),
           options.process_set())
          .give_up(why);
    });
  }
  give_up_rest(why, ignored);
  ++reductions;
  reduction_has_failed = true;
}

void GradientReducer::State::give_up_rest(const std::string& why, FirstError& error) {
  for (std::size_t i = 0; i < table.units().size(); ++i) {
    if (outbox.has(i) || !table.is_trainable(table.units()[i])) continue;
    error.catch_from([&] { outbox.give_up(i, why); });
  }
}

// Waits for every reduction, so that all gradients are the program's again.
void GradientReducer::State::finish(FirstError& error) {
  wait_for_results(error);
  const at::NoGradGuard no_grad;
  error.catch_from([&] { leave_joined_out(); });
  for (std::size_t i = 0; i < table.size(); ++i)
    error.catch_from([&] { reduced_parts.put_back(i, 1.0); });
  passes = 0;
  ready.forget();
  reduction_has_begun = false;
  place.end_reduction();
}

// Waits for what a failed pass had sent, so that its gradients are the program's again. The error
// that ended the pass was the program's to handle.
void GradientReducer::State::end_failed_reduction() {
  if (!std::exchange(reduction_has_failed, false)) return;
  FirstError ignored;
  finish(ignored);
}

void GradientReducer::State::wait_for_results(FirstError& error) {
  const auto running = session_or_null();
  std::optional<Engine::WaitsForSeveral> waits;
  if (running != nullptr && only_waits()) waits.emplace(running->engine());
  error.catch_from([&] { place.check(); });
  outbox.wait(error);
}

// Returns whether this thread has nothing to do between two waits. A copy would hold the engine up,
// and waiting for a device could take for ever if nobody drives the engine.
bool GradientReducer::State::only_waits() const {
  if (options.compression().dtype() || options.compression().make() != nullptr) return false;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Parameter& parameter = table[i];
    if (!parameter.tensor.requires_grad()) continue;
    if (!parameter.tensor.is_cpu() || parameter.layout != Layout::kDense || parameter.order_differs)
      return false;
  }
  return true;
}

// Starts anew if a join() of this process set has ended since the last reduction.
void GradientReducer::State::notice_join() {
  const auto running = session_or_null();
  if (running == nullptr) return;
  const std::uint64_t ended = unnamed_names(*running, options.process_set()).joins();
  if (ended == joins) return;
  joins = ended;
  passes = 0;
  place.start_over();
  layouts.forget();
}

// Marks all gradients as reduced: they are equal on all ranks, whatever the program has done to
// them since. A later addition is reduced alone, so every parameter needs the hook before
// accumulation.
void GradientReducer::State::mark_reduced() {
  reduced_parts.mark_all();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const at::Tensor& tensor = table[i].tensor;
    if (!tensor.requires_grad() || !tensor.grad().defined()) continue;
    if (progress[i].accumulator != torch::autograd::impl::grad_accumulator(tensor))
      progress[i].accumulator = hook_before_accumulation(tensor);
  }
}

// Returns the factor by which a rank scales a reduced gradient that it contributes to another
// reduction, so that the result contains the gradient once.
double GradientReducer::State::share_of_reduced() const {
  return options.op() == ReduceOp::Sum ? 1.0 / options.process_set().size() : 1.0;
}

// Returns the factor that turns an average over all ranks into one over the ranks that took part.
double GradientReducer::State::correction_for_joined() const {
  if (options.average_over_joined()) return 1.0;
  return static_cast<double>(options.process_set().size()) / static_cast<double>(place.ranks());
}

void GradientReducer::State::leave_joined_out() {
  const double factor = correction_for_joined();
  if (factor == 1.0) return;
  std::vector<at::Tensor> dense;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Parameter& parameter = table[i];
    if (!parameter.tensor.requires_grad() || !parameter.tensor.grad().defined()) continue;
    const at::Tensor& gradient = parameter.tensor.grad();
    if (parameter.layout == Layout::kSparse) {
      parameter.tensor.mutable_grad() = gradient * factor;
    } else {
      dense.push_back(gradient);
    }
  }
  if (!dense.empty()) at::_foreach_mul_(dense, factor);
}

// --- after a step ---

// Counts the step, and returns the tensors that the ranks compare after it.
NamedTensors GradientReducer::State::end_step() {
  place.end_step();
  NamedTensors compared;
  if (!compares_after_step()) return compared;
  const std::size_t prefix = (options.name() + ".gradient.").size();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const at::Tensor& parameter = table[i].tensor;
    if (parameter.defined()) compared.emplace_back(table[i].name.substr(prefix), parameter);
  }
  return compared;
}

// Returns whether the ranks compare their parameters after this step.
bool GradientReducer::State::compares_after_step() const {
  const auto running = session_or_null();
  if (running == nullptr || options.process_set().size() == 1) return false;
  const std::int64_t every = options.check_in_sync_every() > 0 ? options.check_in_sync_every()
                                                               : running->config().check_in_sync;
  return every > 0 && place.steps() % every == 0;
}

void GradientReducer::State::broadcast_buffers() const {
  const ProcessSet& set = options.process_set();
  if (options.broadcast_buffers().empty() || is_fork_of_rank() || set.size() == 1) return;
  grouped_broadcast_(options.broadcast_buffers(), set.ranks()[0],
                     OperationOptions(options.name() + ".buffers").process_set(set));
}

// A rank that does not wait for the loss has failed, too, and gives it up likewise.
void GradientReducer::State::give_up_loss(const std::string& why) const {
  if (is_fork_of_rank() || options.process_set().size() == 1) return;
  FirstError ignored;
  ignored.catch_from([&] {
    Call("DistributedOptimizer", "allreduce", OpKind::kAllreduce, options.name() + ".loss",
         options.process_set())
        .give_up(why);
  });
}

// --- the steps of Adasum ---

void GradientReducer::State::reduce_steps(FirstError& error) {
  error.catch_from([&] { place.submit(); });
  step_reduction.reduce([&] { place.check(); }, error);
  place.end_reduction();
}

// The others wait for the comparison and for the steps.
void GradientReducer::State::give_up_steps(const std::string& why) {
  FirstError ignored;
  ignored.catch_from([&] { place.give_up(why); });
  give_up_rest(why, ignored);
  step_reduction.abandon();
  place.end_reduction();
}

// --- the public part ---

GradientReducer::GradientReducer(DistributedOptimizerOptions options) {
  if (options.name().empty()) {
    options.name("optimizer" + std::to_string(session("DistributedOptimizer")->next_optimizer()));
  }
  if (!options.process_set().included()) {
    throw InvalidArgumentError(options.name() + ": this rank is not a member of process set " +
                               std::to_string(options.process_set().id()) +
                               "; make the optimizer on its members only");
  }
  check_options(options);
  state_ = std::make_shared<State>(std::move(options));
  BackwardPass::watch();
}

GradientReducer::~GradientReducer() {
  if (const auto running = session_or_null()) running->engine().tracing().stop_counting(this);
}

void GradientReducer::attach(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  references_when_accumulated();  // not amid a backward pass
  const MutexLock lock(state_->mutex);
  state_->attach(groups);
}

void GradientReducer::synchronize() {
  if (state_->reduces_steps() || is_fork_of_rank()) return;
  const MutexLock lock(state_->mutex);
  if (state_->synchronized) return;
  state_->end_failed_reduction();
  const timeline::nvtx::Scope range("waits for gradients");
  FirstError error;
  state_->reduce(error);
  error.rethrow();
  state_->synchronized = true;
}

void GradientReducer::synchronize_unless_done() {
  {
    const MutexLock lock(state_->mutex);
    state_->end_failed_reduction();
    state_->passes = 0;
    if (!state_->synchronized && state_->skip > 0) return;
  }
  synchronize();
  if (is_fork_of_rank()) return;
  const MutexLock lock(state_->mutex);
  // Reducing equal gradients again changes nothing, except for Sum.
  if (state_->share_of_reduced() != 1.0) state_->mark_reduced();
  state_->synchronized = false;
}

void GradientReducer::forget_gradients() {
  const MutexLock lock(state_->mutex);
  state_->end_failed_reduction();
  state_->synchronized = false;
  state_->passes = 0;
  state_->reduced_parts.unmark_all();
}

void GradientReducer::check_no_reduction_in_flight(const char* call) const {
  if (is_fork_of_rank()) return;
  const MutexLock lock(state_->mutex);
  state_->end_failed_reduction();
  const std::vector<std::size_t>& ready = state_->ready.units();
  for (std::size_t i = 0; i < state_->table.units().size(); ++i) {
    if (!state_->outbox.has(i) && std::find(ready.begin(), ready.end(), i) == ready.end()) continue;
    throw InvalidArgumentError(std::string(call) + "() during backward(): the gradient of " +
                               state_->table[state_->table.units()[i].members[0]].name +
                               " is being reduced; call it before backward() or after it");
  }
}

// If the closure fails on this rank, the others wait for its gradients or its loss.
at::Tensor GradientReducer::loss_of(const std::function<at::Tensor()>& closure) {
  std::uint64_t before = 0;
  {
    const MutexLock lock(state_->mutex);
    before = state_->reductions;
  }
  at::Tensor loss;
  try {
    loss = closure();
    synchronize_unless_done();
  } catch (...) {
    const std::string why = "the closure ended with an error: " + text_of(std::current_exception());
    const MutexLock lock(state_->mutex);
    const bool reduces = state_->skip == 0 && !state_->synchronized;
    if (state_->reductions == before && reduces && !is_fork_of_rank())
      state_->give_up_reduction(why);
    if (state_->closures_have_loss) state_->give_up_loss(why);
    throw;
  }
  return average_loss(loss);
}

at::Tensor GradientReducer::average_loss(const at::Tensor& loss) {
  state_->closures_have_loss = loss.defined();
  if (!loss.defined() || is_fork_of_rank()) return loss;
  const at::Tensor mean = allreduce(loss, AllreduceOptions(state_->options.name() + ".loss")
                                              .process_set(state_->options.process_set()));
  const MutexLock lock(state_->mutex);
  return mean * state_->correction_for_joined();
}

bool GradientReducer::reduces_steps() const {
  return state_->reduces_steps();
}

at::Tensor GradientReducer::step_and_reduce(const std::function<at::Tensor()>& step) {
  if (is_fork_of_rank() || state_->options.process_set().size() == 1) return step();
  at::Tensor loss;
  try {
    {
      const MutexLock lock(state_->mutex);
      state_->notice_join();
      state_->step_reduction.begin();
    }
    loss = step();
    const MutexLock lock(state_->mutex);
    state_->step_reduction.take_steps();
  } catch (...) {
    const MutexLock lock(state_->mutex);
    state_->give_up_steps("step() ended with an error: " + text_of(std::current_exception()));
    throw;
  }
  {
    const MutexLock lock(state_->mutex);
    FirstError error;
    state_->reduce_steps(error);
    error.rethrow();
  }
  return average_loss(loss);
}

NamedTensors GradientReducer::end_step() {
  const auto running = session_or_null();
  NamedTensors compared;
  {
    const MutexLock lock(state_->mutex);
    compared = state_->end_step();
  }
  if (running != nullptr) running->engine().tracing().end_step(this);
  state_->broadcast_buffers();
  return compared;
}

const DistributedOptimizerOptions& GradientReducer::options() const {
  return state_->options;
}

void GradientReducer::set_skip(bool skip) {
  if (state_->reduces_steps()) {
    throw InvalidArgumentError(state_->options.name() +
                               ": skip_synchronize() with Adasum: Adasum reduces the change that "
                               "step() makes, and without that the ranks would diverge. The "
                               "gradients are this rank's own: clip them before step()");
  }
  const MutexLock lock(state_->mutex);
  state_->skip += skip ? 1 : -1;
}

void GradientReducer::set_no_sync(bool no_sync) {
  const MutexLock lock(state_->mutex);
  state_->no_sync += no_sync ? 1 : -1;
}

}  // namespace kolo::detail
