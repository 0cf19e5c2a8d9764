// With Adasum each rank makes a step with the gradients that it has, and the steps are reduced in
// their place.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <functional>

#include "torch_ops/gradient_reducer.hpp"

namespace kolo::detail {

bool GradientReducer::reduces_steps() const {
  return state_->reduces_steps();
}

at::Tensor GradientReducer::step_and_reduce(const std::function<at::Tensor()>& step) {
  if (is_fork_of_rank() || state_->options.process_set().size() == 1) return step();
  {
    MutexLock lock(state_->mutex);
    state_->remember_parameters();
  }
  const at::Tensor loss = step();
  {
    MutexLock lock(state_->mutex);
    FirstError error;
    state_->submit_steps(error);
    state_->finish_steps(error);
    error.rethrow();
  }
  return average_loss(loss);
}

void GradientReducer::State::remember_parameters() {
  for (Parameter& parameter : parameters) parameter.start = parameter.tensor.detach().clone();
}

// Every parameter goes back to where it was, so that after an error none has moved alone. The step
// of a frozen one, which may still have a gradient of this rank alone, is forgotten.
void GradientReducer::State::submit_steps(FirstError& error) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> changes;
  changes.reserve(parameters.size());
  for (Parameter& parameter : parameters) {
    const at::Tensor start = std::exchange(parameter.start, {});
    // The parameter may lie in memory in another order on another rank.
    changes.push_back((parameter.tensor.detach() - start).contiguous());
    parameter.tensor.copy_(start);
  }
  std::vector<Departure> departures;
  for (Unit& unit : units) {
    Departure& departure = departures.emplace_back(Departure{&unit, {}});
    for (const std::size_t member : unit.members) {
      const at::Tensor& parameter = parameters[member].tensor;
      if (!parameter.requires_grad()) continue;
      departure.dense.push_back({member, changes[member], {}, !parameter.grad().defined()});
    }
  }
  submit_dense(std::move(departures), error);
}

void GradientReducer::State::finish_steps(FirstError& error) {
  const at::NoGradGuard no_grad;
  WaitsOnDevice results;
  for (Unit& unit : units) {
    if (!unit.reduction) continue;
    error.catch_from([&] {
      for (const Travelling& one : arrived(unit, results))
        parameters[one.parameter].tensor.add_(one.work);
    });
  }
}

}  // namespace kolo::detail
