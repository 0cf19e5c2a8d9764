#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>

namespace kolo::detail {

// Recognises a tensor that was seen before, unless it has been changed since. Does not keep the
// tensor's memory.
class SeenTensor {
 public:
  // Recognises no tensor.
  SeenTensor() = default;
  // A tensor made in inference mode does not count its changes and is not recognised.
  explicit SeenTensor(const at::Tensor& tensor) : tensor_(tensor.getIntrusivePtr()) {
    has_version_ = tensor.defined() && !tensor.is_inference();
    if (has_version_) version_ = tensor._version();
  }

  bool is_same(const at::Tensor& tensor) const {
    return tensor_._unsafe_get_target() == tensor.unsafeGetTensorImpl();
  }
  bool is_unchanged(const at::Tensor& tensor) const {
    return has_version_ && is_same(tensor) && tensor._version() == version_;
  }
  // Whether it is surely another one, or has been changed. For an undefined tensor: whether
  // it is defined now.
  bool is_changed(const at::Tensor& tensor) const {
    return !is_same(tensor) || (has_version_ && tensor._version() != version_);
  }

 private:
  // While it is held, no other tensor has this address.
  c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl> tensor_{
      c10::intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>()};
  bool has_version_ = false;
  std::int64_t version_ = 0;
};

}  // namespace kolo::detail
