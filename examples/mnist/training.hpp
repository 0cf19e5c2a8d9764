#pragma once

#include <kolo/kolo.h>

#include "metrics.hpp"
#include "net.hpp"
#include "options.hpp"

namespace mnist {

// Trains on this rank's share of the data and tests after each epoch. Collective.
class Training {
 public:
  explicit Training(const Options& options);

  void run();
  // Rank 0 saves the weights.
  void save();

 private:
  void train_epoch(std::int64_t epoch);
  double train_batch(const torch::data::Example<>& batch);
  void report_batch(std::int64_t epoch, std::int64_t batch, double loss);
  void test(std::int64_t epoch);

  const Options options_;
  const std::chrono::steady_clock::time_point begin_;
  kolo::data::MNIST train_set_;
  kolo::data::MNIST test_set_;
  kolo::DistributedSampler sampler_;
  const std::int64_t steps_per_epoch_;
  Net net_;
  kolo::DistributedOptimizer<kolo::optim::Adadelta> optimizer_;
  torch::optim::StepLR scheduler_;
  Metrics metrics_;
  ProgressLine progress_;
  std::chrono::steady_clock::time_point interval_begin_;
  std::int64_t interval_images_ = 0;
};

}  // namespace mnist
