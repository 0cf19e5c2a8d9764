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

}  // namespace mnist
