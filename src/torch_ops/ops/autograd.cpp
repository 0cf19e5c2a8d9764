#include "torch_ops/ops/autograd.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "kolo/error.h"
#include "torch_ops/ops/handle_state.hpp"
#include "torch_ops/ops/saved_data.hpp"

namespace kolo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

bool may_have_gradient(const at::Tensor& tensor) {
  return at::isFloatingType(tensor.scalar_type()) || tensor.is_complex();
}

// Marks outputs as non-differentiable if their dtype has no gradients.
variable_list mark(AutogradContext* ctx, variable_list outputs) {
  variable_list others;
  for (const at::Tensor& output : outputs) {
    if (!may_have_gradient(output)) others.push_back(output);
  }
  ctx->mark_non_differentiable(others);
  return outputs;
}

// Calls run() with the gradients that exist, and returns each result in its place. run() is
// collective, so the selection must not depend on what a rank uses: unused members have zeros.
template <typename Run>
variable_list for_each_gradient(const variable_list& gradients, const Run& run) {
  std::vector<at::Tensor> some;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined() || !may_have_gradient(gradients[i])) continue;
    some.push_back(gradients[i].contiguous());
    places.push_back(i);
  }
  variable_list results(gradients.size());
  std::vector<at::Tensor> made = run(some);
  for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = std::move(made[i]);
  return results;
}

// Appends an undefined gradient for each of the `others` that follow the tensors in apply().
variable_list and_nothing_for(std::size_t others, variable_list gradients) {
  gradients.resize(gradients.size() + others);
  return gradients;
}

void check_differentiable(const Call& call, ReduceOp op) {
  if (op == ReduceOp::Sum || op == ReduceOp::Average) return;
  call.refuse(std::string(name_of(op)) +
              " has no gradient; use Sum or Average, or detach() the tensor");
}

struct SavedReduction {
  Call call;
  AllreduceOptions options;
};

// y is the sum of all ranks' x on every rank, so x contributes to every rank's loss.
struct Allreduce : Function<Allreduce> {
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const Call& call,
                               const AllreduceOptions& options) {
    save(ctx, SavedReduction{call, options});
    return mark(ctx, run_allreduce(call, tensors.vec(), options));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const SavedReduction& saved = saved_in<SavedReduction>(ctx);
    const Call call = saved.call.gradient(OpKind::kAllreduce);
    check_differentiable(call, saved.options.op());
    return and_nothing_for(2, for_each_gradient(gradients, [&](const auto& some) {
                             return run_allreduce(call, some, saved.options);
                           }));
  }
};

// Returns the factor of each rank's values in a Sum or Average.
double weight_in(const Call& call, const AllreduceOptions& options) {
  const double scale = options.prescale_factor() * options.postscale_factor();
  return options.op() == ReduceOp::Average ? scale / call.size() : scale;
}

struct SavedReduce {
  Call call;
  AllreduceOptions options;
  int root_rank;
};

// Only the root's loss depends on the result.
struct Reduce : Function<Reduce> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& tensor, const Call& call,
                               int root_rank, const AllreduceOptions& options) {
    save(ctx, SavedReduce{call, options, root_rank});
    return mark(ctx, {run_reduce(call, tensor, root_rank, options)});
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const SavedReduce& saved = saved_in<SavedReduce>(ctx);
    const Call call = saved.call.gradient(OpKind::kBroadcast);
    check_differentiable(call, saved.options.op());
    return and_nothing_for(3, for_each_gradient(gradients, [&](const auto& some) {
                             auto whole = run_broadcast(call, some, saved.root_rank);
                             for (at::Tensor& gradient : whole)
                               gradient.mul_(weight_in(call, saved.options));
                             return whole;
                           }));
  }
};

struct SavedBroadcast {
  Call call;
  int root_rank;
};

