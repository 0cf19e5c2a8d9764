#include "torch_ops/ops/requests.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "collectives/reduce/reduce.hpp"
#include "kolo/error.h"
#include "torch_ops/ops/integers.hpp"

namespace kolo {
namespace {

void check_not_empty(const Call& call, at::TensorList tensors) {
  if (tensors.empty()) call.refuse("the group has no tensors");
}

void check_reduction(const Call& call, at::TensorList tensors, const AllreduceOptions& options) {
  check_not_empty(call, tensors);
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;  // reported when the operation is made
    if (tensor.scalar_type() == at::kBool && !reduction_supported(DType::kBool, options.op())) {
      call.refuse(std::string("a bool tensor has no ") + name_of(options.op()) +
                  "; use Max for \"on any rank\", Min for \"on every rank\", or an integer "
                  "dtype");
    }
    if (options.op() == ReduceOp::Adasum && !tensor.is_floating_point()) {
      call.refuse(std::string("Adasum is for floating point, not for ") +
                  c10::toString(tensor.scalar_type()));
    }
    const bool adds = options.op() == ReduceOp::Sum || options.op() == ReduceOp::Average;
    if (tensor.is_complex() && !adds) {
      call.refuse(std::string("a complex tensor has no ") + name_of(options.op()) +
                  "; use Sum or Average");
    }
    check_scales(call, tensor.scalar_type(), options);
  }
}

std::shared_ptr<Operation> reduction(const Call& call, const AllreduceOptions& options) {
  std::shared_ptr<Operation> operation = call.operation();
  operation->descriptor.op = options.op();
  operation->descriptor.prescale = options.prescale_factor();
  operation->descriptor.postscale = options.postscale_factor();
  return operation;
}

}  // namespace

void check_scales(const Call& call, at::ScalarType dtype, const AllreduceOptions& options) {
  const double before = options.prescale_factor();
  const double after = options.postscale_factor();
  if (dtype == at::kBool && (before != 1.0 || after != 1.0))
    call.refuse("a bool tensor cannot be scaled");
  if (is_integer(dtype) && !(std::isfinite(before) && std::isfinite(after))) {
    call.refuse(std::string("a tensor of ") + c10::toString(dtype) + " cannot be scaled by " +
                std::to_string(std::isfinite(before) ? after : before) + "; give a finite factor");
  }
}

std::shared_ptr<Operation> make_allreduce(const Call& call, at::TensorList results,
                                          const AllreduceOptions& options,
                                          const std::shared_ptr<DevicePoint>& ready) {
  return call.or_give_up([&] {
    check_reduction(call, results, options);
    std::shared_ptr<Operation> operation = reduction(call, options);
    set_tensors(call, results, *operation, ready);
    return operation;
  });
}

std::shared_ptr<Operation> make_broadcast(const Call& call, at::TensorList results, int root_rank) {
  return call.or_give_up([&] {
    check_not_empty(call, results);
    call.root_in_set(root_rank);
    std::shared_ptr<Operation> operation = call.operation();
    operation->descriptor.root = root_rank;
    set_tensors(call, results, *operation);
    return operation;
  });
}

std::shared_ptr<Operation> make_reduce(const Call& call, const at::Tensor& work, int root_rank,
                                       const AllreduceOptions& options) {
  return call.or_give_up([&] {
    check_reduction(call, work, options);
    call.root_in_set(root_rank);
    std::shared_ptr<Operation> operation = reduction(call, options);
    operation->descriptor.root = root_rank;
    set_tensors(call, work, *operation);
    return operation;
  });
}

at::Tensor result_of_reduce(const Call& call, const at::Tensor& work, int root_rank) {
  return call.is_root(root_rank) ? work : at::zeros(work.sizes(), work.options());
}

std::shared_ptr<Operation> make_allgather(const Call& call, const std::vector<at::Tensor>& tensors,
                                          const std::shared_ptr<Gathered>& gathered) {
  return call.or_give_up([&] {
    check_not_empty(call, tensors);
    if (gathered->output.defined()) check_output(call, gathered->output, tensors[0], std::nullopt);
    std::shared_ptr<Operation> operation = call.operation();
    set_rows(call, tensors, *operation, gathered);
    return operation;
  });
}

