#include <ATen/ATen.h>

#include "kolo/error.h"
#include "kolo/operations.h"
#include "torch_ops/call.hpp"

namespace kolo {
namespace {

void check_sparse(const Call& call, const at::Tensor& tensor, const AllreduceOptions& options) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgumentError(call.what + ": " + why);
  };
  if (!tensor.defined() || tensor.layout() != at::kSparse)
    refuse("the tensor is not sparse (COO); use allreduce()");
  if (options.op() != ReduceOp::Sum && options.op() != ReduceOp::Average) {
    refuse(std::string("sparse tensors have no ") + name_of(options.op()) +
           ", for what is not there counts as 0; use Sum or Average, or tensor.to_dense()");
  }
  if (tensor.scalar_type() == at::kBool) refuse("a sparse bool tensor cannot be added up");
}

// What all ranks have, added up where indices meet.
at::Tensor combine(const Gathered& gathered, const std::vector<std::int64_t>& size, double factor) {
  const at::Tensor indices = gathered.tensors[0].t();
  at::Tensor values = gathered.tensors[1];
  if (factor != 1.0) values = values.mul_(factor);
  return at::sparse_coo_tensor(indices, values, size, values.options().layout(at::kSparse))
      .coalesce();
}

}  // namespace

at::Tensor sparse_allreduce(const at::Tensor& tensor, const AllreduceOptions& options) {
  return sparse_allreduce_async(tensor, options).wait();
}

Handle sparse_allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options) {
  const Call call("sparse_allreduce", "sparse_allreduce", options.name(), options.process_set());
  check_sparse(call, tensor, options);
  // Coalesced, so that no more than needed travels.
  const at::Tensor mine = tensor.detach().coalesce();
  const auto gathered = std::make_shared<Gathered>();
  std::shared_ptr<Operation> operation =
      make_allgather(call, {mine.indices().t().contiguous(), mine.values()}, gathered);
  // Ranks must agree on what the indices count in, too.
  operation->descriptor.tensors[0].name =
      "indices of a tensor of size " + to_string(mine.sizes().vec());
  operation->descriptor.op = options.op();
  operation->descriptor.prescale = options.prescale_factor();
  operation->descriptor.postscale = options.postscale_factor();
  double factor = options.prescale_factor() * options.postscale_factor();
  if (options.op() == ReduceOp::Average) factor /= call.size();
  return submit_for<at::Tensor>(
      call.session, std::move(operation),
      [gathered, size = mine.sizes().vec(), factor] { return combine(*gathered, size, factor); });
}

}  // namespace kolo
