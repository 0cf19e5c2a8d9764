#pragma once

#include <torch/torch.h>

#include <chrono>
#include <fstream>
#include <string>

namespace mnist {

double seconds_since(std::chrono::steady_clock::time_point begin);

// What scripts/plot-training reads: a CSV file with a row a rank and interval, written by rank 0.
// Without a path every call does nothing.
class Metrics {
 public:
  Metrics(const std::string& path, bool writes);

  bool wanted() const { return wanted_; }
  // by_rank: [ranks, 2], loss and images/s of each rank.
  void train(std::int64_t epoch, std::int64_t step, double seconds, const torch::Tensor& by_rank);
  void test(std::int64_t epoch, std::int64_t step, double seconds, double loss, double accuracy);

 private:
  const bool wanted_;
  const std::string path_;
  std::ofstream file_;
};

// "epoch 3/9, step 20/31, 812 images/s, loss 0.1234, 12 s left": redrawn on a terminal, else a line
// now and then.
class ProgressLine {
 public:
  ProgressLine(bool shown, std::int64_t epochs, std::int64_t steps_per_epoch);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Whether update() would show something, so that its arguments are worth computing.
  bool due() const;
  void update(std::int64_t epoch, std::int64_t step, double images_per_second, double loss);
  // Before other output.
  void clear();

 private:
  const bool shown_;
  const bool terminal_;
  const std::int64_t epochs_;
  const std::int64_t steps_per_epoch_;
  const std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace mnist
