#include "kolo/operations.h"

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <utility>

#include "torch_ops/ops/autograd.hpp"
#include "torch_ops/ops/handle_state.hpp"

namespace kolo {
namespace {

using Tensors = std::vector<at::Tensor>;

// Refer to the results of a gather, which exist only when the operation has run.
std::shared_ptr<const at::Tensor> first_of(const std::shared_ptr<Gathered>& gathered) {
  return {gathered, &gathered->tensors[0]};
}
std::shared_ptr<const Tensors> all_of(const std::shared_ptr<Gathered>& gathered) {
  return {gathered, &gathered->tensors};
}

// Returns the result of a gather whose rows go to `output`.
std::shared_ptr<Gathered> into(const Call& call, at::Tensor output) {
  if (!output.defined())
    call.or_give_up([&] { call.refuse("the output is undefined; give a tensor for the result"); });
  auto gathered = std::make_shared<Gathered>();
  gathered->output = std::move(output);
  return gathered;
}

// Return the result when the operation has run, or throw if it does not fit the program's output.
std::function<at::Tensor()> rows_in(std::shared_ptr<const Gathered> gathered) {
  return [gathered = std::move(gathered)] { return gathered->only(); };
}
std::function<AlltoallResult()> exchange_in(std::shared_ptr<const Gathered> gathered) {
  return [gathered = std::move(gathered)] {
    return AlltoallResult{gathered->only(), gathered->rows[0]};
  };
}

Handle start_allreduce(const Call& call, at::Tensor result, const AllreduceOptions& options) {
  std::shared_ptr<Operation> operation = make_allreduce(call, result, options);
  return submit(call, std::move(operation), std::move(result));
}
GroupHandle start_allreduce(const Call& call, Tensors results, const AllreduceOptions& options) {
  std::shared_ptr<Operation> operation = make_allreduce(call, results, options);
  return submit(call, std::move(operation), std::move(results));
}
Handle start_broadcast(const Call& call, at::Tensor result, int root_rank) {
  std::shared_ptr<Operation> operation = make_broadcast(call, result, root_rank);
  return submit(call, std::move(operation), std::move(result));
}
GroupHandle start_broadcast(const Call& call, Tensors results, int root_rank) {
  std::shared_ptr<Operation> operation = make_broadcast(call, results, root_rank);
  return submit(call, std::move(operation), std::move(results));
}

// Submits an operation on the program's own tensors. `changes`: false if it only reads them.
template <typename Result>
BasicHandle<Result> submit_in_place(const Call& call, std::shared_ptr<Operation> operation,
                                    const Result& given, bool changes = true) {
  // If the engine works on copies, it changes the tensors itself when it copies the results back.
  const bool is_copied = operation->finish != nullptr;
  auto state = std::make_unique<detail::HandleState<Result>>(
      detail::HandleState<Result>{submit(call, std::move(operation)), given});
  if (changes) note_change(given);
  if (!is_copied) state->watched = detail::Watched(given);
  return BasicHandle<Result>(std::move(state));
}

}  // namespace

// --- allreduce ---

at::Tensor allreduce(const at::Tensor& tensor, const AllreduceOptions& options) {
  const Call call("allreduce", "allreduce", OpKind::kAllreduce, options);
  return differentiable_allreduce(call, {tensor}, options)[0];
}

at::Tensor allreduce_(at::Tensor tensor, const AllreduceOptions& options) {
  const Engine::WaitsAtOnce waits;
  return allreduce_async_(std::move(tensor), options).wait();
}

Handle allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options) {
  const Call call("allreduce_async", "allreduce", OpKind::kAllreduce, options);
  return start_allreduce(call, working_copy(call, tensor), options);
}

// By value: a const reference would hide that the tensor is changed.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Handle allreduce_async_(at::Tensor tensor, const AllreduceOptions& options) {
  const Call call("allreduce_async_", "allreduce", OpKind::kAllreduce, options);
  return submit_in_place(call, make_allreduce(call, tensor, options), tensor);
}

Tensors grouped_allreduce(const Tensors& tensors, const AllreduceOptions& options) {
  const Call call("grouped_allreduce", "grouped_allreduce", OpKind::kAllreduce, options);
  return differentiable_allreduce(call, tensors, options);
}

Tensors grouped_allreduce_(Tensors tensors, const AllreduceOptions& options) {
  const Engine::WaitsAtOnce waits;
  return grouped_allreduce_async_(std::move(tensors), options).wait();
}

