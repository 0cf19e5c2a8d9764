// Checks the samples that a loader has handed out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "benchmarks/data_files.hpp"

namespace kolo::bench {

// Sums over the samples of an epoch.
struct Seen {
  // data: a batch's samples [n, ...], target: their labels [n].
  void add(const at::Tensor& data, const at::Tensor& target);
  // Returns what is wrong; empty if each sample came once. `scale`: the factor of the bytes in the
  // data.
  std::string check(const SampleForm& form, double scale) const;

  std::int64_t count = 0;
  std::int64_t labels = 0;
  double first = 0;   // the sum of the samples' first bytes
  double paired = 0;  // of the products of each sample's first byte and its label
};

}  // namespace kolo::bench
