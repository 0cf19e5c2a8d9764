// send and recv, with autograd.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "kolo/error.h"
#include "kolo/operations.h"
#include "torch_ops/ops/autograd.hpp"
#include "torch_ops/ops/handle_state.hpp"
#include "torch_ops/ops/saved_data.hpp"

namespace kolo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

std::string message_name(const char* function, const OperationOptions& options, int source,
                         int destination) {
  const std::string pair = "@" + std::to_string(source) + ">" + std::to_string(destination);
  if (!options.name().empty()) return options.name() + pair;
  return unnamed_names(*session(function), options.process_set())
             .next_between(source, destination) +
         pair;
}

// Returns the call of either end of a message.
Call message_between(const char* function, const OperationOptions& options, int source,
                     int destination) {
  Call call(function, "send", OpKind::kSend, message_name(function, options, source, destination),
            options.process_set());
  call.transient = options.name().empty();
  call.source = source;
  call.destination = destination;
  call.root_in_set(source);
  call.root_in_set(destination);
  if (source == destination) call.refuse("a rank cannot send to itself");
  return call;
}

int world_rank(const char* function) {
  return session(function)->topology().rank;
}
Call message_to(int destination, const char* function, const OperationOptions& options) {
  return message_between(function, options, world_rank(function), destination);
}
Call message_from(int source, const char* function, const OperationOptions& options) {
  return message_between(function, options, source, world_rank(function));
}

Handle start(const Call& message, at::Tensor tensor) {
  std::shared_ptr<Operation> operation = make_send(message, tensor);
  return submit(message, std::move(operation), std::move(tensor));
}

at::Tensor detached(const Call& message, const at::Tensor& tensor) {
  return message.or_give_up([&] {
    check_tensors(message, tensor);
    return tensor.detach().resolve_conj().resolve_neg().contiguous();
  });
}

at::Tensor empty_like(const Call& message, const at::Tensor& like) {
  return message.or_give_up([&] {
    check_tensors(message, like);
    return at::empty(like.sizes(), like.options().requires_grad(false));
  });
}

void run_send(const Call& message, const at::Tensor& tensor) {
  const at::Tensor work = detached(message, tensor);
  run(message, make_send(message, work), work);
}

at::Tensor run_recv(const Call& message, const at::Tensor& like) {
  const at::Tensor result = empty_like(message, like);
  return run(message, make_send(message, result), result);
}

struct SavedMessage {
  Call message;
  at::Tensor like;  // without memory; holds shape and dtype
};

SavedMessage saved_message(const Call& message, const at::Tensor& tensor) {
  return {message, at::empty({1}, tensor.options().requires_grad(false)).expand(tensor.sizes())};
}

struct Send : Function<Send> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& tensor, const Call& message) {
    save(ctx, saved_message(message, tensor));
    run_send(message, tensor);
    return at::zeros({}, tensor.options().requires_grad(false));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& /*gradients*/) {
    const SavedMessage& saved = saved_in<SavedMessage>(ctx);
    return {run_recv(saved.message.gradient(OpKind::kSend), saved.like), at::Tensor()};
  }
};

struct Recv : Function<Recv> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& like, const Call& message) {
    save(ctx, saved_message(message, like));
    return run_recv(message, like);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const SavedMessage& saved = saved_in<SavedMessage>(ctx);
    run_send(saved.message.gradient(OpKind::kSend), gradients[0]);
    return {at::zeros_like(saved.like), at::Tensor()};
  }
};

}  // namespace

at::Tensor send(const at::Tensor& tensor, int destination, const OperationOptions& options) {
  const Call message = message_to(destination, "send", options);
  if (needs_gradient({tensor})) return Send::apply(tensor, message);
  run_send(message, tensor);
  return at::zeros({}, tensor.options());
}

at::Tensor recv(const at::Tensor& like, int source, const OperationOptions& options) {
  const Call message = message_from(source, "recv", options);
  return needs_gradient({like}) ? Recv::apply(like, message) : run_recv(message, like);
}

at::Tensor recv_(at::Tensor tensor, int source, const OperationOptions& options) {
  const Engine::WaitsAtOnce waits;
  return recv_async_(std::move(tensor), source, options).wait();
}

Handle send_async(const at::Tensor& tensor, int destination, const OperationOptions& options) {
  const Call message = message_to(destination, "send_async", options);
  return start(message, working_copy(message, tensor));
}

// By value: a const reference would hide that the tensor is changed.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Handle recv_async_(at::Tensor tensor, int source, const OperationOptions& options) {
  const Call message = message_from(source, "recv_async_", options);
  Handle handle = start(message, tensor);
  note_change({tensor});
  return handle;
}

at::Tensor sendrecv(const at::Tensor& tensor, int destination, const at::Tensor& like, int source,
                    const OperationOptions& options) {
  const Call out = message_to(destination, "sendrecv", options);
  // Starts both or neither. If one cannot start, informs both peers.
  const Call in = out.or_give_up([&] { return message_from(source, "sendrecv", options); });
  const auto [outgoing, incoming] = out.or_give_up([&] {
    return in.or_give_up([&] {
      check_tensors(out, tensor);
      check_tensors(in, like);
      return std::pair(tensor.detach().resolve_conj().resolve_neg().contiguous(),
                       at::empty(like.sizes(), like.options().requires_grad(false)));
    });
  });
  const Engine::WaitsAtOnce waits;  // for both
  Handle sent = start(out, outgoing);
  Handle received = start(in, incoming);
  sent.wait();
  return received.wait();
}

}  // namespace kolo
