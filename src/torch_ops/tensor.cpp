#include "torch_ops/tensor.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <numeric>
#include <utility>

#include "collectives/nccl/nccl.hpp"
#include "kolo/error.h"
#include "torch_ops/call.hpp"

namespace kolo {
namespace {

[[noreturn]] void refuse(const Argument& argument, const std::string& why) {
  std::string which;
  if (argument.of > 1) which = "tensor " + std::to_string(argument.index) + " of ";
  throw InvalidArgumentError(which + argument.call.what() + ": " + why);
}

DType dtype_of(const Argument& argument, at::ScalarType type) {
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
    case at::kComplexFloat:
      return DType::kFloat32;
    case at::kDouble:
    case at::kComplexDouble:
      return DType::kFloat64;
    case at::kBool:
      return DType::kBool;
    default:
      break;
  }
  refuse(argument,
         std::string("dtype ") + c10::toString(type) +
             " is not supported; convert the tensor to another floating-point, complex or integer "
             "dtype");
}

// A complex number travels as two real ones, its parts: in the last dimension of the shape that
// other ranks get to know.
void describe(const Argument& argument, const at::Tensor& tensor, at::IntArrayRef shape,
              Descriptor& descriptor, TensorSpec& spec) {
  spec.dtype = dtype_of(argument, tensor.scalar_type());
  spec.shape.assign(shape.begin(), shape.end());
  if (!tensor.is_complex()) return;
  spec.shape.push_back(2);
  // No rank may take them for a real tensor of that shape.
  descriptor.content += descriptor.content.empty() ? "complex tensors (real and imaginary parts in "
                                                     "the last dimension): number "
                                                   : ", ";
  descriptor.content += std::to_string(argument.index);
}

class Kept final : public Holder {
 public:
  void let_go() override {
    works.clear();
    copy_back.clear();
  }
  void let_go_behind_results() override {
    for (const at::Tensor& work : works) use_on_device(work);
    for (const auto& [to, from] : copy_back) use_on_device(to), use_on_device(from);
    let_go();
  }

  // The tensors themselves: whoever asks whether a gradient shares its storage finds no other.
  c10::SmallVector<at::Tensor, 1> works;
  std::vector<std::pair<at::Tensor, at::Tensor>> copy_back;  // to, from
};

// Empty; that of the operation's last use, if it had one.
Kept& kept_by(Operation& operation) {
  if (auto* const kept = dynamic_cast<Kept*>(operation.holder.get())) return *kept;
  auto made = std::make_unique<Kept>();
  Kept& kept = *made;
  operation.holder = std::move(made);
  return kept;
}

// The tensor, or a contiguous copy without history, so that writing does not meet autograd's
// checks. Of a view that LibTorch negates or conjugates when it is read, as imag(conj(z)), a copy,
// too.
at::Tensor to_work_on(const at::Tensor& tensor, Kept& kept) {
  if (tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj()) return tensor;
  const at::Tensor target = tensor.detach();
  at::Tensor work = target.resolve_conj().resolve_neg().contiguous();
  kept.copy_back.emplace_back(target, work);
  return work;
}

// All are on one device, if any of them is on one. When all that prepares them has been put on this
// thread's current stream.
void note_device(const Call& call, at::TensorList tensors, Operation& operation) {
  if (tensors[0].is_cpu()) return;
  std::shared_ptr<Device> device;
  throw_if_error(call.session->cuda_device().find(tensors[0].device().index(), device));
  operation.descriptor.device = DeviceKind::kCuda;
  put_on_device(call.ready != nullptr ? call.ready : point_on_device(*device), operation);
}

void check_same_device(const Call& call, at::TensorList tensors) {
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].device() == tensors[0].device()) continue;
    refuse({call, i, tensors.size()}, "the tensor is on " + tensors[i].device().str() +
                                          ", and the first one of the group on " +
                                          tensors[0].device().str() +
                                          "; make a group for each device");
  }
}

}  // namespace

std::shared_ptr<Operation> operation_of(const Call& call) {
  std::shared_ptr<Operation> operation = Operation::make();
  operation->name = call.name;
  operation->process_set = call.set.id();
  operation->transient = call.transient;
  return operation;
}

