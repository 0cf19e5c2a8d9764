#include <ATen/ATen.h>

#include "kolo/error.h"
#include "kolo/operations.h"
#include "torch_ops/call.hpp"

namespace kolo {
namespace {

void check_sparse(const Call& call, const at::Tensor& tensor, const AllreduceOptions& options) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgumentError(call.what() + ": " + why);
  };
  if (!tensor.defined() || tensor.layout() != at::kSparse)
    refuse("the tensor is not sparse (COO); use allreduce()");
  if (options.op() != ReduceOp::Sum && options.op() != ReduceOp::Average) {
    refuse(std::string("sparse tensors have no ") + name_of(options.op()) +
           ", for what is not there counts as 0; use Sum or Average, or tensor.to_dense()");
  }
  if (tensor.scalar_type() == at::kBool) refuse("a sparse bool tensor cannot be added up");
}

// As a dense reduction does it: integers are rounded towards zero.
at::Tensor scaled(const at::Tensor& values, double factor) {
  if (factor == 1.0) return values;
  if (values.is_floating_point() || values.is_complex()) return values * factor;
  return (values.to(at::kDouble) * factor).trunc().to(values.scalar_type());
}

// What all ranks have, added up where indices meet.
at::Tensor combine(const Gathered& gathered, const std::vector<std::int64_t>& size, double factor) {
  for (const at::Tensor& tensor : gathered.tensors) use_on_device(tensor);
  const at::Tensor indices = gathered.tensors[0].t();
  const at::Tensor& values = gathered.tensors[1];
  const at::Tensor sum =
      at::sparse_coo_tensor(indices, values, size, values.options().layout(at::kSparse)).coalesce();
  return at::sparse_coo_tensor(sum.indices(), scaled(sum.values(), factor), size,
                               values.options().layout(at::kSparse))
      ._coalesced_(true);
}

}  // namespace

at::Tensor sparse_allreduce(const at::Tensor& tensor, const AllreduceOptions& options) {
  const Engine::WaitsAtOnce waits;
  return sparse_allreduce_async(tensor, options).wait();
}

Handle sparse_allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options) {
  const Call call("sparse_allreduce", "sparse_allreduce", options.name(), options.process_set());
  // Coalesced, so that no more than needed travels.
  const at::Tensor mine = make_or_give_up(call, [&] {
    check_sparse(call, tensor, options);
    return tensor.detach().coalesce();
  });
  const auto gathered = std::make_shared<Gathered>();
  std::shared_ptr<Operation> operation = make_allgather(
      call, {mine.indices().t().contiguous(), scaled(mine.values(), options.prescale_factor())},
      gathered);
  operation->descriptor.content = "a sparse tensor of size " + to_string(mine.sizes().vec());
  operation->descriptor.op = options.op();
  operation->descriptor.prescale = options.prescale_factor();
  operation->descriptor.postscale = options.postscale_factor();
  double factor = options.postscale_factor();
  if (options.op() == ReduceOp::Average) factor /= call.size();
  return handle_of<at::Tensor>(
      submit(call.session, std::move(operation)),
      [gathered, size = mine.sizes().vec(), factor] { return combine(*gathered, size, factor); });
}

}  // namespace kolo