namespace {

// Returns the given splits or equal ones. They must add up to `rows`.
std::vector<std::int64_t> checked_splits(const Call& call, std::vector<std::int64_t> splits,
                                         std::int64_t rows) {
  const std::int64_t size = call.size();
  if (splits.empty()) {
    if (rows % size != 0) {
      call.refuse(std::to_string(rows) + " rows cannot be split evenly over " +
                  std::to_string(size) + " ranks; give splits");
    }
    splits.assign(static_cast<std::size_t>(size), rows / size);
  }
  if (static_cast<std::int64_t>(splits.size()) != size) {
    call.refuse("splits " + to_string(splits) + " are " + std::to_string(splits.size()) +
                " numbers, but there are " + std::to_string(size) + " ranks");
  }
  std::int64_t left = rows;
  for (const std::int64_t split : splits) {
    if (split < 0 || split > left) {
      call.refuse("splits " + to_string(splits) + " do not share out the tensor's " +
                  std::to_string(rows) + " rows: each is at least 0, and all add up to that");
    }
    left -= split;
  }
  if (left != 0) {
    call.refuse("splits " + to_string(splits) + " leave " + std::to_string(left) +
                " of the tensor's " + std::to_string(rows) + " rows over");
  }
  return splits;
}

void refuse_overlap(const Call& call, const at::Tensor& output, const at::Tensor& tensor) {
  if (overlap(output, tensor)) call.refuse("the output shares memory with the tensor");
}

std::shared_ptr<Operation> checked_alltoall(const Call& call, const at::Tensor& tensor,
                                            std::vector<std::int64_t> splits,
                                            const std::shared_ptr<Gathered>& gathered) {
  if (gathered->output.defined()) {
    check_output(call, gathered->output, tensor, std::nullopt);
    refuse_overlap(call, gathered->output, tensor);
  }
  std::shared_ptr<Operation> operation = call.operation();
  set_rows(call, {tensor}, *operation, gathered);
  operation->splits = checked_splits(call, std::move(splits), tensor.size(0));
  return operation;
}

// Returns the shape of this rank's share of the rows.
std::vector<std::int64_t> shape_of_share(const Call& call, const at::Tensor& tensor) {
  if (tensor.dim() == 0) call.refuse("a tensor without dimensions cannot be scattered");
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape[0] = rows_of(shape[0], call.rank(), call.size());
  return shape;
}

// Whether the engine reduces the tensors without changing them. It does so on the host, and where
// it works on the tensors' own numbers.
bool are_only_read(const std::vector<at::Tensor>& tensors, ReduceOp op) {
  return std::all_of(tensors.begin(), tensors.end(), [op](const at::Tensor& tensor) {
    return tensor.is_cpu() && !(op == ReduceOp::Average && is_integer(tensor.scalar_type()));
  });
}

std::shared_ptr<Operation> checked_reducescatter(const Call& call,
                                                 const std::vector<at::Tensor>& tensors,
                                                 const ReducescatterOptions& options,
                                                 std::vector<at::Tensor>& results) {
  check_reduction(call, tensors, options);
  if (options.op() == ReduceOp::Adasum)
    call.refuse("reducescatter has no Adasum, which needs whole tensors; use allreduce");
  check_tensors(call, tensors);
  const bool has_results = !results.empty();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<std::int64_t> shape = shape_of_share(call, tensors[i]);
    if (has_results) {
      check_output(call, results[i], tensors[i], shape[0]);
      refuse_overlap(call, results[i], tensors[i]);
    } else {
      results.push_back(at::empty(shape, tensors[i].options().requires_grad(false)));
    }
  }
  std::shared_ptr<Operation> operation = reduction(call, options);
  if (are_only_read(tensors, options.op())) {
    set_shares(call, tensors, results, *operation);
    return operation;
  }
  const std::vector<at::Tensor> works = copies_of(call, tensors);
  std::vector<std::pair<at::Tensor, at::Tensor>> shares;  // result, its part of the work
  for (std::size_t i = 0; i < works.size(); ++i) {
    std::int64_t begin = 0;
    for (int rank = 0; rank < call.rank(); ++rank)
      begin += rows_of(works[i].size(0), rank, call.size());
    shares.emplace_back(results[i], works[i].narrow(0, begin, results[i].size(0)));
  }
  set_tensors(call, works, *operation);
  operation->finish = [copy_back = std::move(operation->finish), shares = std::move(shares)] {
    if (copy_back) copy_back();
    for (const auto& [result, part] : shares) result.copy_(part);
  };
  return operation;
}

}  // namespace

std::shared_ptr<Operation> make_alltoall(const Call& call, const at::Tensor& tensor,
                                         std::vector<std::int64_t> splits,
                                         const std::shared_ptr<Gathered>& gathered) {
  return call.or_give_up(
      [&] { return checked_alltoall(call, tensor, std::move(splits), gathered); });
}

std::shared_ptr<Operation> make_reducescatter(const Call& call,
                                              const std::vector<at::Tensor>& tensors,
                                              const ReducescatterOptions& options,
                                              std::vector<at::Tensor>& results) {
  return call.or_give_up([&] { return checked_reducescatter(call, tensors, options, results); });
}

std::shared_ptr<Operation> make_send(const Call& call, const at::Tensor& tensor) {
  return call.or_give_up([&] {
    std::shared_ptr<Operation> operation = call.operation();
    set_tensors(call, tensor, *operation);
    return operation;
  });
}

at::Tensor working_copy(const Call& call, const at::Tensor& tensor) {
  return call.or_give_up([&] { return copies_of(call, tensor)[0]; });
}

std::vector<at::Tensor> working_copies(const Call& call, const std::vector<at::Tensor>& tensors) {
  return call.or_give_up([&] { return copies_of(call, tensors); });
}

namespace {

// Keeps the submitting thread's inference mode for what the operation does with tensors later: any
// thread may drive the engine, and its own mode must not matter.
void keep_mode(Operation& operation) {
  const bool mode = c10::InferenceMode::is_enabled();
  if (operation.finish) {
    operation.finish = [mode, finish = std::move(operation.finish)] {
      const c10::InferenceMode guard(mode);
      finish();
    };
  }
  if (operation.make_result) {
    operation.make_result = [mode, make = std::move(operation.make_result)](
                                std::size_t index, const std::vector<std::int64_t>& rows) {
      const c10::InferenceMode guard(mode);
      return make(index, rows);
    };
  }
}

}  // namespace

Submission submit(const Call& call, std::shared_ptr<Operation> operation) {
  Submission made{call.session, std::move(operation), nullptr};
  keep_mode(*made.operation);
  if (made.operation->descriptor.device != DeviceKind::kCpu) {
    call.or_give_up([&] {
      throw_if_error(made.session->device().find(std::nullopt, made.device));
      finish_on_device(made.device, *made.operation);
    });
  }
  throw_if_error(made.session->engine().submit(made.operation));
  return made;
}

}  // namespace kolo