struct Broadcast : Function<Broadcast> {
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const Call& call,
                               int root_rank) {
    save(ctx, SavedBroadcast{call, root_rank});
    return mark(ctx, run_broadcast(call, tensors.vec(), root_rank));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const SavedBroadcast& saved = saved_in<SavedBroadcast>(ctx);
    const bool root = saved.call.is_root(saved.root_rank);
    return and_nothing_for(2, for_each_gradient(gradients, [&](const auto& some) {
                             auto sums = run_allreduce(saved.call.gradient(OpKind::kAllreduce),
                                                       some, ReduceOp::Sum);
                             for (at::Tensor& sum : sums) {
                               if (!root) sum.zero_();
                             }
                             return sums;
                           }));
  }
};

struct SavedGather {
  Call call;
  std::vector<std::pair<std::int64_t, std::int64_t>> mine;  // first row and number of rows
};

struct Allgather : Function<Allgather> {
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const Call& call) {
    const std::shared_ptr<const Gathered> gathered = run_allgather(call, tensors.vec());
    SavedGather saved{call, {}};
    for (const std::vector<std::int64_t>& rows : gathered->rows) {
      std::int64_t begin = 0;
      for (int rank = 0; rank < call.rank(); ++rank) begin += rows[rank];
      saved.mine.emplace_back(begin, rows[call.rank()]);
    }
    save(ctx, std::move(saved));
    return mark(ctx, gathered->tensors);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const SavedGather& saved = saved_in<SavedGather>(ctx);
    variable_list parts = for_each_gradient(gradients, [&](const auto& some) {
      return run_allreduce(saved.call.gradient(OpKind::kAllreduce), some, ReduceOp::Sum);
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].defined())
        parts[i] = parts[i].narrow(0, saved.mine[i].first, saved.mine[i].second).clone();
    }
    return and_nothing_for(1, std::move(parts));
  }
};

struct SavedAlltoall {
  Call call;
  std::vector<std::int64_t> received_splits;
};

struct Alltoall : Function<Alltoall> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& tensor, const Call& call,
                               const std::vector<std::int64_t>& splits,
                               std::vector<std::int64_t>* received_splits) {
    AlltoallResult result = run_alltoall(call, tensor, splits);
    save(ctx, SavedAlltoall{call, result.received_splits});
    *received_splits = std::move(result.received_splits);
    return {result.output};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const SavedAlltoall& saved = saved_in<SavedAlltoall>(ctx);
    return and_nothing_for(3, {run_alltoall(saved.call.gradient(OpKind::kAlltoall), gradients[0],
                                            saved.received_splits)
                                   .output});
  }
};

// A rank's share of the result only contributes to that rank's loss.
struct Reducescatter : Function<Reducescatter> {
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const Call& call,
                               const ReducescatterOptions& options) {
    save(ctx, SavedReduction{call, options});
    return mark(ctx, run_reducescatter(call, tensors.vec(), options));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const SavedReduction& saved = saved_in<SavedReduction>(ctx);
    const Call call = saved.call.gradient(OpKind::kAllgather);
    check_differentiable(call, saved.options.op());
    return and_nothing_for(2, for_each_gradient(gradients, [&](const auto& some) {
                             auto whole = run_allgather(call, some)->tensors;
                             for (at::Tensor& gradient : whole)
                               gradient.mul_(weight_in(call, saved.options));
                             return whole;
                           }));
  }
};

}  // namespace

void note_change(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && !tensor.is_inference()) torch::autograd::impl::bump_version(tensor);
  }
}

bool needs_gradient(const std::vector<at::Tensor>& tensors) {
  return at::GradMode::is_enabled() &&
         std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& t) { return t.defined() && t.requires_grad(); });
}

std::vector<at::Tensor> differentiable_allreduce(const Call& call,
                                                 const std::vector<at::Tensor>& tensors,
                                                 const AllreduceOptions& options) {
  if (!needs_gradient(tensors)) return run_allreduce(call, tensors, options);
  return Allreduce::apply(at::TensorList(tensors), call, options);
}

