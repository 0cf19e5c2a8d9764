// Trainer: a training loop that runs the same in one process and on all ranks of a job.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <kolo/checkpoint.h>
#include <kolo/data/dataset.h>
#include <kolo/modules.h>
#include <kolo/optim/schedulers.h>
#include <kolo/optimizer.h>
#include <torch/arg.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo {

class Trainer;

// Options of a Trainer. Sizes and counts are those of one rank, unless stated otherwise.
struct TrainerOptions {
  // Number of passes over the training samples.
  TORCH_ARG(std::int64_t, epochs) = 1;
  // Number of samples in a batch of each rank. With accumulate(n) a step has n batches.
  TORCH_ARG(std::int64_t, batch_size) = 32;
  // Number of samples in a validation batch of each rank. 0: batch_size.
  TORCH_ARG(std::int64_t, valid_batch_size) = 0;
  // Number of threads that read samples ahead. 0: the training thread reads samples when it needs
  // them.
  TORCH_ARG(int, workers) = 0;
  // false: each epoch has the samples in the dataset's order.
  TORCH_ARG(bool, shuffle) = true;
  // Leaves out the last batch of an epoch if it is not full.
  TORCH_ARG(bool, drop_last) = false;
  // "cpu"; "cuda": the rank's GPU (see kolo/device.h), or cuda:0 if `distributed` is false;
  // "cuda:1"; or "auto": like "cuda" if kolo was built with CUDA and the process sees a GPU,
  // otherwise "cpu".
  TORCH_ARG(std::string, device) = "auto";
  // at::kBFloat16 or at::kHalf: forward runs under autocast, and with at::kHalf a GradScaler scales
  // the loss. at::kFloat: nothing is cast.
  TORCH_ARG(at::ScalarType, precision) = at::kFloat;
  // Batches per optimizer step. Each sample has the same weight, as in one large batch.
  TORCH_ARG(std::int64_t, accumulate) = 1;
  // Gradients with a larger norm are scaled down to this norm before a step (by a ClipGradNorm). 0:
  // gradients are not clipped.
  TORCH_ARG(double, clip_grad_norm) = 0;
  // false: the process trains alone, with all samples, and the Trainer does not call init(). In a
  // job of several ranks each rank then trains alone; Checkpoints and at::kHalf are errors there.
  TORCH_ARG(bool, distributed) = true;
  // Whether BatchNorm takes the statistics of all ranks' batches: see kolo/sync_batchnorm.h.
  TORCH_ARG(bool, sync_batchnorm) = false;
  // Folder into which rank 0 writes the metrics of each epoch: metrics.csv, metrics.jsonl, and
  // event files for TensorBoard. A new training overwrites the first two. Empty: no files.
  TORCH_ARG(std::string, log_directory) = "";
  // Whether rank 0 prints a line for each epoch, and shows a progress line.
  TORCH_ARG(bool, verbose) = true;
  // Seed for the order of the samples (the same on all ranks) and for dropout and other random
  // numbers (different on each rank). It does not affect the initial parameters.
  TORCH_ARG(std::uint64_t, seed) = 0;
  // If the loss becomes NaN or infinite, computes it once more to name the first module whose
  // output is not finite.
  TORCH_ARG(bool, name_nonfinite) = false;
};

// Unit in which a schedule counts.
enum class Interval : std::uint8_t { Epoch = 0, Step = 1 };

// Progress of a training. The same on all ranks except for `loss` and `stop_reason`.
struct TrainingState {
  std::int64_t epoch = 0;            // the current or the last epoch, counted from 1
  std::int64_t step = 0;             // optimizer steps, including those before a resume
  std::int64_t step_in_epoch = 0;    // optimizer steps of this epoch
  std::int64_t steps_per_epoch = 0;  // number of steps in an epoch
  double loss = 0;                   // of this rank's last batch; on a GPU up to 31 batches old
  double learning_rate = 0;          // of the first parameter group, in the last step
  // Whether nothing is left to do: the last epoch has ended, or a callback has called finish(). If
  // it is false after train(), the training was stopped and can be resumed from a checkpoint.
  bool is_over = false;
  // Why the training ended before its last epoch; empty if it did not.
  std::string stop_reason;
  // The metrics of the last epoch that has ended, as means over all samples of all ranks, in this
  // order: "loss", the program's metrics, the same with the prefix "valid_"; then "learning_rate",
  // "samples_per_second" (of all ranks), "seconds" and "memory_mib" (the largest resident set of a
  // rank's process). NaN from train_begin() until the first epoch has ended.
  std::vector<std::pair<std::string, double>> metrics;

  // Returns the metric of this name. If it does not exist, throws InvalidArgumentError, which lists
  // the names that exist.
  double metric(const std::string& name) const;
};

