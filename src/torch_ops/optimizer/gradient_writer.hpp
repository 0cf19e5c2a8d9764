#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>

#include "torch_ops/optimizer/copy_batch.hpp"

namespace kolo::detail {

// Returns zeros with the strides that autograd's gradient would have.
at::Tensor zeros_for(const at::Tensor& parameter);

// Writes the results of one reduction to the gradients.
class GradientWriter {
 public:
  // Makes the parameter's gradient equal to `values`, which have the shape of the parameter. The
  // copy is made later, and not at all if `values` is the gradient itself.
  //
  // A gradient that lies in memory of the program's own stays there, unless it cannot be written
  // (expand()), or its memory belongs to another gradient that was written before: other ranks may
  // have different gradients for the two parameters. It then gets memory of its own.
  void write(const at::Tensor& parameter, const at::Tensor& values);
  // Makes the copies, on all devices.
  void finish() { copies_.run(); }
  // Makes them if the last gradient that is copied lies on the host.
  void finish_host();

 private:
  bool is_taken(const at::Tensor& gradient);

  CopyBatch copies_;
  bool on_host_ = false;
  std::map<const std::byte*, const std::byte*> taken_;  // begin and end of memory that is shared
};

}  // namespace kolo::detail