at::Tensor differentiable_reduce(const Call& call, const at::Tensor& tensor, int root_rank,
                                 const AllreduceOptions& options) {
  if (!needs_gradient({tensor})) return run_reduce(call, tensor, root_rank, options);
  return Reduce::apply(tensor, call, root_rank, options)[0];
}

std::vector<at::Tensor> differentiable_broadcast(const Call& call,
                                                 const std::vector<at::Tensor>& tensors,
                                                 int root_rank) {
  if (!needs_gradient(tensors)) return run_broadcast(call, tensors, root_rank);
  return Broadcast::apply(at::TensorList(tensors), call, root_rank);
}

std::vector<at::Tensor> differentiable_allgather(const Call& call,
                                                 const std::vector<at::Tensor>& tensors) {
  if (!needs_gradient(tensors)) return run_allgather(call, tensors)->tensors;
  return Allgather::apply(at::TensorList(tensors), call);
}

AlltoallResult differentiable_alltoall(const Call& call, const at::Tensor& tensor,
                                       const std::vector<std::int64_t>& splits) {
  if (!needs_gradient({tensor})) return run_alltoall(call, tensor, splits);
  AlltoallResult result;
  result.output = Alltoall::apply(tensor, call, splits, &result.received_splits)[0];
  return result;
}

std::vector<at::Tensor> differentiable_reducescatter(const Call& call,
                                                     const std::vector<at::Tensor>& tensors,
                                                     const ReducescatterOptions& options) {
  if (!needs_gradient(tensors)) return run_reducescatter(call, tensors, options);
  return Reducescatter::apply(at::TensorList(tensors), call, options);
}

std::vector<at::Tensor> run_allreduce(const Call& call, const std::vector<at::Tensor>& tensors,
                                      const AllreduceOptions& options) {
  std::vector<at::Tensor> results = working_copies(call, tensors);
  std::shared_ptr<Operation> operation = make_allreduce(call, results, options);
  return run(call, std::move(operation), std::move(results));
}

at::Tensor run_reduce(const Call& call, const at::Tensor& tensor, int root_rank,
                      const AllreduceOptions& options) {
  const at::Tensor work = working_copy(call, tensor);
  std::shared_ptr<Operation> operation = make_reduce(call, work, root_rank, options);
  return run(call, std::move(operation), result_of_reduce(call, work, root_rank));
}

std::vector<at::Tensor> run_broadcast(const Call& call, const std::vector<at::Tensor>& tensors,
                                      int root_rank) {
  std::vector<at::Tensor> results = working_copies(call, tensors);
  std::shared_ptr<Operation> operation = make_broadcast(call, results, root_rank);
  return run(call, std::move(operation), std::move(results));
}

std::shared_ptr<const Gathered> run_allgather(const Call& call,
                                              const std::vector<at::Tensor>& tensors) {
  const auto gathered = std::make_shared<Gathered>();
  run(call, make_allgather(call, tensors, gathered), at::Tensor());
  for (const at::Tensor& tensor : gathered->tensors) use_on_device(tensor);
  return gathered;
}

AlltoallResult run_alltoall(const Call& call, const at::Tensor& tensor,
                            const std::vector<std::int64_t>& splits) {
  const auto gathered = std::make_shared<Gathered>();
  run(call, make_alltoall(call, tensor, splits, gathered), at::Tensor());
  use_on_device(gathered->only());
  return {gathered->only(), gathered->rows[0]};
}

std::vector<at::Tensor> run_reducescatter(const Call& call, const std::vector<at::Tensor>& tensors,
                                          const ReducescatterOptions& options) {
  std::vector<at::Tensor> results;
  std::shared_ptr<Operation> operation = make_reducescatter(call, tensors, options, results);
  return run(call, std::move(operation), std::move(results));
}

}  // namespace kolo
