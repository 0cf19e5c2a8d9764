#pragma once

#include <kolo/kolo.h>

#include <optional>

#include "metrics.hpp"
#include "net.hpp"
#include "options.hpp"

namespace mnist {

// Trains on this rank's share of the data and tests after each epoch. Collective.
class Training {
 public:
  explicit Training(const Options& options);

  // Returns whether it is done; false: it was asked to stop, and has saved its state.
  bool run();
  // Rank 0 saves the weights.
  void save();

 private:
  void begin_or_resume();
  void checkpoint();
  // Until the end of the epoch; false: asked to stop before.
  bool train_epoch(std::int64_t epoch);
  double train_batch(const torch::data::Example<>& batch);
  void report_batch(std::int64_t epoch, std::int64_t batch, std::int64_t images, double loss);
  void test(std::int64_t epoch);

  const Options options_;
  const std::chrono::steady_clock::time_point begin_;
  kolo::data::MNIST train_set_;
  kolo::data::MNIST test_set_;
  kolo::DistributedSampler sampler_;
  const std::int64_t steps_per_epoch_;
  const torch::Device device_;
  Net net_;
  kolo::DistributedOptimizer<kolo::optim::Adadelta> optimizer_;
  torch::optim::StepLR scheduler_;
  std::optional<kolo::Checkpoint> checkpoint_;
  // Where the training is: in which epoch, after how many steps in all.
  std::int64_t epoch_ = 1;
  std::int64_t step_ = 0;
  Metrics metrics_;
  kolo::Progress progress_;
  std::chrono::steady_clock::time_point interval_begin_;
  std::int64_t interval_images_ = 0;
};

}  // namespace mnist
