// The members of a Trainer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/mixed_precision.h"
#include "kolo/trainer.h"
#include "trainer/epoch_means.hpp"
#include "trainer/step_agreement.hpp"

namespace kolo {
namespace trainer {

constexpr std::size_t kBatchesPerFetch = 32;  // for losses on a GPU

}  // namespace trainer

// The module, what trains it, and the progress of training.
struct Trainer::State {
  State(std::shared_ptr<torch::nn::Module> its_module, Forward its_forward, Function its_loss,
        const TrainerOptions& its_options);

  void ask(trainer::Wish asked, const std::string& reason);
  at::Tensor output_of(const data::Batch& batch) const;
  std::vector<at::Tensor> numbers_of(const at::Tensor& output, const data::Batch& batch) const;
  // Calls the function of the callbacks that are last, or that of the others.
  void call(Trainer& trainer, void (Callback::*function)(Trainer&), bool last);
  // Calls the function of all callbacks.
  void call(Trainer& trainer, void (Callback::*function)(Trainer&));
  // Calls `use` with all callbacks, in that same order.
  void call(const std::function<void(Callback&)>& use);
  trainer::EpochMeans& own_means();

  const TrainerOptions options;
  const at::Device device;
  const int ranks;
  const int rank;
  const std::shared_ptr<torch::nn::Module> module;
  const Forward forward;
  const Function loss;
  AnyOptimizer optimizer;
  GradScaler scaler;
  std::unique_ptr<optim::Scheduler> scheduler;
  Interval interval = Interval::Epoch;
  std::vector<std::pair<std::string, Function>> metrics;
  std::vector<std::shared_ptr<Callback>> callbacks;
  TrainingState progress;
  std::int64_t epochs_done = 0;
  std::int64_t samples_done = 0;  // in the current epoch, by all ranks
  std::optional<trainer::EpochMeans> means;
  Loop* loop = nullptr;                      // of the train() call that runs
  trainer::Wish wish = trainer::Wish::GoOn;  // this rank's
  bool is_finished = false;                  // through finish()
  std::string order;                         // describes what determines the order of the samples
  std::string metrics_text;                  // progress.metrics, for a checkpoint
  std::size_t own_callbacks = 0;             // number of the first ones, which options added
};

}  // namespace kolo
