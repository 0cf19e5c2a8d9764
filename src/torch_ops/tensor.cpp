#include "torch_ops/tensor.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <numeric>
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

// What an operation works on, kept alive by it.
struct Kept {
  std::vector<at::Tensor> works;
  std::vector<std::pair<at::Tensor, at::Tensor>> copy_back;  // to, from
};

}  // namespace

std::string which(std::size_t index, std::size_t of) {
  return of == 1 ? std::string() : "tensor " + std::to_string(index) + " of ";
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

std::shared_ptr<Operation> make_operation(const std::string& what, const std::string& name,
                                          const std::vector<at::Tensor>& tensors,
                                          Descriptor descriptor) {
  auto operation = std::make_shared<Operation>();
  auto kept = std::make_shared<Kept>();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    const std::string here = which(i, tensors.size()) + what;
    check(here, tensor);
    if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
      refuse(here,
             "elements of the tensor share memory (expand()), so it cannot be written in place; "
             "use tensor.contiguous()");
    }
    descriptor.tensors.push_back({dtype_of(here, tensor.scalar_type()), tensor.sizes().vec()});
    // Without history, so that writing does not meet autograd's checks; the storage is the same.
    const at::Tensor target = tensor.detach();
    const at::Tensor work = target.contiguous();
    if (!work.is_same(target) && work.data_ptr() != target.data_ptr())
      kept->copy_back.emplace_back(target, work);
    operation->tensors.push_back({work.data_ptr(), 0});
    kept->works.push_back(work);
  }
  operation->name = name;
  operation->descriptor = std::move(descriptor);
  if (!kept->copy_back.empty()) {
    operation->finish = [kept] {
      for (const auto& [to, from] : kept->copy_back) to.copy_(from);
    };
  }
  operation->keep_alive = std::move(kept);
  return operation;
}

std::shared_ptr<Operation> make_gather(const std::string& what, const std::string& name,
                                       const std::vector<at::Tensor>& tensors, OpKind kind,
                                       const std::shared_ptr<Gathered>& gathered) {
  auto operation = std::make_shared<Operation>();
  auto kept = std::make_shared<Kept>();
  operation->name = name;
  operation->descriptor.kind = kind;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string here = which(i, tensors.size()) + what;
    check(here, tensors[i]);
    if (tensors[i].dim() == 0) {
      refuse(here, "the tensor has no dimension 0 to gather along; use tensor.reshape({1})");
    }
    const DType dtype = dtype_of(here, tensors[i].scalar_type());
    operation->descriptor.tensors.push_back({dtype, tensors[i].sizes().slice(1).vec()});
    const at::Tensor work = tensors[i].detach().contiguous();
    operation->tensors.push_back({work.data_ptr(), work.size(0)});
    kept->works.push_back(work);
  }
  gathered->tensors.resize(tensors.size());
  gathered->rows.resize(tensors.size());
  operation->make_result = [kept, gathered](std::size_t index,
                                            const std::vector<std::int64_t>& rows) -> void* {
    std::vector<std::int64_t> shape = kept->works[index].sizes().vec();
    shape[0] = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    gathered->rows[index] = rows;
    gathered->tensors[index] = at::empty(shape, kept->works[index].options());
    return gathered->tensors[index].data_ptr();
  };
  operation->keep_alive = std::move(kept);
  return operation;
}

at::Tensor working_copy(const std::string& what, const at::Tensor& tensor) {
  check(what, tensor);
  return tensor.detach().clone(at::MemoryFormat::Contiguous);
}

}  // namespace kolo
