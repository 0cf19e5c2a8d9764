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
at::Tensor copy_in(at::MemoryFormat format, const at::Tensor& tensor, TensorHolder& holder) {
  const at::Tensor target = tensor.detach();
  at::Tensor work = target.clone(format).resolve_conj().resolve_neg();
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

// Returns, for each tensor of a group, whether it would be reduced where another one is, too. Such
// a tensor is copied. Empty: none does.
std::vector<bool> overlapping(at::TensorList tensors) {
  if (tensors.size() == 1) return {};
  std::vector<std::pair<const std::byte*, std::size_t>> in_memory;  // by where they begin
  in_memory.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].numel() > 0 && is_reduced_in_place(tensors[i]))
      in_memory.emplace_back(static_cast<const std::byte*>(tensors[i].const_data_ptr()), i);
  }
  std::sort(in_memory.begin(), in_memory.end());
  std::vector<bool> overlaps(tensors.size(), false);
  const std::byte* end = nullptr;
  for (const auto& [begin, i] : in_memory) {
    if (begin < end) {
      overlaps[i] = true;
    } else {
      end = begin + tensors[i].nbytes();
    }
  }
  return overlaps;
}

// Returns what the operation works on: the tensor itself, or a copy. Fills `spec`.
at::Tensor to_work_on(const Argument& argument, const at::Tensor& tensor, bool overlaps,
                      const Descriptor& descriptor, TensorSpec& spec, TensorHolder& holder) {
  if (descriptor.op == ReduceOp::Average && is_integer(tensor.scalar_type())) {
    at::Tensor work = numbers_to_average(argument, tensor, descriptor, holder);
    describe(argument, work, work.sizes(), spec);
    spec.element = name_of(tensor.scalar_type());
    return work;
  }
  describe(argument, tensor, tensor.sizes(), spec);
  const bool may_keep_order = tensor.is_contiguous() || descriptor.kind == OpKind::kAllreduce;
  if (!is_reduced_in_place(tensor) || !may_keep_order)
    return copy_in(at::MemoryFormat::Contiguous, tensor, holder);
  if (!tensor.is_contiguous()) spec.order = order_in_memory(tensor);
  return overlaps ? copy_in(at::MemoryFormat::Preserve, tensor, holder) : tensor;
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

const at::Tensor& Gathered::only() const {
  if (!misfit.empty()) throw InvalidArgumentError(misfit);
  return tensors[0];
}

void check_tensors(const Call& call, at::TensorList tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    check(Argument{call, i, tensors.size()}, tensors[i]);
}

void check_output(const Call& call, const at::Tensor& output, const at::Tensor& tensor,
                  std::optional<std::int64_t> rows) {
  check_tensors(call, tensor);
  if (!output.defined()) call.refuse("the output is undefined; give a tensor for the result");
  if (output.layout() != at::kStrided) call.refuse("the output is not dense; give a dense tensor");
  if (output.scalar_type() != tensor.scalar_type() || output.device() != tensor.device()) {
    const auto described = [](const at::Tensor& one) {
      return std::string(c10::toString(one.scalar_type())) + " on " + one.device().str();
    };
    call.refuse("the output is " + described(output) + ", and the tensor is " + described(tensor) +
                "; both must be alike");
  }
  if (output.is_conj() || output.is_neg())
    call.refuse("the output is a conjugated or negated view; give a tensor of its own");
  if (!output.is_contiguous())
    call.refuse("the output is not contiguous; give a contiguous tensor");
  if (tensor.dim() == 0) return;  // reported when the operation is made
  std::vector<std::int64_t> wanted = tensor.sizes().vec();
  if (rows) {
    wanted[0] = *rows;
  } else if (output.dim() > 0) {
    wanted[0] = output.size(0);
  }
  if (output.sizes() != at::IntArrayRef(wanted)) {
    call.refuse("the output has shape " + to_string(output.sizes().vec()) + " instead of " +
                to_string(wanted));
  }
}

bool overlap(const at::Tensor& one, const at::Tensor& other) {
  const at::MemOverlapStatus status = at::get_overlap_status(one, other);
  return status == at::MemOverlapStatus::Full || status == at::MemOverlapStatus::Partial ||
         (status == at::MemOverlapStatus::TooHard && one.is_alias_of(other));
}

std::vector<at::Tensor> copies_of(const Call& call, at::TensorList tensors) {
  check_tensors(call, tensors);
  std::vector<at::Tensor> copies;
  copies.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors)
    copies.push_back(tensor.detach().clone(at::MemoryFormat::Contiguous));
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
  const std::vector<bool> overlaps = overlapping(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Argument here{call, i, tensors.size()};
    const at::Tensor work = to_work_on(here, tensors[i], !overlaps.empty() && overlaps[i],
                                       descriptor, descriptor.tensors[i], holder);
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
  note_device(call, tensors, operation, holder.copy_back.empty() ? ready : nullptr);
}

void set_outside(Operation& operation, std::size_t index, const at::Tensor& values) {
  operation.on_device->outside.resize(operation.tensors.size());
  operation.on_device->outside[index] = {
      static_cast<std::byte*>(values.data_ptr()),
      values.scalar_type() == at::kDouble ? DType::kFloat64 : DType::kFloat32};
  dynamic_cast<TensorHolder&>(*operation.holder).works.push_back(values);
}

namespace {

// Returns a contiguous tensor with the same values, which may be the same one.
at::Tensor to_read(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

}  // namespace

void set_shares(const Call& call, at::TensorList tensors, at::TensorList results,
                Operation& operation) {
  check_tensors(call, tensors);
  TensorHolder& holder = holder_of(operation);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Argument here{call, i, tensors.size()};
    describe(here, tensors[i], tensors[i].sizes(), operation.descriptor.tensors.emplace_back());
    const at::Tensor work = to_read(tensors[i]);
    operation.tensors.push_back({work.data_ptr(), 0, true, results[i].data_ptr()});
    holder.works.push_back(work);
    holder.works.push_back(results[i]);
  }
}

namespace {

// Describes why the gathered rows cannot be stored in the program's own tensor; empty if they can.
// `tensor`: this rank's rows.
std::string misfit_of(const at::Tensor& output, const at::Tensor& tensor, int rank,
                      const std::vector<std::int64_t>& rows) {
  const auto own = rows.begin() + rank;
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (all != output.size(0)) {
    return "the output has " + std::to_string(output.size(0)) + " rows, but the ranks gave " +
           std::to_string(all);
  }
  const std::int64_t before = std::accumulate(rows.begin(), own, std::int64_t{0});
  const auto place = static_cast<std::int64_t>(output.element_size()) * output.stride(0) * before;
  if (overlap(output, tensor) &&
      static_cast<std::byte*>(output.data_ptr()) + place != tensor.data_ptr())
    return "the tensor shares memory with rows of the output that are not its own";
  return {};
}

}  // namespace

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
    const at::Tensor work = to_read(tensors[i]);
    operation.tensors.push_back({work.data_ptr(), work.size(0)});
    holder.works.push_back(work);
  }
  check_same_device(call, tensors);
  note_device(call, tensors, operation, nullptr);
  gathered->tensors.resize(tensors.size());
  gathered->rows.resize(tensors.size());
  const bool has_output = gathered->output.defined();
  if (has_output) holder.works.push_back(gathered->output);
  // This function also keeps the results alive.
  operation.make_result = [&holder, gathered, rank = call.rank(),
                           what = has_output ? call.what() : std::string()](
                              std::size_t index, const std::vector<std::int64_t>& rows) -> void* {
    const at::Tensor& work = holder.works[index];
    at::Tensor& result = gathered->tensors[index];
    gathered->rows[index] = rows;
    if (gathered->output.defined()) {
      const std::string misfit = misfit_of(gathered->output, work, rank, rows);
      if (misfit.empty()) return (result = gathered->output).data_ptr();
      gathered->misfit = what + ": " + misfit;
    }
    std::vector<std::int64_t> shape = work.sizes().vec();
    shape[0] = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    return (result = at::empty(shape, work.options())).data_ptr();
  };
}

}  // namespace kolo
