#include "torch_ops/tensor.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <utility>

#include "kolo/error.h"

namespace kolo {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw InvalidArgumentError(what + ": " + why);
}

DType dtype_of(const std::string& what, at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return DType::kUint8;
    case at::kChar:
      return DType::kInt8;
    case at::kShort:
      return DType::kInt16;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBfloat16;
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kBool:
      return DType::kBool;
    default:
      break;
  }
  refuse(what,
         std::string("dtype ") + c10::toString(type) +
             " is not supported; convert the tensor to a real floating point or integer dtype "
             "(complex: at::view_as_real)");
}

void check(const std::string& what, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(what, "the tensor is undefined");
  if (tensor.layout() != at::kStrided) {
    refuse(what, "only dense tensors are supported; use tensor.to_dense()");
  }
  if (!tensor.is_cpu()) {
    refuse(what, "the tensor is on " + tensor.device().str() +
                     ", but this kolo works on CPU tensors; use tensor.cpu()");
  }
}

}  // namespace

std::shared_ptr<Operation> make_operation(const std::string& what, const std::string& name,
                                          const at::Tensor& tensor, Descriptor descriptor) {
  check(what, tensor);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    refuse(what,
           "elements of the tensor share memory (expand()), so it cannot be written in place; "
           "use tensor.contiguous()");
  }
  auto operation = std::make_shared<Operation>();
  descriptor.dtype = dtype_of(what, tensor.scalar_type());
  descriptor.shape = tensor.sizes().vec();
  operation->name = name;
  operation->descriptor = std::move(descriptor);
  // Without history, so that writing does not meet autograd's checks; the storage is the same.
  const at::Tensor target = tensor.detach();
  at::Tensor work = target.contiguous();
  if (!work.is_same(target) && work.data_ptr() != target.data_ptr()) {
    operation->finish = [target, work] { target.copy_(work); };
  }
  operation->data = work.data_ptr();
  operation->keep_alive = std::make_shared<at::Tensor>(std::move(work));
  return operation;
}

at::Tensor working_copy(const std::string& what, const at::Tensor& tensor) {
  check(what, tensor);
  return tensor.detach().clone(at::MemoryFormat::Contiguous);
}

}  // namespace kolo
