// The command line of kolo-bench.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/operation.hpp"

namespace kolo::bench {

// A command line that cannot be meant. what() says why.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string benchmark;            // its name
  std::optional<std::string> help;  // asked for: print it and do nothing

  // All benchmarks.
  int samples = 0;   // 0: the benchmark chooses
  int warm_up = 5;   // checkpoint: 1
  int calls = 16;    // in a row, of a sample of a small tensor: allreduce, operations and tune
  std::string json;  // file, or empty
  // One that has torch (loading: and h5py), or empty; not allocate, device, idle, optimizer, train,
  // tune.
  std::string python;

  // allocate, allreduce, operations and tune
  std::int64_t min_bytes = 4;          // allocate: 64 KiB
  std::int64_t max_bytes = 256 << 20;  // not allreduce: 64 MiB

  // operations
  std::vector<Operation> only = all_operations();

  // checkpoint
  std::int64_t bytes = 1'000'000'000;
  int tensors = 100;
  std::string folder = ".";

  // device, gradients and optimizer
  std::string model = "resnet50";

  // gradients
  bool as_float16 = false;  // gradients that are sent as float16 take part, too

  // negotiate
  int max_tensors = 10000;

  // tune
  std::string output;  // the table's file, or empty

  // train
  int batch_size = 64;  // a rank
  int steps = 10;       // a sample
};

// Throws UsageError. `arguments` are without the program's name.
Options parse_options(const std::vector<std::string>& arguments);

}  // namespace kolo::bench
