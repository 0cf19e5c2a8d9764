#include "torch_ops/ops/operation_tensors.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "collectives/nccl/nccl.hpp"
#include "kolo/error.h"
#include "torch_ops/ops/call.hpp"
#include "torch_ops/ops/integers.hpp"
#include "torch_ops/ops/tensor_traits.hpp"

namespace kolo {
namespace {

// Identifies a tensor of a call in messages.
struct Argument {
  const Call& call;
  std::size_t index = 0;  // in the group
  std::size_t count = 1;  // tensors in the group
};

[[noreturn]] void refuse(const Argument& argument, const std::string& why) {
  std::string which;
  if (argument.count > 1) which = "tensor " + std::to_string(argument.index) + " of ";
  throw InvalidArgumentError(which + argument.call.what() + ": " + why);
}

DType checked_dtype(const Argument& argument, at::ScalarType type) {
  if (const std::optional<DType> dtype = dtype_sent(type)) return *dtype;
  refuse(argument,
         std::string("dtype ") + c10::toString(type) +
             " is not supported; convert the tensor to another floating-point, complex or "
             "integer dtype");
}

// Throws for tensors that kolo does not support.
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
  checked_dtype(argument, tensor.scalar_type());
}

void check_writable(const Argument& argument, const at::Tensor& tensor) {
  check(argument, tensor);
  if (!tensor.is_non_overlapping_and_dense() &&
      at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    refuse(argument,
           "elements of the tensor share memory (expand()), so it cannot be written in place; use "
           "tensor.contiguous()");
  }
}

// Fills the spec, which may have been used before, with what the other ranks learn.
void describe(const Argument& argument, const at::Tensor& tensor, at::IntArrayRef shape,
              TensorSpec& spec) {
  spec.dtype = checked_dtype(argument, tensor.scalar_type());
  spec.shape.assign(shape.begin(), shape.end());
  spec.name.clear();
  spec.element.clear();
  spec.order.clear();
  if (!tensor.is_complex()) return;
  spec.shape.push_back(2);  // real and imaginary part
  spec.element = name_of(tensor.scalar_type());
}

class TensorHolder final : public Holder {
 public:
  void let_go() override {
    works.clear();
    copy_back.clear();
  }
  void let_go_behind_results() override {
    for (const at::Tensor& work : works) use_on_device(work);
    for (const Copy& copy : copy_back) use_on_device(copy.to), use_on_device(copy.from);
    let_go();
  }

  struct Copy {
    at::Tensor to;
    at::Tensor from;  // with `average`: the sums
    std::optional<IntegerAverage> average = std::nullopt;
  };

