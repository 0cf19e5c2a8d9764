#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>

namespace kolo::detail {

// Recognises a tensor that was seen before, and whether it has been changed since, by its counter
// of changes. Does not keep the tensor's memory: a gradient that nobody else holds is freed at
// once.
class SeenTensor {
 public:
  // Recognises no tensor.
  SeenTensor() = default;
  // A tensor made in inference mode has no counter and is not recognised.
  explicit SeenTensor(const at::Tensor& tensor)
      : tensor_(tensor.unsafeGetTensorImpl()), changes_(tensor_->version_counter()) {
    if (changes_.enabled()) version_ = changes_.current_version();
  }

  explicit operator bool() const { return changes_.enabled(); }

  // While the counter has another owner, the tensor's address cannot belong to a newer tensor.
  bool is(const at::Tensor& tensor) const {
    return tensor.unsafeGetTensorImpl() == tensor_ && changes_.enabled() && !changes_.unique();
  }
  bool is_unchanged(const at::Tensor& tensor) const {
    return is(tensor) && changes_.current_version() == version_;
  }

 private:
  const c10::TensorImpl* tensor_ = nullptr;
  c10::VariableVersion changes_;
  std::uint32_t version_ = 0;
};

}  // namespace kolo::detail