void check(const Argument& argument, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(argument, "the tensor is undefined");
  if (tensor.layout() != at::kStrided) {
    refuse(argument, "only dense tensors are supported; use tensor.to_dense()");
  }
  if (!tensor.is_cpu() && !tensor.is_cuda()) {
    refuse(argument, "the tensor is on " + tensor.device().str() +
                         ", but kolo works on CPU and CUDA tensors; use tensor.cpu()");
  }
  const Status cuda = tensor.is_cpu() ? Status::ok() : nccl::available();
  if (!cuda.is_ok())
    refuse(argument, "the tensor is on " + tensor.device().str() + ", but " + cuda.message());
}

std::shared_ptr<Operation> make_operation(const Call& call, at::TensorList tensors,
                                          Descriptor descriptor) {
  std::shared_ptr<Operation> operation = operation_of(call);
  descriptor.tensors = std::move(operation->old_specs);
  descriptor.tensors.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    const Argument here{call, i, tensors.size()};
    check(here, tensor);
    if (!tensor.is_non_overlapping_and_dense() &&
        at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
      refuse(here,
             "elements of the tensor share memory (expand()), so it cannot be written in place; "
             "use tensor.contiguous()");
    }
    TensorSpec& spec = descriptor.tensors[i];
    describe(here, tensor, tensor.sizes(), descriptor, spec);
    spec.name.clear();
  }
  check_same_device(call, tensors);
  Kept& kept = kept_by(*operation);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor work = to_work_on(tensor, kept);
    operation->tensors.push_back({work.data_ptr(), 0});
    kept.works.push_back(work);
  }
  operation->descriptor = std::move(descriptor);
  if (!kept.copy_back.empty()) {
    operation->finish = [&kept] {
      for (const auto& [to, from] : kept.copy_back) to.copy_(from);
    };
  }
  note_device(call, tensors, *operation);
  return operation;
}

void set_outside(Operation& operation, std::size_t index, const at::Tensor& values) {
  operation.on_device->outside.resize(operation.tensors.size());
  operation.on_device->outside[index] = {
      static_cast<std::byte*>(values.data_ptr()),
      values.scalar_type() == at::kDouble ? DType::kFloat64 : DType::kFloat32};
  dynamic_cast<Kept&>(*operation.holder).works.push_back(values);
}

std::shared_ptr<Operation> make_gather(const Call& call, const std::vector<at::Tensor>& tensors,
                                       OpKind kind, const std::shared_ptr<Gathered>& gathered) {
  std::shared_ptr<Operation> operation = operation_of(call);
  Kept& kept = kept_by(*operation);
  operation->descriptor.kind = kind;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Argument here{call, i, tensors.size()};
    check(here, tensors[i]);
    if (tensors[i].dim() == 0) {
      refuse(here, "the tensor has no dimension 0 to gather along; use tensor.reshape({1})");
    }
    describe(here, tensors[i], tensors[i].sizes().slice(1), operation->descriptor,
             operation->descriptor.tensors.emplace_back());
    const at::Tensor work = tensors[i].detach().resolve_conj().resolve_neg().contiguous();
    operation->tensors.push_back({work.data_ptr(), work.size(0)});
    kept.works.push_back(work);
  }
  check_same_device(call, tensors);
  note_device(call, tensors, *operation);
  gathered->tensors.resize(tensors.size());
  gathered->rows.resize(tensors.size());
  // This also keeps what is gathered.
  operation->make_result = [&kept, gathered](std::size_t index,
                                             const std::vector<std::int64_t>& rows) -> void* {
    std::vector<std::int64_t> shape = kept.works[index].sizes().vec();
    shape[0] = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    gathered->rows[index] = rows;
    gathered->tensors[index] = at::empty(shape, kept.works[index].options());
    return gathered->tensors[index].data_ptr();
  };
  return operation;
}

at::Tensor working_copy(const Argument& argument, const at::Tensor& tensor) {
  check(argument, tensor);
  return tensor.detach().clone(at::MemoryFormat::Contiguous);
}

}  // namespace kolo
