#include "torch_ops/optimizer/sent_gradient.hpp"

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

#include "torch_ops/optimizer/copy_batch.hpp"

namespace kolo::detail {
namespace {

// Tensors in a buffer begin where the widest loads may.
constexpr std::int64_t kAlignment = 16;

bool is_wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

// A part of the buffer in the shape of `like`, and in its strides if these leave no gaps.
at::Tensor shaped_like(const at::Tensor& like, const at::Tensor& part) {
  return like.is_non_overlapping_and_dense() ? part.as_strided(like.sizes(), like.strides())
                                             : part.view(like.sizes());
}

}  // namespace

void send_as(at::ScalarType type, const std::vector<SentGradient*>& gradients) {
  const auto step = kAlignment / static_cast<std::int64_t>(c10::elementSize(type));
  const auto room = [step](const SentGradient& one) {
    return (one.values.numel() + step - 1) / step * step;
  };
  std::vector<SentGradient*> wide;
  std::int64_t count = 0;
  for (SentGradient* one : gradients) {
    if (!is_wide(one->values)) continue;
    if (!wide.empty() && one->values.device() != wide[0]->values.device()) {
      one->values = one->values.to(type);  // not worth a buffer of its own
      continue;
    }
    wide.push_back(one);
    count += room(*one);
  }
  if (wide.empty()) return;
  const at::Tensor buffer = at::empty({count}, wide[0]->values.options().dtype(type));
  CopyBatch casts;
  std::int64_t begin = 0;
  for (SentGradient* one : wide) {
    const at::Tensor cast = shaped_like(one->values, buffer.narrow(0, begin, one->values.numel()));
    begin += room(*one);
    if (one->values.is_cuda() && one->values.is_contiguous()) {
      one->packed = cast;
    } else {
      casts.add(cast, std::exchange(one->values, cast));
    }
  }
  casts.run();
}

}  // namespace kolo::detail
