// Callbacks of a Trainer. Each uses public parts of kolo alone, so a program can write its own in
// the same way.
#pragma once

#include <kolo/checkpoint.h>
#include <kolo/progress.h>
#include <kolo/summary_writer.h>
#include <kolo/trainer.h>
#include <torch/arg.h>
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

// Rank 0 prints a line with the metrics after each epoch, and shows a progress line meanwhile (see
// kolo/progress.h). A Trainer with `verbose` has one.
class ConsoleLog : public Callback {
 public:
  // See Callback.
  void train_begin(Trainer& trainer) override;
  void step_end(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;
  void train_end(Trainer& trainer) override;

 private:
  std::unique_ptr<Progress> progress_;
};

// Rank 0 writes a row of metrics after each epoch: epoch, step, and the metrics, under a header
// line. A new training begins the file anew; a resumed one keeps the rows of the epochs before. A
// file with other columns is renamed to FILE.old. Throws FileError.
class CsvLog : public Callback {
 public:
  // The file, whose folder is made.
  explicit CsvLog(std::string file) : file_(std::move(file)) {}
  // See Callback.
  void epoch_begin(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;

 private:
  const std::string file_;
  bool has_begun_ = false;
};

// The same as JSON lines: {"epoch": 1, "step": 313, "loss": 0.25}. A value that is not finite
// becomes null.
class JsonLog : public Callback {
 public:
  // The file, whose folder is made.
  explicit JsonLog(std::string file) : file_(std::move(file)) {}
  // See Callback.
  void epoch_begin(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;

 private:
  const std::string file_;
  bool has_begun_ = false;
};

// Rank 0 writes the metrics of each epoch for TensorBoard. Throws FileError.
class TensorBoardLog : public Callback {
 public:
  // The folder, which is made.
  explicit TensorBoardLog(std::string folder) : folder_(std::move(folder)) {}
  // See Callback.
  void train_begin(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;
  void train_end(Trainer& trainer) override;

 private:
  const std::string folder_;
  std::unique_ptr<SummaryWriter> writer_;
};

// Scales gradients down before a step if the norm of all of them together is larger than
// `max_norm`, as torch::nn::utils::clip_grad_norm_() does. TrainerOptions::clip_grad_norm adds one.
class ClipGradNorm : public Callback {
 public:
  // `norm_type`: the p of the p-norm; infinity is allowed. InvalidArgumentError for a norm that is
  // not above 0.
  explicit ClipGradNorm(double max_norm, double norm_type = 2);
  // See Callback.
  void gradients_ready(Trainer& trainer) override;

 private:
  const double max_norm_;
  const double norm_type_;
};

// When checkpoints are written, and which stay.
struct CheckpointsOptions {
  // Name, writers, and how many stay. keep_best goes by `metric`.
  TORCH_ARG(CheckpointOptions, files) = {};
  // Epochs between two checkpoints. 0: none after epochs.
  TORCH_ARG(std::int64_t, every_epochs) = 1;
  // Steps between two further checkpoints. 0: none.
  TORCH_ARG(std::int64_t, every_steps) = 0;
  // By which the best are known; the checkpoints after steps have none. Empty: "valid_loss" if
  // there are samples for validation, otherwise "loss".
  TORCH_ARG(std::string, metric) = "";
  // Goes on from the newest checkpoint in the folder, if there is one. false: a folder with
  // checkpoints of this name is an InvalidArgumentError.
  TORCH_ARG(bool, resume) = true;
  // SIGTERM and SIGUSR1 end the training after the step under way: see kolo/stop.h.
  TORCH_ARG(bool, catch_stop_signals) = true;
};

// Writes checkpoints, and goes on from the newest one. A training that is asked to stop (by a
// signal, a time limit, another callback) writes one more. Calls init() if the program has not. The
// program that goes on has the same schedule, metrics and callbacks. Throws what Checkpoint throws,
// and InvalidArgumentError if ranks train by themselves.
class Checkpoints : public Callback {
 public:
  // InvalidArgumentError for options out of range.
  explicit Checkpoints(std::string folder, const CheckpointsOptions& options = {});
  // See Callback.
  void train_begin(Trainer& trainer) override;
  void step_end(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;
  void train_end(Trainer& trainer) override;
  bool is_last() const override { return true; }

 private:
  void save(Trainer& trainer, std::optional<double> metric);

  const std::string folder_;
  const CheckpointsOptions options_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::int64_t saved_step_ = -1;
};

// Whether smaller or larger values of a metric are better.
enum class Better : std::uint8_t { Lower = 0, Higher = 1 };

// Finishes the training when a metric has not become better for some epochs.
class EarlyStopping : public Callback {
 public:
  // `metric`: a name in TrainingState::metrics. `patience`: epochs in a row without a value that is
  // better than the best one by more than `min_delta`. InvalidArgumentError for a patience below 1.
  explicit EarlyStopping(std::string metric, std::int64_t patience = 5,
                         Better better = Better::Lower, double min_delta = 0);
  // See Callback.
  void epoch_end(Trainer& trainer) override;
  void add_to(const Trainer& trainer, Checkpoint& checkpoint, const std::string& prefix) override;

 private:
  const std::string metric_;
  const std::int64_t patience_;
  const double sign_;  // makes smaller values better
  const double min_delta_;
  double best_;
  std::int64_t epochs_without_ = 0;
};

// Stops the training after a time, by the clock of the first rank whose time is over.
class TimeLimit : public Callback {
 public:
  // Counts from the beginning of train(). InvalidArgumentError for a time that is not above 0.
  explicit TimeLimit(std::chrono::duration<double> limit);
  // See Callback.
  void train_begin(Trainer& trainer) override;
  void step_end(Trainer& trainer) override;

 private:
  const std::chrono::duration<double> limit_;
  std::chrono::steady_clock::time_point begin_;
};

// Options of ReduceLROnPlateau, with Python's names and defaults.
struct ReduceLROnPlateauOptions {
  TORCH_ARG(Better, better) = Better::Lower;      // values of the metric
  TORCH_ARG(double, factor) = 0.1;                // of the learning rate, each time
  TORCH_ARG(int, patience) = 10;                  // epochs without a better value that are allowed
  TORCH_ARG(double, threshold) = 1e-4;            // a value must be better by more than this
  TORCH_ARG(bool, threshold_is_relative) = true;  // to the best value
  TORCH_ARG(int, cooldown) = 0;                   // epochs after a reduction that are not counted
  TORCH_ARG(double, min_lr) = 0;                  // of all parameter groups
  TORCH_ARG(double, eps) = 1e-8;                  // a smaller change of the rate is not made
};

// Lowers the learning rate when a metric, which all ranks have in common, has stopped becoming
// better: torch::optim::ReduceLROnPlateauScheduler.
class ReduceLROnPlateau : public Callback {
 public:
  // `metric`: a name in TrainingState::metrics.
  explicit ReduceLROnPlateau(std::string metric, const ReduceLROnPlateauOptions& options = {});
  // See Callback.
  void train_begin(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;
  void add_to(const Trainer& trainer, Checkpoint& checkpoint, const std::string& prefix) override;

 private:
  const std::string metric_;
  const ReduceLROnPlateauOptions options_;
  void make(const Trainer& trainer);

  std::unique_ptr<torch::optim::ReduceLROnPlateauScheduler> scheduler_;
};

}  // namespace kolo