// Interface that a Trainer calls on all ranks at the same points of the training, so its functions
// may be collective. An exception in one of them leaves train(). The default functions do nothing.
class Callback {
 public:
  Callback() = default;
  virtual ~Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  // Called before the first step. Checkpoints restores the training here, after the other
  // callbacks, so these see the restored state only from epoch_begin() on.
  virtual void train_begin(Trainer& trainer);
  // Called before an epoch's first step, and when a resumed training continues in the middle of an
  // epoch.
  virtual void epoch_begin(Trainer& trainer);
  // Called before backward() of each batch; a step has n batches with accumulate(n). `loss`: this
  // rank's loss of the batch, without loss scaling.
  virtual void backward_begin(Trainer& trainer, const at::Tensor& loss);
  // Called after each backward().
  virtual void backward_end(Trainer& trainer);
  // Called before each step, after its gradients have been reduced. A callback may change them, on
  // all ranks alike. With at::kHalf they are no longer scaled, and may not be finite. With the
  // option clip_grad_norm they have been clipped.
  virtual void gradients_ready(Trainer& trainer);
  // Called after each step.
  virtual void step_end(Trainer& trainer);
  // Called after each whole epoch, when its metrics are known.
  virtual void epoch_end(Trainer& trainer);
  // Called at the end of train(), unless it throws.
  virtual void train_end(Trainer& trainer);
  // Adds the state that this callback needs in a resumed training to a checkpoint. Names begin with
  // `prefix`.
  virtual void add_to(const Trainer& trainer, Checkpoint& checkpoint, const std::string& prefix);
  // Whether it is called after all other callbacks. Return true in a callback that saves or
  // restores the state of other callbacks.
  virtual bool is_last() const { return false; }
};

// Returns the accuracy of a classifier: the share of the samples, 0 to 1, whose largest output is
// that of their class. output [N, C], target [N] of whole numbers; InvalidArgumentError for other
// shapes. The result is a scalar in float32.
at::Tensor accuracy(const at::Tensor& output, const at::Tensor& target);

// Datasets of a training.
struct Datasets {
  data::Dataset train;  // samples to train with; at least a batch for each rank
  data::Dataset valid;  // samples to validate with; may be empty
};

// Trains a module. The same program trains in one process and on all ranks of a job, on a CPU and
// on GPUs. Each rank has its own share of the samples in each epoch, and ranks with batches of B
// samples train as one process with batches of size() * B does.
//
//   torch::nn::Linear model(10, 1);
//   kolo::Trainer trainer(model, torch::nn::MSELoss(), kolo::TrainerOptions().epochs(8));
//   trainer.optimizer<torch::optim::Adam>(torch::optim::AdamOptions(0.02));
//   trainer.schedule(kolo::optim::MultiStepLR({3, 6}));
//   trainer.train({samples, targets});
//
// The Trainer runs the loop of the README and uses only public parts of kolo. Write a training that
// does not fit (several models or optimizers) as such a loop. The Trainer leaves the modes of
// modules as they are (torch::nn::Module::train(), eval()), except during evaluation.
//
// The constructor, optimizer(), train() and evaluate() are collective over all ranks, unless
// `distributed` is false. One thread. A rank that throws ends the job: the other ranks get a
// PeerLostError when it exits.
class Trainer {
 public:
  // A loss or metric. Takes the module's output and the targets of a batch, and returns their mean
  // over the batch's samples, as a tensor with one element. A holder of a LibTorch loss, such as
  // torch::nn::MSELoss(), can be used.
  using Function = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

  // `model`: a holder of a module, a std::shared_ptr to one, or an AnyModule, whose forward() takes
  // a batch's data and returns a tensor. The trainer shares it, moves it to the device, and gives
  // all ranks the parameters and buffers of rank 0.
  // Calls init() unless kolo is initialized or `distributed` is false. InvalidArgumentError for
  // options out of range, which it names, and for a null model or loss.
  template <class Model>
  Trainer(const Model& model, Function loss, const TrainerOptions& options = {})
      : Trainer(detail::pointer_to_module(model), forward_of(model), std::move(loss), options) {}
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // --- what is trained, and how; before train() ---