GroupHandle grouped_allreduce_async(const Tensors& tensors, const AllreduceOptions& options) {
  const Call call("grouped_allreduce_async", "grouped_allreduce", OpKind::kAllreduce, options);
  return start_allreduce(call, working_copies(call, tensors), options);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
GroupHandle grouped_allreduce_async_(Tensors tensors, const AllreduceOptions& options) {
  const Call call("grouped_allreduce_async_", "grouped_allreduce", OpKind::kAllreduce, options);
  return submit_in_place(call, make_allreduce(call, tensors, options), tensors);
}

// --- reduce ---

at::Tensor reduce(const at::Tensor& tensor, int root_rank, const AllreduceOptions& options) {
  const Call call("reduce", "reduce", OpKind::kReduce, options);
  return differentiable_reduce(call, tensor, root_rank, options);
}

at::Tensor reduce_(at::Tensor tensor, int root_rank, const AllreduceOptions& options) {
  const Engine::WaitsAtOnce waits;
  return reduce_async_(std::move(tensor), root_rank, options).wait();
}

Handle reduce_async(const at::Tensor& tensor, int root_rank, const AllreduceOptions& options) {
  const Call call("reduce_async", "reduce", OpKind::kReduce, options);
  const at::Tensor work = working_copy(call, tensor);
  std::shared_ptr<Operation> operation = make_reduce(call, work, root_rank, options);
  return submit(call, std::move(operation), result_of_reduce(call, work, root_rank));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
Handle reduce_async_(at::Tensor tensor, int root_rank, const AllreduceOptions& options) {
  const Call call("reduce_async_", "reduce", OpKind::kReduce, options);
  const bool is_root = call.or_give_up([&] { return call.is_root(root_rank); });
  if (is_root) return submit_in_place(call, make_reduce(call, tensor, root_rank, options), tensor);
  // The other ranks keep their values.
  std::shared_ptr<Operation> operation =
      make_reduce(call, working_copy(call, tensor), root_rank, options);
  return submit(call, std::move(operation), std::move(tensor));
}

// --- broadcast ---

at::Tensor broadcast(const at::Tensor& tensor, int root_rank, const OperationOptions& options) {
  const Call call("broadcast", "broadcast", OpKind::kBroadcast, options);
  return differentiable_broadcast(call, {tensor}, root_rank)[0];
}

at::Tensor broadcast_(at::Tensor tensor, int root_rank, const OperationOptions& options) {
  const Engine::WaitsAtOnce waits;
  return broadcast_async_(std::move(tensor), root_rank, options).wait();
}

Handle broadcast_async(const at::Tensor& tensor, int root_rank, const OperationOptions& options) {
  const Call call("broadcast_async", "broadcast", OpKind::kBroadcast, options);
  return start_broadcast(call, working_copy(call, tensor), root_rank);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
Handle broadcast_async_(at::Tensor tensor, int root_rank, const OperationOptions& options) {
  const Call call("broadcast_async_", "broadcast", OpKind::kBroadcast, options);
  auto operation = make_broadcast(call, tensor, root_rank);
  return submit_in_place(call, std::move(operation), tensor, !call.is_root(root_rank));
}

Tensors grouped_broadcast(const Tensors& tensors, int root_rank, const OperationOptions& options) {
  const Call call("grouped_broadcast", "grouped_broadcast", OpKind::kBroadcast, options);
  return differentiable_broadcast(call, tensors, root_rank);
}

Tensors grouped_broadcast_(Tensors tensors, int root_rank, const OperationOptions& options) {
  const Engine::WaitsAtOnce waits;
  return grouped_broadcast_async_(std::move(tensors), root_rank, options).wait();
}

GroupHandle grouped_broadcast_async(const Tensors& tensors, int root_rank,
                                    const OperationOptions& options) {
  const Call call("grouped_broadcast_async", "grouped_broadcast", OpKind::kBroadcast, options);
  return start_broadcast(call, working_copies(call, tensors), root_rank);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
GroupHandle grouped_broadcast_async_(Tensors tensors, int root_rank,
                                     const OperationOptions& options) {
  const Call call("grouped_broadcast_async_", "grouped_broadcast", OpKind::kBroadcast, options);
  auto operation = make_broadcast(call, tensors, root_rank);
  return submit_in_place(call, std::move(operation), tensors, !call.is_root(root_rank));
}

// --- allgather ---

at::Tensor allgather(const at::Tensor& tensor, const OperationOptions& options) {
  const Call call("allgather", "allgather", OpKind::kAllgather, options);
  return differentiable_allgather(call, {tensor})[0];
}

Handle allgather_async(const at::Tensor& tensor, const OperationOptions& options) {
  const Call call("allgather_async", "allgather", OpKind::kAllgather, options);
  const auto gathered = std::make_shared<Gathered>();
  std::shared_ptr<Operation> operation = make_allgather(call, {tensor}, gathered);
  return submit(call, std::move(operation), first_of(gathered));
}

at::Tensor allgather_into(at::Tensor output, const at::Tensor& tensor,
                          const OperationOptions& options) {
  const Engine::WaitsAtOnce waits;
  return allgather_into_async(std::move(output), tensor, options).wait();
}

Handle allgather_into_async(at::Tensor output, const at::Tensor& tensor,
                            const OperationOptions& options) {
  const Call call("allgather_into_async", "allgather", OpKind::kAllgather, options);
  const std::shared_ptr<Gathered> gathered = into(call, std::move(output));
  Submission submission = submit(call, make_allgather(call, {tensor}, gathered));
  note_change(gathered->output);
  return handle_of<at::Tensor>(std::move(submission), rows_in(gathered));
}

Tensors grouped_allgather(const Tensors& tensors, const OperationOptions& options) {
  const Call call("grouped_allgather", "grouped_allgather", OpKind::kAllgather, options);
  return differentiable_allgather(call, tensors);
}

GroupHandle grouped_allgather_async(const Tensors& tensors, const OperationOptions& options) {
  const Call call("grouped_allgather_async", "grouped_allgather", OpKind::kAllgather, options);
  const auto gathered = std::make_shared<Gathered>();
  std::shared_ptr<Operation> operation = make_allgather(call, tensors, gathered);
  return submit(call, std::move(operation), all_of(gathered));
}

// --- alltoall ---

AlltoallResult alltoall(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                        const OperationOptions& options) {
  const Call call("alltoall", "alltoall", OpKind::kAlltoall, options);
  return differentiable_alltoall(call, tensor, splits);
}

AlltoallHandle alltoall_async(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                              const OperationOptions& options) {
  const Call call("alltoall_async", "alltoall", OpKind::kAlltoall, options);
  const auto gathered = std::make_shared<Gathered>();
  std::shared_ptr<Operation> operation = make_alltoall(call, tensor, splits, gathered);
  return handle_of<AlltoallResult>(submit(call, std::move(operation)), exchange_in(gathered));
}

AlltoallResult alltoall_into(at::Tensor output, const at::Tensor& tensor,
                             const std::vector<std::int64_t>& splits,
                             const OperationOptions& options) {
  const Engine::WaitsAtOnce waits;
  return alltoall_into_async(std::move(output), tensor, splits, options).wait();
}

AlltoallHandle alltoall_into_async(at::Tensor output, const at::Tensor& tensor,
                                   const std::vector<std::int64_t>& splits,
                                   const OperationOptions& options) {
  const Call call("alltoall_into_async", "alltoall", OpKind::kAlltoall, options);
  const std::shared_ptr<Gathered> gathered = into(call, std::move(output));
  Submission submission = submit(call, make_alltoall(call, tensor, splits, gathered));
  note_change(gathered->output);
  return handle_of<AlltoallResult>(std::move(submission), exchange_in(gathered));
}

// --- reducescatter ---

at::Tensor reducescatter(const at::Tensor& tensor, const ReducescatterOptions& options) {
  const Call call("reducescatter", "reducescatter", OpKind::kReducescatter, options);
  return differentiable_reducescatter(call, {tensor}, options)[0];
}

Handle reducescatter_async(const at::Tensor& tensor, const ReducescatterOptions& options) {
  const Call call("reducescatter_async", "reducescatter", OpKind::kReducescatter, options);
  Tensors results;
  std::shared_ptr<Operation> operation = make_reducescatter(call, {tensor}, options, results);
  return submit(call, std::move(operation), std::move(results[0]));
}

at::Tensor reducescatter_into(at::Tensor output, const at::Tensor& tensor,
                              const ReducescatterOptions& options) {
  const Engine::WaitsAtOnce waits;
  return reducescatter_into_async(std::move(output), tensor, options).wait();
}

Handle reducescatter_into_async(at::Tensor output, const at::Tensor& tensor,
                                const ReducescatterOptions& options) {
  const Call call("reducescatter_into_async", "reducescatter", OpKind::kReducescatter, options);
  Tensors results = {std::move(output)};
  std::shared_ptr<Operation> operation = make_reducescatter(call, {tensor}, options, results);
  Handle handle = submit(call, std::move(operation), results[0]);
  note_change(results[0]);
  return handle;
}

Tensors grouped_reducescatter(const Tensors& tensors, const ReducescatterOptions& options) {
  const Call call("grouped_reducescatter", "grouped_reducescatter", OpKind::kReducescatter,
                  options);
  return differentiable_reducescatter(call, tensors, options);
}

GroupHandle grouped_reducescatter_async(const Tensors& tensors,
                                        const ReducescatterOptions& options) {
  const Call call("grouped_reducescatter_async", "grouped_reducescatter", OpKind::kReducescatter,
                  options);
  Tensors results;
  std::shared_ptr<Operation> operation = make_reducescatter(call, tensors, options, results);
  return submit(call, std::move(operation), std::move(results));
}

// --- barrier and join ---

namespace {

// Waits for an operation without tensors.
std::shared_ptr<Operation> run_plain(const Call& call) {
  std::shared_ptr<Operation> operation = call.operation();
  run(call, operation, at::Tensor());
  return operation;
}

}  // namespace

void barrier(const OperationOptions& options) {
  run_plain(Call("barrier", "barrier", OpKind::kBarrier, options));
}

int join(const ProcessSet& process_set) {
  const Call call("join", "join", OpKind::kJoin, "kolo.join", process_set);
  const int last_rank = run_plain(call)->number;
  unnamed_names(*call.session, process_set).start_over();
  return last_rank;
}

}  // namespace kolo
