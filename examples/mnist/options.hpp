#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mnist {

struct Options {
  std::string data;
  std::int64_t epochs = 9;
  std::int64_t batch_size = 64;  // of each rank
  std::int64_t test_batch_size = 1000;
  double lr = 1.0;
  double gamma = 0.7;
  std::uint64_t seed = 1;
  std::string device = "cpu";
  int threads = 0;  // 0: LibTorch's choice
  std::int64_t log_interval = 200;
  std::string out = "mnist_cnn.pt";
  std::string metrics;
  bool progress = false;
  std::string checkpoint;       // folder; empty: none
  bool resume = false;          // go on from its newest one
  std::int64_t stop_after = 0;  // epochs of this run; 0: no limit
};

// Empty if the program has nothing more to do (--help). Throws boost::program_options::error for
// bad options.
std::optional<Options> parse(int argc, char** argv);

}  // namespace mnist
