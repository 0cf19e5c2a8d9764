#include "torch_ops/optimizer/gradient_writer.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <cstdint>
#include <iterator>
#include <utility>

namespace kolo::detail {

namespace {

bool cannot_be_written(const at::Tensor& gradient) {
  return gradient.is_inference() || at::has_internal_overlap(gradient) == at::MemOverlap::Yes;
}

}  // namespace

at::Tensor zeros_for(const at::Tensor& parameter) {
  const bool is_dense = parameter.is_non_overlapping_and_dense();
  return at::zeros_like(parameter,
                        is_dense ? at::MemoryFormat::Preserve : at::MemoryFormat::Contiguous);
}

void GradientWriter::write(const at::Tensor& parameter, const at::Tensor& values) {
  const at::Tensor& gradient = parameter.grad();
  if (gradient.defined() && values.is_same(gradient)) return;
  if (!gradient.defined() || cannot_be_written(gradient) || is_taken(gradient)) {
    parameter.mutable_grad() = zeros_for(parameter).copy_(values);
    return;
  }
  copies_.add(gradient, values);
  on_host_ = gradient.is_cpu();
}

void GradientWriter::finish_host() {
  if (std::exchange(on_host_, false)) copies_.run();
}

// Returns whether some of the gradient's memory was taken before. Otherwise takes it.
bool GradientWriter::is_taken(const at::Tensor& gradient) {
  if (!gradient.has_storage() || gradient.storage().use_count() == 1 || gradient.numel() == 0)
    return false;
  std::int64_t last = 0;  // element
  for (std::int64_t i = 0; i < gradient.dim(); ++i)
    last += (gradient.size(i) - 1) * gradient.stride(i);
  const auto* const begin = static_cast<const std::byte*>(gradient.const_data_ptr());
  const auto* const end = begin + (last + 1) * static_cast<std::int64_t>(gradient.element_size());
  const auto behind = taken_.lower_bound(end);
  if (behind != taken_.begin() && std::prev(behind)->second > begin) return true;
  taken_.emplace(begin, end);
  return false;
}

}  // namespace kolo::detail
