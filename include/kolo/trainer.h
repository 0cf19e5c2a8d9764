// Trainer: the training loop that most programs write, in one process and on all ranks alike.
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
  // Passes over the training samples.
  TORCH_ARG(std::int64_t, epochs) = 1;
  // Samples of each rank in a batch. With accumulate(n) a step has n batches.
  TORCH_ARG(std::int64_t, batch_size) = 32;
  // Samples of each rank in a batch of validation. 0: batch_size.
  TORCH_ARG(std::int64_t, valid_batch_size) = 0;
  // Threads that read samples ahead. 0: the training thread reads them when it needs them.
  TORCH_ARG(int, workers) = 0;
  // false: each epoch has the samples in the dataset's order.
  TORCH_ARG(bool, shuffle) = true;
  // Leaves out the last batch of an epoch if it is not full.
  TORCH_ARG(bool, drop_last) = false;
  // "cpu"; "cuda", the rank's GPU (see kolo/device.h); "cuda:1"; or "auto": the rank's GPU if kolo
  // was built with CUDA and the process sees a GPU, otherwise the CPU.
  TORCH_ARG(std::string, device) = "auto";
  // at::kBFloat16 or at::kHalf: forward runs under autocast, and with at::kHalf a GradScaler scales
  // the loss. at::kFloat: nothing is cast.
  TORCH_ARG(at::ScalarType, precision) = at::kFloat;
  // Batches whose gradients make one step. Their samples count alike, as in one batch of all.
  TORCH_ARG(std::int64_t, accumulate) = 1;
  // Gradients with a larger norm are scaled down to this norm before a step (by a ClipGradNorm). 0:
  // they are not.
  TORCH_ARG(double, clip_grad_norm) = 0;
  // false: the process trains by itself, with all samples, and the Trainer does not call init(). In
  // a job of several ranks each then trains by itself; Checkpoints and at::kHalf are errors there.
  TORCH_ARG(bool, distributed) = true;
  // BatchNorm takes the statistics of all ranks' batches: see kolo/sync_batchnorm.h.
  TORCH_ARG(bool, sync_batchnorm) = false;
  // Rank 0 writes the metrics of each epoch there, as metrics.csv, metrics.jsonl and for
  // TensorBoard. A new training begins the first two anew. Empty: nothing is written.
  TORCH_ARG(std::string, log_directory) = "";
  // Rank 0 prints a line for each epoch, and shows a progress line.
  TORCH_ARG(bool, verbose) = true;
  // Seeds the order of the samples, the same on all ranks, and dropout and other random numbers,
  // other ones on each rank. The program has seeded the parameters.
  TORCH_ARG(std::uint64_t, seed) = 0;
  // If the loss becomes NaN or infinite, computes it once more to name the first module whose
  // output is not finite.
  TORCH_ARG(bool, name_nonfinite) = false;
};

// Unit in which a schedule counts.
enum class Interval : std::uint8_t { Epoch = 0, Step = 1 };

// Progress of a training. The same on all ranks except for `loss` and `stop_reason`.
struct TrainingState {
  std::int64_t epoch = 0;            // under way, or ended last; counts from 1
  std::int64_t step = 0;             // optimizer steps, with those before the training was resumed
  std::int64_t step_in_epoch = 0;    // of these in this epoch
  std::int64_t steps_per_epoch = 0;  // number of steps in an epoch
  double loss = 0;                   // of this rank's last batch; on a GPU it may be 31 batches old
  double learning_rate = 0;          // of the optimizer's first parameter group, in the last step
  // Nothing is left to do: the last epoch has ended, or a callback has called finish(). false after
  // train(): it was stopped, and may go on from a checkpoint.
  bool is_over = false;
  // Why the training ended before its last epoch; empty if it did not.
  std::string stop_reason;
  // The metrics of the epoch that ended last, means over all samples of all ranks: "loss", the
  // program's metrics, the same with "valid_" before them; then "learning_rate",
  // "samples_per_second" (of all ranks), "seconds" and "memory_mib" (the largest resident set of a
  // rank's process). In this order.
  std::vector<std::pair<std::string, double>> metrics;

  // The metric of this name. InvalidArgumentError, with the names that there are, if it does not
  // exist.
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

  // Before the first step. A callback that is last may restore a checkpoint here, so the others
  // find the state of a resumed training in epoch_begin() only.
  virtual void train_begin(Trainer& trainer);
  // Before an epoch's first step, and when a resumed training goes on in the middle of it.
  virtual void epoch_begin(Trainer& trainer);
  // Before the backward() of each batch, of which a step has several with accumulate(n). `loss`:
  // the batch's on this rank, not scaled.
  virtual void backward_begin(Trainer& trainer, const at::Tensor& loss);
  // After each backward().
  virtual void backward_end(Trainer& trainer);
  // Before each step, after its gradients have been reduced. A callback may change them, on all
  // ranks alike. With at::kHalf they are no longer scaled, and may not be finite. With the option
  // clip_grad_norm they have been clipped.
  virtual void gradients_ready(Trainer& trainer);
  // After each step.
  virtual void step_end(Trainer& trainer);
  // After each whole epoch, when its metrics are known.
  virtual void epoch_end(Trainer& trainer);
  // At the end of train(), unless it throws.
  virtual void train_end(Trainer& trainer);
  // Adds to a checkpoint what this callback needs in a resumed training; names begin with `prefix`.
  virtual void add_to(const Trainer& trainer, Checkpoint& checkpoint, const std::string& prefix);
  // Whether it is called after the callbacks that are not last. For those that save or restore the
  // state of others.
  virtual bool is_last() const { return false; }
};

