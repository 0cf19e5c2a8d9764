#include "kolo/operations.h"

#include <torch/csrc/autograd/variable.h>

#include "collectives/reduce/reduce.hpp"
#include "kolo/error.h"
#include "torch_ops/handle_state.hpp"
#include "torch_ops/tensor.hpp"

namespace kolo {
namespace {

// A call of the API: its session and the name its operation goes by.
struct Call {
  std::shared_ptr<Session> session;
  std::string name;
  std::string what;  // for messages
  bool transient = false;

  Call(const char* function, const char* operation, const std::string& given)
      : session(kolo::session(function)),
        name(given.empty() ? session->unnamed(operation) : given),
        what(std::string(operation) + " of '" + name + "' on rank " +
             std::to_string(session->topology().rank)),
        transient(given.empty()) {}
};

Handle submit(const Call& call, Descriptor descriptor, const at::Tensor& result) {
  std::shared_ptr<Operation> operation =
      make_operation(call.what, call.name, result, std::move(descriptor));
  operation->transient = call.transient;
  return kolo::submit(call.session, std::move(operation), result);
}

Handle submit_allreduce(const Call& call, const at::Tensor& result,
                        const AllreduceOptions& options) {
  Descriptor descriptor;
  descriptor.kind = OpKind::kAllreduce;
  descriptor.op = options.op();
  descriptor.prescale = options.prescale_factor();
  descriptor.postscale = options.postscale_factor();
  if (result.defined() && result.scalar_type() == at::kBool &&
      !reduction_supported(DType::kBool, options.op())) {
    throw InvalidArgumentError(
        call.what + ": a bool tensor has no " + name_of(options.op()) +
        "; use Max for \"on any rank\", Min for \"on every rank\", or an integer dtype");
  }
  return submit(call, std::move(descriptor), result);
}

Handle submit_broadcast(const Call& call, const at::Tensor& result, int root_rank) {
  if (root_rank < 0 || root_rank >= call.session->topology().size) {
    throw InvalidArgumentError(call.what + ": root rank " + std::to_string(root_rank) +
                               " is not between 0 and " +
                               std::to_string(call.session->topology().size - 1));
  }
  Descriptor descriptor;
  descriptor.kind = OpKind::kBroadcast;
  descriptor.root = root_rank;
  return submit(call, std::move(descriptor), result);
}

// Autograd must notice that a tensor it saved for backward() has been changed.
void note_change(const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_inference()) torch::autograd::impl::bump_version(tensor);
}

}  // namespace

Handle allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options) {
  const Call call("allreduce", "allreduce", options.name());
  return submit_allreduce(call, working_copy(call.what, tensor), options);
}

Handle allreduce_async_(at::Tensor tensor, const AllreduceOptions& options) {
  const Call call("allreduce_", "allreduce", options.name());
  note_change(tensor);
  return submit_allreduce(call, tensor, options);
}

at::Tensor allreduce(const at::Tensor& tensor, const AllreduceOptions& options) {
  return allreduce_async(tensor, options).wait();
}

at::Tensor allreduce_(at::Tensor tensor, const AllreduceOptions& options) {
  return allreduce_async_(std::move(tensor), options).wait();
}

Handle broadcast_async(const at::Tensor& tensor, int root_rank, const std::string& name) {
  const Call call("broadcast", "broadcast", name);
  return submit_broadcast(call, working_copy(call.what, tensor), root_rank);
}

Handle broadcast_async_(at::Tensor tensor, int root_rank, const std::string& name) {
  const Call call("broadcast_", "broadcast", name);
  note_change(tensor);
  return submit_broadcast(call, tensor, root_rank);
}

at::Tensor broadcast(const at::Tensor& tensor, int root_rank, const std::string& name) {
  return broadcast_async(tensor, root_rank, name).wait();
}

at::Tensor broadcast_(at::Tensor tensor, int root_rank, const std::string& name) {
  return broadcast_async_(std::move(tensor), root_rank, name).wait();
}

}  // namespace kolo
