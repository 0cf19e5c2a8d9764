#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kolo::detail {

// Copies and casts of many tensors, run by few kernels where the tensors are on a device.
class CopyBatch {
 public:
  void add(const at::Tensor& to, const at::Tensor& from) {
    to_.push_back(to);
    from_.push_back(from);
  }
  // Copies what was added, and forgets it.
  void run();

 private:
  std::vector<at::Tensor> to_;
  std::vector<at::Tensor> from_;
};

}  // namespace kolo::detail
