// Callbacks of a Trainer. Each uses only public parts of kolo, so a program can write its own in
// the same way.
#pragma once

#include <kolo/checkpoint.h>
#include <kolo/progress.h>
#include <kolo/summary_writer.h>
#include <kolo/trainer.h>
#include <torch/arg.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

// Prints a line with the metrics after each epoch on rank 0, and shows a progress line meanwhile
// (see kolo/progress.h). A Trainer with `verbose` has one.
class ConsoleLog : public Callback {
 public:
  // See Callback.
  void train_begin(Trainer& trainer) override;
  void epoch_begin(Trainer& trainer) override;
  void step_end(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;
  void train_end(Trainer& trainer) override;

 private:
  std::unique_ptr<Progress> progress_;
  bool has_trained_ = false;  // in this call of train()
};

// Writes a row of metrics after each epoch on rank 0: epoch, step, and the metrics, under a header
// line. A new training overwrites the file; a resumed one keeps the rows of earlier epochs. A file
// with other columns is renamed to FILE.old. Throws FileError.
class CsvLog : public Callback {
 public:
  // `file`: path of the file. Its folder is created if it does not exist.
  explicit CsvLog(std::string file) : file_(std::move(file)) {}
  // See Callback.
  void epoch_begin(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;

 private:
  const std::string file_;
  bool has_begun_ = false;
};

// Like CsvLog, but writes JSON lines: {"epoch": 1, "step": 313, "loss": 0.25}. A value that is not
// finite becomes null.
class JsonLog : public Callback {
 public:
  // `file`: path of the file. Its folder is created if it does not exist.
  explicit JsonLog(std::string file) : file_(std::move(file)) {}
  // See Callback.
  void epoch_begin(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;

 private:
  const std::string file_;
  bool has_begun_ = false;
};

// Writes the metrics of each epoch for TensorBoard, on rank 0. Throws FileError.
class TensorBoardLog : public Callback {
 public:
  // `folder` is created if it does not exist.
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

// Options of Checkpoints.
struct CheckpointsOptions {
  // Name of the files, the ranks that write, and how many files are kept. keep_best compares
  // `metric`.
  TORCH_ARG(CheckpointOptions, files) = {};
  // Number of epochs between two checkpoints. 0: no checkpoints after epochs.
  TORCH_ARG(std::int64_t, every_epochs) = 1;
  // Number of steps between two additional checkpoints. 0: no checkpoints after steps.
  TORCH_ARG(std::int64_t, every_steps) = 0;
  // Metric by which keep_best compares checkpoints; those written after steps have no metric.
  // Empty: "valid_loss" if there are samples for validation, otherwise "loss".
  TORCH_ARG(std::string, metric) = "";
  // true: continues from the newest checkpoint in the folder, if there is one. false: a folder with
  // checkpoints of this name is an InvalidArgumentError.
  TORCH_ARG(bool, resume) = true;
  // Whether SIGTERM and SIGUSR1 end the training after the current step: see kolo/stop.h.
  TORCH_ARG(bool, catch_stop_signals) = true;
};

// Writes checkpoints, and continues from the newest one. A training that is stopped early (by a
// signal, a time limit, or another callback) writes one more. Calls init() if the program has not.
// The program that continues must have the same schedule, metrics and callbacks. Throws the
// exceptions of Checkpoint, and InvalidArgumentError if ranks train alone (`distributed` is false),
// or if the option `metric` names none that exists. An object may serve one Trainer after another.
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
  const Trainer* trainer_ = nullptr;        // of the last train()
  std::unique_ptr<Checkpoint> checkpoint_;  // of its objects
  std::int64_t saved_step_ = -1;
};

// Whether smaller or larger values of a metric are better.
enum class Better : std::uint8_t { Lower = 0, Higher = 1 };

// Finishes the training when a metric has not improved for some epochs.
class EarlyStopping : public Callback {
 public:
  // `metric`: a name in TrainingState::metrics. `patience`: epochs in a row without a value that is
  // better than the best one by more than `min_delta`. InvalidArgumentError for a patience below 1.
  explicit EarlyStopping(std::string metric, std::int64_t patience = 5,
                         Better better = Better::Lower, double min_delta = 0);
  // See Callback. train_begin() throws InvalidArgumentError if the metric does not exist.
  void train_begin(Trainer& trainer) override;
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

// Stops the training when the time has passed on any rank.
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
  TORCH_ARG(Better, better) = Better::Lower;      // direction in which the metric improves
  TORCH_ARG(double, factor) = 0.1;                // multiplies the learning rate
  TORCH_ARG(int, patience) = 10;                  // epochs without improvement before a reduction
  TORCH_ARG(double, threshold) = 1e-4;            // smallest change that counts as improvement
  TORCH_ARG(bool, threshold_is_relative) = true;  // threshold is a fraction of the best value
  TORCH_ARG(int, cooldown) = 0;                   // epochs after a reduction that do not count
  TORCH_ARG(double, min_lr) = 0;                  // lower bound, for all parameter groups
  TORCH_ARG(double, eps) = 1e-8;                  // smaller changes of the rate are skipped
};

// Lowers the learning rate when a metric has stopped improving, as Python's ReduceLROnPlateau does.
// The metric is the same on all ranks. Not together with Trainer::schedule(), which sets the rate
// anew each time.
class ReduceLROnPlateau : public Callback {
 public:
  // `metric`: a name in TrainingState::metrics.
  explicit ReduceLROnPlateau(std::string metric, const ReduceLROnPlateauOptions& options = {});
  // See Callback. train_begin() throws InvalidArgumentError if the metric does not exist, or if the
  // Trainer has a schedule.
  void train_begin(Trainer& trainer) override;
  void epoch_end(Trainer& trainer) override;
  void add_to(const Trainer& trainer, Checkpoint& checkpoint, const std::string& prefix) override;

 private:
  bool is_better(double value) const;
  void reduce_rates(torch::optim::Optimizer& optimizer) const;

  const std::string metric_;
  const ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t bad_epochs_ = 0;     // in a row
  std::int64_t cooldown_left_ = 0;  // epochs
};

}  // namespace kolo
