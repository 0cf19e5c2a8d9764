#include "torch_ops/optimizer/reduced_parts.hpp"

#include <ATen/ATen.h>

#include <utility>

#include "torch_ops/session/process_device.hpp"

namespace kolo::detail {

void ReducedParts::mark_all() {
  any_marked_ = true;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const at::Tensor& tensor = table_[i].tensor;
    if (tensor.requires_grad() && tensor.grad().defined())
      entries_[i].reduced = SeenTensor(tensor.grad());
  }
}

void ReducedParts::unmark_all() {
  any_marked_ = false;
  for (Entry& entry : entries_) entry.reduced = {};
}

void ReducedParts::set_aside(std::size_t index) {
  at::Tensor& gradient = table_[index].tensor.mutable_grad();
  const SeenTensor reduced = std::exchange(entries_[index].reduced, {});
  if (gradient.defined() && reduced.is_unchanged(gradient))
    entries_[index].aside = std::exchange(gradient, {});
}

void ReducedParts::set_shared_aside() {
  if (!any_marked_) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const at::Tensor& tensor = table_[i].tensor;
    if (!tensor.requires_grad()) continue;
    const at::Tensor& gradient = tensor.grad();
    const bool has_storage = gradient.defined() && !gradient.is_sparse() && gradient.has_storage();
    if (has_storage && gradient.storage().use_count() > 1) set_aside(i);
  }
}

void ReducedParts::put_back(std::size_t index, double factor) {
  at::Tensor part = std::exchange(entries_[index].aside, {});
  if (!part.defined()) return;
  if (factor != 1.0) part.mul_(factor);
  at::Tensor& gradient = table_[index].tensor.mutable_grad();
  if (gradient.defined()) use_on_device(gradient);  // it may be freed before the device has read it
  if (!gradient.defined()) {
    gradient = part;
  } else if (part.is_sparse() && !gradient.is_sparse()) {
    gradient = gradient + part;  // a dense tensor cannot be added to a sparse one in place
  } else {
    gradient = part.add_(gradient);
  }
}

}  // namespace kolo::detail
