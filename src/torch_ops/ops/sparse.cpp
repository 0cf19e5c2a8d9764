#include <ATen/ATen.h>

#include "kolo/error.h"
#include "kolo/operations.h"
#include "torch_ops/ops/handle_state.hpp"
#include "torch_ops/ops/integers.hpp"
#include "torch_ops/ops/tensor_traits.hpp"

namespace kolo {
namespace {

void check_sparse(const Call& call, const at::Tensor& tensor, const AllreduceOptions& options) {
  if (!tensor.defined() || tensor.layout() != at::kSparse)
    call.refuse("the tensor is not sparse (COO); use allreduce()");
  if (options.op() != ReduceOp::Sum && options.op() != ReduceOp::Average) {
    call.refuse(std::string("sparse tensors have no ") + name_of(options.op()) +
                ", for what is not there counts as 0; use Sum or Average, or tensor.to_dense()");
  }
  if (!dtype_sent(tensor.scalar_type()))
    call.refuse(std::string("dtype ") + c10::toString(tensor.scalar_type()) + " is not supported");
  if (tensor.scalar_type() == at::kBool) call.refuse("a sparse bool tensor cannot be added up");
  check_scales(call, tensor.scalar_type(), options);
}

// Scales, adds and divides the values of sparse tensors like a dense reduction.
class SparseSum {
 public:
  SparseSum(const Call& call, const at::Tensor& tensor, const AllreduceOptions& options)
      : dtype_(tensor.defined() ? tensor.scalar_type() : at::kFloat),
        averages_(options.op() == ReduceOp::Average),
        scales_{options.prescale_factor(), options.postscale_factor(), call.size()} {}

  // Returns what a rank sends for its own values.
  at::Tensor to_send(const at::Tensor& values) const {
    if (!is_integer(dtype_)) return scales_.prescale == 1.0 ? values : values * scales_.prescale;
    return averages_ ? scales_.to_numbers(values) : scaled_integers(values, scales_.prescale);
  }

  // Returns the received values in the dtype for the sum: float32 for the 16-bit dtypes, so that
  // the result is rounded once and no partial sum overflows.
  at::Tensor to_add(const at::Tensor& values) const {
    return at::isReducedFloatingType(dtype_) ? values.to(at::kFloat) : values;
  }

  // Returns the result for the sums of the values.
  at::Tensor result(const at::Tensor& sums) const {
    if (is_integer(dtype_)) {
      return averages_ ? scales_.from_sums(sums, dtype_) : scaled_integers(sums, scales_.postscale);
    }
    const double factor = averages_ ? scales_.postscale / scales_.ranks : scales_.postscale;
    return (factor == 1.0 ? sums : sums * factor).to(dtype_);
  }

 private:
  const at::ScalarType dtype_;
  const bool averages_;
  const IntegerAverage scales_;
};

// Returns the values of all ranks, summed where indices are equal.
at::Tensor combine(const Gathered& gathered, const std::vector<std::int64_t>& size,
                   const SparseSum& sum) {
  for (const at::Tensor& tensor : gathered.tensors) use_on_device(tensor);
  const at::Tensor indices = gathered.tensors[0].t();
  const at::Tensor values = sum.to_add(gathered.tensors[1]);
  std::vector<std::int64_t> sums_size(size.begin(), size.begin() + indices.size(0));
  sums_size.insert(sums_size.end(), values.sizes().begin() + 1, values.sizes().end());
  const at::Tensor sums =
      at::sparse_coo_tensor(indices, values, sums_size, values.options().layout(at::kSparse))
          .coalesce();
  const at::Tensor results = sum.result(sums.values());
  return at::sparse_coo_tensor(sums.indices(), results, size, results.options().layout(at::kSparse))
      ._coalesced_(true);
}

}  // namespace

at::Tensor sparse_allreduce(const at::Tensor& tensor, const AllreduceOptions& options) {
  const Engine::WaitsAtOnce waits;
  return sparse_allreduce_async(tensor, options).wait();
}

Handle sparse_allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options) {
  const Call call("sparse_allreduce", "sparse_allreduce", OpKind::kAllgather, options);
  SparseReduction reduction = submit_sparse_allreduce(call, tensor, options, false);
  return handle_of<at::Tensor>(std::move(reduction.submission), std::move(reduction.result));
}

SparseReduction submit_sparse_allreduce(const Call& call, const at::Tensor& tensor,
                                        const AllreduceOptions& options, bool absent) {
  const SparseSum sum(call, tensor, options);
  const auto sent = call.or_give_up([&]() -> std::vector<at::Tensor> {
    check_sparse(call, tensor, options);
    const at::Tensor mine = tensor.detach().coalesce();  // sends each index once
    return {mine.indices().t().contiguous(), sum.to_send(mine.values())};
  });
  const auto gathered = std::make_shared<Gathered>();
  std::shared_ptr<Operation> operation = make_allgather(call, sent, gathered);
  operation->descriptor.content = "a sparse tensor of " + name_of(tensor.scalar_type()) +
                                  " and size " + to_string(tensor.sizes().vec());
  operation->descriptor.op = options.op();
  operation->descriptor.prescale = options.prescale_factor();
  operation->descriptor.postscale = options.postscale_factor();
  operation->absent = absent;
  return {submit(call, std::move(operation)),
          [gathered, size = tensor.sizes().vec(), sum] { return combine(*gathered, size, sum); }};
}

}  // namespace kolo