  // Makes the optimizer, a DistributedOptimizer<Base> unless `distributed` is false, for the
  // module's parameters. `reduction` says how gradients are reduced; its backward_passes_per_step
  // is set by the trainer. Not for optimizers that need a closure (LBFGS). Throws what Base and
  // DistributedOptimizer throw. Like the next functions, returns the trainer.
  template <class Base, class BaseOptions>
  Trainer& optimizer(const BaseOptions& base_options,
                     const DistributedOptimizerOptions& reduction = {}) {
    return make_optimizer<Base>(module().parameters(), base_options, named(reduction));
  }
  // The same for parameter groups, whose gradients are numbered instead of named.
  template <class Base, class BaseOptions>
  Trainer& optimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                     const BaseOptions& base_options,
                     const DistributedOptimizerOptions& reduction = {}) {
    return make_optimizer<Base>(groups, base_options, reduction);
  }
  // Sets how the learning rate changes, and the momentum, if given: see kolo::optim::Scheduler.
  // InvalidArgumentError before optimizer(), a second time, or after train().
  Trainer& schedule(optim::Schedule rates, Interval interval = Interval::Epoch,
                    optim::Schedule momentum = nullptr);
  // Adds a metric to report for each epoch, in training and in validation. Like the loss, it is the
  // mean over a batch, weighted by the number of samples. Before train(). InvalidArgumentError if
  // the name is taken, or is one that TrainingState::metrics uses.
  Trainer& metric(const std::string& name, Function function);
  // Adds a callback. Callbacks are called in the order in which they were added.
  Trainer& callback(std::shared_ptr<Callback> callback);
  // Makes a callback of class C from these arguments, and adds it.
  template <class C, class... Args>
  Trainer& callback(Args&&... args) {
    return callback(std::make_shared<C>(std::forward<Args>(args)...));
  }

  // --- training ---

  // Trains from the current state to the last epoch, or until the training is stopped. After each
  // epoch the module is evaluated with the samples of `valid`, if there are any. Returns the state
  // of the training. If the loss is not finite, throws an Error on all ranks that names step and
  // rank. MismatchError on all ranks if their options, or the sizes of their datasets, differ.
  const TrainingState& train(const data::Dataset& train, const data::Dataset& valid = {});
  // The same. `make` is called once, in this process.
  const TrainingState& train(const std::function<Datasets()>& make);
  // Returns the loss and the metrics over all samples; each rank evaluates its share. Buffers
  // become those of rank 0. InvalidArgumentError if there are no samples; MismatchError if the
  // ranks' datasets differ in size.
  std::vector<std::pair<std::string, double>> evaluate(const data::Dataset& dataset);

  // --- for callbacks ---

  const TrainingState& state() const;     // progress of the training
  const TrainerOptions& options() const;  // as given
  torch::nn::Module& module() const;      // on device()
  // The optimizer. InvalidArgumentError before optimizer() has made one.
  torch::optim::Optimizer& optimizer() const;
  // The scheduler that schedule() has made; null if it was not called.
  const optim::Scheduler* scheduler() const;
  at::Device device() const;  // this rank's
  // Whether this process prints and writes: rank 0, or the only process.
  bool is_root() const;
  // Stops the training after the current step or epoch, on all ranks. Any rank may call it.
  void stop(const std::string& reason);
  // Throws, on all ranks, if the loss of a step so far was not finite. On a GPU it waits for the
  // steps, which train() does only once in a while. Collective; in step_end(), epoch_end() or
  // train_end().
  void check_losses();
  // Like stop(), and marks the training as complete: is_over becomes true, and a program that
  // restores its checkpoint does not continue it.
  void finish(const std::string& reason);
  // Adds the module, the optimizer, the schedule, the callbacks' state and the progress of the
  // training, under names that the trainer chooses. After optimizer(), schedule() and metric().
  void add_to(Checkpoint& checkpoint);

 private:
  using Forward = std::function<at::Tensor(const at::Tensor&)>;

  // An optimizer with the functions of DistributedOptimizer that are not virtual functions of
  // torch::optim::Optimizer.
  struct AnyOptimizer {
    std::shared_ptr<torch::optim::Optimizer> base;
    std::function<void()> zero_grad;
    std::function<void()> synchronize;
    bool has_state_of_each_rank = false;  // ranks make different steps
  };

  Trainer(std::shared_ptr<torch::nn::Module> module, Forward forward, Function loss,
          const TrainerOptions& options);

  template <class Model>
  static Forward forward_of(const Model& model) {
    if constexpr (std::is_same_v<Model, torch::nn::AnyModule>) {
      return [held = model](const at::Tensor& data) mutable { return held.forward(data); };
    } else {
      static_assert(
          detail::refers_to_module<Model>,
          "Trainer takes a holder of a module, a std::shared_ptr to one, or an AnyModule");
      return [held = model](const at::Tensor& data) mutable -> at::Tensor {
        return held->forward(data);
      };
    }
  }

  template <class Base, class Parameters, class BaseOptions>
  Trainer& make_optimizer(const Parameters& parameters, const BaseOptions& base_options,
                          DistributedOptimizerOptions reduction) {
    if (options().distributed()) {
      reduction.backward_passes_per_step(static_cast<int>(options().accumulate()));
      const auto made =
          std::make_shared<DistributedOptimizer<Base>>(parameters, base_options, reduction);
      set_optimizer({made, [=] { made->zero_grad(); }, [=] { made->synchronize(); },
                     reduction.op() == ReduceOp::Adasum});
    } else {
      const auto made = std::make_shared<Base>(parameters, base_options);
      set_optimizer({made, [=] { made->zero_grad(); }, [] {}});
    }
    return *this;
  }
  DistributedOptimizerOptions named(const DistributedOptimizerOptions& reduction) const;
  void set_optimizer(AnyOptimizer optimizer);
  void check_same_on_ranks(std::size_t train, std::size_t valid) const;

  struct State;
  class Loop;
  std::unique_ptr<State> state_;
};

}  // namespace kolo
