#include <array>
#include <cstdio>
#include <string>

#include "kolo/callbacks.h"

namespace kolo {
namespace {

std::string formatted(const char* form, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

std::string text_of(const std::string& name, double value) {
  if (name == "samples_per_second") return formatted("%.0f samples/s", value);
  if (name == "seconds") return formatted("%.1f s", value);
  if (name == "memory_mib") return formatted("%.0f MiB", value);
  return name + formatted(" %.5g", value);
}

void print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

void ConsoleLog::train_begin(Trainer& trainer) {
  progress_ = std::make_unique<Progress>(ProgressOptions()
                                             .epochs(trainer.options().epochs())
                                             .steps_per_epoch(trainer.state().steps_per_epoch)
                                             .shown(trainer.is_root()));
  has_trained_ = false;
}

void ConsoleLog::epoch_begin(Trainer& /*trainer*/) {
  has_trained_ = true;
}

void ConsoleLog::step_end(Trainer& trainer) {
  const TrainingState& state = trainer.state();
  const TrainerOptions& options = trainer.options();
  progress_->update(state.epoch, state.step_in_epoch, options.batch_size() * options.accumulate(),
                    state.loss);
}

void ConsoleLog::epoch_end(Trainer& trainer) {
  if (!trainer.is_root()) return;
  const TrainingState& state = trainer.state();
  std::string line =
      "epoch " + std::to_string(state.epoch) + "/" + std::to_string(trainer.options().epochs());
  const char* separator = ": ";
  for (const auto& [name, value] : state.metrics) {
    line += separator + text_of(name, value);
    separator = ", ";
  }
  progress_->clear();
  print(line);
}

void ConsoleLog::train_end(Trainer& trainer) {
  progress_->clear();
  const TrainingState& state = trainer.state();
  if (!trainer.is_root()) return;
  const std::string step = " after step " + std::to_string(state.step);
  if (!has_trained_) print("nothing is left to train: the training has ended" + step);
  if (!state.stop_reason.empty())
    print("stopped in epoch " + std::to_string(state.epoch) + step + ": " + state.stop_reason);
}

}  // namespace kolo