  // The tensors themselves: an alias would make a gradient's storage look shared.
  c10::SmallVector<at::Tensor, 1> works;
  std::vector<Copy> copy_back;
};

// Returns the operation's empty holder, which may remain from its last use.
TensorHolder& holder_of(Operation& operation) {
  if (auto* const holder = dynamic_cast<TensorHolder*>(operation.holder.get())) return *holder;
  auto made = std::make_unique<TensorHolder>();
  TensorHolder& holder = *made;
  operation.holder = std::move(made);
  return holder;
}

// Returns a copy without autograd history, so that writing to it passes autograd's checks.
at::Tensor contiguous_copy(const at::Tensor& tensor, TensorHolder& holder) {
  const at::Tensor target = tensor.detach();
  at::Tensor work = target.resolve_conj().resolve_neg().contiguous();
  holder.copy_back.push_back({target, work});
  return work;
}

at::Tensor numbers_to_average(const Argument& argument, const at::Tensor& tensor,
                              const Descriptor& descriptor, TensorHolder& holder) {
  const IntegerAverage average{descriptor.prescale, descriptor.postscale, argument.call.size()};
  const at::Tensor target = tensor.detach();
  at::Tensor work = average.to_numbers(target);
  holder.copy_back.push_back({target, work, average});
  return work;
}

// Returns what the operation works on: the tensor itself, or a copy. Fills `spec`.
at::Tensor to_work_on(const Argument& argument, const at::Tensor& tensor,
                      const Descriptor& descriptor, TensorSpec& spec, TensorHolder& holder) {
  if (descriptor.op == ReduceOp::Average && is_integer(tensor.scalar_type())) {
    at::Tensor work = numbers_to_average(argument, tensor, descriptor, holder);
    describe(argument, work, work.sizes(), spec);
    spec.element = name_of(tensor.scalar_type());
    return work;
  }
  describe(argument, tensor, tensor.sizes(), spec);
  if (!is_reduced_in_place(tensor)) return contiguous_copy(tensor, holder);
  if (tensor.is_contiguous()) return tensor;
  if (descriptor.kind != OpKind::kAllreduce) return contiguous_copy(tensor, holder);
  spec.order = order_in_memory(tensor);
  return tensor;
}

// Notes the device of the tensors, which are all on the same one, and the point at which they have
// their values: `ready`, or if it is null, the point that this thread's current stream has reached.
void note_device(const Call& call, at::TensorList tensors, Operation& operation,
                 const std::shared_ptr<DevicePoint>& ready) {
  if (tensors[0].is_cpu()) return;
  std::shared_ptr<Device> device;
  throw_if_error(call.session->device().find(tensors[0].device().index(), device));
  operation.descriptor.device = DeviceKind::kCuda;
  put_on_device(ready != nullptr ? ready : point_on_device(*device), operation);
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

void check_tensor(const Call& call, const at::Tensor& tensor) {
  check(Argument{call}, tensor);
}

std::vector<at::Tensor> copies_of(const Call& call, at::TensorList tensors) {
  std::vector<at::Tensor> copies;
  copies.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check(Argument{call, i, tensors.size()}, tensors[i]);
    copies.push_back(tensors[i].detach().clone(at::MemoryFormat::Contiguous));
  }
  return copies;
}

void set_tensors(const Call& call, at::TensorList tensors, Operation& operation,
                 const std::shared_ptr<DevicePoint>& ready) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    check_writable(Argument{call, i, tensors.size()}, tensors[i]);
  check_same_device(call, tensors);
  Descriptor& descriptor = operation.descriptor;
  descriptor.tensors = std::move(operation.old_specs);
  descriptor.tensors.resize(tensors.size());
  TensorHolder& holder = holder_of(operation);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Argument here{call, i, tensors.size()};
    const at::Tensor work = to_work_on(here, tensors[i], descriptor, descriptor.tensors[i], holder);
    operation.tensors.push_back({work.data_ptr(), 0});
    holder.works.push_back(work);
  }
  if (!holder.copy_back.empty()) {
    operation.finish = [&holder] {
      for (const TensorHolder::Copy& copy : holder.copy_back) {
        copy.to.copy_(copy.average ? copy.average->from_sums(copy.from, copy.to.scalar_type())
                                   : copy.from);
      }
    };
  }
  note_device(call, tensors, operation, ready);
}

void set_outside(Operation& operation, std::size_t index, const at::Tensor& values) {
  operation.on_device->outside.resize(operation.tensors.size());
  operation.on_device->outside[index] = {
      static_cast<std::byte*>(values.data_ptr()),
      values.scalar_type() == at::kDouble ? DType::kFloat64 : DType::kFloat32};
  dynamic_cast<TensorHolder&>(*operation.holder).works.push_back(values);
}

void set_rows(const Call& call, const std::vector<at::Tensor>& tensors, Operation& operation,
              const std::shared_ptr<Gathered>& gathered) {
  TensorHolder& holder = holder_of(operation);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Argument here{call, i, tensors.size()};
    check(here, tensors[i]);
    if (tensors[i].dim() == 0) {
      refuse(here, "the tensor has no dimension 0 to gather along; use tensor.reshape({1})");
    }
    describe(here, tensors[i], tensors[i].sizes().slice(1),
             operation.descriptor.tensors.emplace_back());
    const at::Tensor work = tensors[i].detach().resolve_conj().resolve_neg().contiguous();
    operation.tensors.push_back({work.data_ptr(), work.size(0)});
    holder.works.push_back(work);
  }
  check_same_device(call, tensors);
  note_device(call, tensors, operation, nullptr);
  gathered->tensors.resize(tensors.size());
  gathered->rows.resize(tensors.size());
  // This function also keeps the results alive.
  operation.make_result = [&holder, gathered](std::size_t index,
                                              const std::vector<std::int64_t>& rows) -> void* {
    std::vector<std::int64_t> shape = holder.works[index].sizes().vec();
    shape[0] = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    gathered->rows[index] = rows;
    gathered->tensors[index] = at::empty(shape, holder.works[index].options());
    return gathered->tensors[index].data_ptr();
  };
}

}  // namespace kolo