// A metric of classifiers: the share of the samples, 0 to 1, whose largest output is that of their
// class. output [N, C], target [N] of whole numbers; InvalidArgumentError for other shapes. A
// scalar in float32.
at::Tensor accuracy(const at::Tensor& output, const at::Tensor& target);

// Where a training's samples come from.
struct Datasets {
  data::Dataset train;  // at least a batch for each rank
  data::Dataset valid;  // may have no samples
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
// The loop that it runs is that of the README, with kolo's public parts alone; a training that does
// not fit (several models or optimizers) is better written as such a loop. It leaves the modes of
// modules as they are (torch::nn::Module::train(), eval()), but for evaluation.
//
// Constructor, optimizer(), train() and evaluate() are collective over all ranks, unless
// `distributed` is false. One thread. A rank that throws ends the job: the other ranks get a
// PeerLostError when it exits.
class Trainer {
 public:
  // The mean over a batch's samples, a tensor with one element, of what the module makes of them
  // and of the targets. A holder of a LibTorch loss is one.
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
  // The same for parameter groups, whose gradients have numbers for names.
  template <class Base, class BaseOptions>
  Trainer& optimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                     const BaseOptions& base_options,
                     const DistributedOptimizerOptions& reduction = {}) {
    return make_optimizer<Base>(groups, base_options, reduction);
  }
  // How the learning rate changes, and the momentum, if given: see kolo::optim::Scheduler. After
  // optimizer(), otherwise InvalidArgumentError.
  Trainer& schedule(optim::Schedule rates, Interval interval = Interval::Epoch,
                    optim::Schedule momentum = nullptr);
  // A further number to report of each epoch, in training and in validation. Like the loss it is a
  // batch's mean, which is weighted by the batch's number of samples. Before train().
  // InvalidArgumentError for a name that there is already, or that TrainingState::metrics uses.
  Trainer& metric(const std::string& name, Function function);
  // Callbacks are called in the order in which they were added.
  Trainer& callback(std::shared_ptr<Callback> callback);
  // Makes the callback, a C, of these arguments.
  template <class C, class... Args>
  Trainer& callback(Args&&... args) {
    return callback(std::make_shared<C>(std::forward<Args>(args)...));
  }

  // --- training ---

  // Trains from where the training stands to the last epoch, or until it is asked to stop. After
  // each epoch the module is evaluated with the samples of `valid`, if there are any. Returns where
  // the training stands. A loss that is not finite is an Error on all ranks that names step and
  // rank. MismatchError on all ranks if their options, or the sizes of their datasets, differ.
  const TrainingState& train(const data::Dataset& train, const data::Dataset& valid = {});
  // The same. `make` is called once, in this process.
  const TrainingState& train(const std::function<Datasets()>& make);
  // The loss and the metrics over all samples; each rank evaluates its share. Buffers become those
  // of rank 0. InvalidArgumentError if there are no samples; MismatchError if the ranks' datasets
  // differ in size.
  std::vector<std::pair<std::string, double>> evaluate(const data::Dataset& dataset);

  // --- for callbacks ---

  const TrainingState& state() const;     // where the training stands
  const TrainerOptions& options() const;  // as given
  torch::nn::Module& module() const;      // on device()
  // InvalidArgumentError before there is one.
  torch::optim::Optimizer& optimizer() const;
  at::Device device() const;  // this rank's
  // Whether this process prints and writes: rank 0, or the only process.
  bool is_root() const;
  // Stops the training after the step or epoch under way, on all ranks. Any rank may ask.
  void stop(const std::string& reason);
  // The same; nothing is then left to do, also for a program that resumes the training.
  void finish(const std::string& reason);
  // Adds the module, the optimizer, the schedule, the callbacks' state and the place in the
  // training, under names of the trainer's own. After optimizer(), schedule() and metric().
  void add_to(Checkpoint& checkpoint);

 private:
  using Forward = std::function<at::Tensor(const at::Tensor&)>;

  // An optimizer with the functions of DistributedOptimizer that are not virtual functions of
  // torch::optim::Optimizer.
  struct AnyOptimizer {
    std::shared_ptr<torch::optim::Optimizer> base;
    std::function<void()> zero_grad;
    std::function<void()> synchronize;
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
      set_optimizer({made, [=] { made->zero_grad(); }, [=] { made->synchronize(); }});
    } else {
      const auto made = std::make_shared<Base>(parameters, base_options);
      set_optimizer({made, [=] { made->zero_grad(); }, [] {}});
    }
    return *this;
  }
  DistributedOptimizerOptions named(const DistributedOptimizerOptions& reduction) const;
  void set_optimizer(AnyOptimizer optimizer);
  void check_sizes(std::size_t train, std::size_t valid) const;

  struct State;
  class Loop;
  std::unique_ptr<State> state_;
};

}  // namespace kolo
