#include <string>
#include <utility>

#include "kolo/callbacks.h"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/stop.h"

namespace kolo {
namespace {

std::string default_metric(const TrainingState& state) {
  for (const auto& [name, value] : state.metrics) {
    if (name == "valid_loss") return name;
  }
  return "loss";
}

}  // namespace

Checkpoints::Checkpoints(std::string folder, const CheckpointsOptions& options)
    : folder_(std::move(folder)), options_(options) {
  if (options_.every_epochs() < 0 || options_.every_steps() < 0)
    throw InvalidArgumentError("Checkpoints: every_epochs and every_steps must be at least 0");
}

void Checkpoints::train_begin(Trainer& trainer) {
  const std::string& metric = options_.metric();
  if (!metric.empty()) trainer.state().metric(metric);  // throws if it does not exist
  init();
  if (!trainer.options().distributed() && size() > 1) {
    throw InvalidArgumentError(
        "Checkpoints: " + std::to_string(size()) +
        " ranks train by themselves (TrainerOptions::distributed is false), and a checkpoint is "
        "one of all ranks; train with distributed(true), or in a process of its own");
  }
  if (options_.catch_stop_signals()) catch_stop_signals();
  const bool goes_on = std::exchange(trainer_, nullptr) == &trainer && trainer.state().step > 0;
  checkpoint_.reset();  // of a Trainer that may no longer exist
  if (!goes_on) saved_step_ = -1;
  auto checkpoint = std::make_unique<Checkpoint>(folder_, options_.files());
  trainer.add_to(*checkpoint);
  if (goes_on) {
    // train() was called again.
  } else if (options_.resume()) {
    const auto restored = checkpoint->restore();
    if (restored) saved_step_ = restored->step;
  } else if (const auto newest = checkpoint->newest_step()) {
    throw InvalidArgumentError(
        "Checkpoints: " + folder_ + " has a checkpoint of step " + std::to_string(*newest) +
        " already; remove it, give another folder, or go on from it with resume(true)");
  }
  checkpoint_ = std::move(checkpoint);
  trainer_ = &trainer;
}

void Checkpoints::save(Trainer& trainer, std::optional<double> metric) {
  const std::int64_t step = trainer.state().step;
  if (checkpoint_->save(step, metric)) saved_step_ = step;
}

void Checkpoints::step_end(Trainer& trainer) {
  // The last checkpoint of an epoch is saved in epoch_end(), when its metrics are known.
  const TrainingState& state = trainer.state();
  if (options_.every_steps() == 0 || state.step % options_.every_steps() != 0) return;
  if (state.step_in_epoch == state.steps_per_epoch) return;
  trainer.check_losses();
  save(trainer, std::nullopt);
}

void Checkpoints::epoch_end(Trainer& trainer) {
  const TrainingState& state = trainer.state();
  const bool after_epochs =
      options_.every_epochs() > 0 && state.epoch % options_.every_epochs() == 0;
  const bool after_steps = options_.every_steps() > 0 && state.step % options_.every_steps() == 0;
  if (!after_epochs && !after_steps) return;
  const std::string& metric = options_.metric();
  save(trainer, state.metric(metric.empty() ? default_metric(state) : metric));
}

void Checkpoints::train_end(Trainer& trainer) {
  checkpoint_->wait();  // so that the next save is not skipped
  if (saved_step_ != trainer.state().step) save(trainer, std::nullopt);
  checkpoint_->wait();
}

}  // namespace kolo
