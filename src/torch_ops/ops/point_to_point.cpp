// send and recv, with autograd.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "kolo/error.h"
#include "kolo/operations.h"
#include "torch_ops/ops/autograd.hpp"
#include "torch_ops/ops/requests.hpp"

namespace kolo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// A message from one rank to another.
struct Message {
  Call call;
  int source;
  int destination;

  Message(const char* function, const OperationOptions& options, int from, int to)
      : call(function, "send", OpKind::kSend, name(function, options, from, to),
             options.process_set()),
        source(from),
        destination(to) {
    call.transient = options.name().empty();
    call.root_in_set(from);
    call.root_in_set(to);
    if (from != to) return;
    throw InvalidArgumentError(call.what() + ": a rank cannot send to itself");
  }

  static Message to(const char* function, const OperationOptions& options, int destination) {
    return Message(function, options, world_rank(function), destination);
  }
  static Message from(const char* function, const OperationOptions& options, int source) {
    return Message(function, options, source, world_rank(function));
  }

  // Returns the message of the gradient, which goes the opposite way.
  Message gradient() const {
    Message back = *this;
    back.call = call.gradient(OpKind::kSend);
    std::swap(back.source, back.destination);
    return back;
  }

  Descriptor descriptor() const {
    Descriptor descriptor;
    descriptor.root = source;
    descriptor.destination = destination;
    return descriptor;
  }

  // Returns the result of make(). If make() throws, informs the other rank.
  template <typename Make>
  auto make_or_give_up(const Make& make) const {
    return kolo::make_or_give_up(call, make, descriptor());
  }

  Handle start(at::Tensor tensor) const {
    std::shared_ptr<Operation> operation =
        make_or_give_up([&] { return make_operation(call, {tensor}, descriptor()); });
    return submit(call.session, std::move(operation), std::move(tensor));
  }

 private:
  static int world_rank(const char* function) { return session(function)->topology().rank; }
  static std::string name(const char* function, const OperationOptions& options, int from, int to) {
    const std::string pair = "@" + std::to_string(from) + ">" + std::to_string(to);
    if (!options.name().empty()) return options.name() + pair;
    return unnamed_names(*session(function), options.process_set()).next_between(from, to) + pair;
  }
};

at::Tensor detached(const Message& message, const at::Tensor& tensor) {
  return message.make_or_give_up([&] {
    check({message.call}, tensor);
    return tensor.detach().resolve_conj().resolve_neg().contiguous();
  });
}

at::Tensor empty_like(const Message& message, const at::Tensor& like) {
  return message.make_or_give_up([&] {
    check({message.call}, like);
    return at::empty(like.sizes(), like.options().requires_grad(false));
  });
}

void run_send(const Message& message, const at::Tensor& tensor) {
  const Engine::WaitsAtOnce waits;
  message.start(detached(message, tensor)).wait();
}

at::Tensor run_recv(const Message& message, const at::Tensor& like) {
  const Engine::WaitsAtOnce waits;
  return message.start(empty_like(message, like)).wait();
}

struct SavedMessage : torch::CustomClassHolder {
  SavedMessage(Message m, at::Tensor shape) : message(std::move(m)), like(std::move(shape)) {}
  Message message;
  at::Tensor like;  // without memory; holds shape and dtype
};

void save(AutogradContext* ctx, const Message& message, const at::Tensor& tensor) {
  const at::Tensor like =
      at::empty({1}, tensor.options().requires_grad(false)).expand(tensor.sizes());
  ctx->saved_data["kolo"] =
      c10::IValue::make_capsule(c10::make_intrusive<SavedMessage>(message, like));
}
const SavedMessage& saved_in(AutogradContext* ctx) {
  return *static_cast<SavedMessage*>(ctx->saved_data["kolo"].toCapsule().get());
}

struct Send : Function<Send> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& tensor,
                            const Message& message) {
    save(ctx, message, tensor);
    run_send(message, tensor);
    return at::zeros({}, tensor.options().requires_grad(false));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& /*gradients*/) {
    const SavedMessage& saved = saved_in(ctx);
    return {run_recv(saved.message.gradient(), saved.like), at::Tensor()};
  }
};

struct Recv : Function<Recv> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& like, const Message& message) {
    save(ctx, message, like);
    return run_recv(message, like);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const SavedMessage& saved = saved_in(ctx);
    run_send(saved.message.gradient(), gradients[0]);
    return {at::zeros_like(saved.like), at::Tensor()};
  }
};

}  // namespace

at::Tensor send(const at::Tensor& tensor, int destination, const OperationOptions& options) {
  const Message message = Message::to("send", options, destination);
  if (needs_gradient({tensor})) return Send::apply(tensor, message);
  run_send(message, tensor);
  return at::zeros({}, tensor.options());
}

at::Tensor recv(const at::Tensor& like, int source, const OperationOptions& options) {
  const Message message = Message::from("recv", options, source);
  return needs_gradient({like}) ? Recv::apply(like, message) : run_recv(message, like);
}

at::Tensor recv_(at::Tensor tensor, int source, const OperationOptions& options) {
  const Engine::WaitsAtOnce waits;
  return recv_async_(std::move(tensor), source, options).wait();
}

Handle send_async(const at::Tensor& tensor, int destination, const OperationOptions& options) {
  const Message message = Message::to("send_async", options, destination);
  return message.start(
      message.make_or_give_up([&] { return working_copy(Argument{message.call}, tensor); }));
}

// By value: a const reference would hide that the tensor is changed.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Handle recv_async_(at::Tensor tensor, int source, const OperationOptions& options) {
  const Message message = Message::from("recv_async_", options, source);
  Handle handle = message.start(tensor);
  note_change({tensor});
  return handle;
}

at::Tensor sendrecv(const at::Tensor& tensor, int destination, const at::Tensor& like, int source,
                    const OperationOptions& options) {
  const Message out = Message::to("sendrecv", options, destination);
  // Starts both or neither. If one cannot start, informs both peers.
  const Message in =
      out.make_or_give_up([&] { return Message::from("sendrecv", options, source); });
  const auto [outgoing, incoming] = out.make_or_give_up([&] {
    return in.make_or_give_up([&] {
      check({out.call}, tensor);
      check({in.call}, like);
      return std::pair(tensor.detach().clone(at::MemoryFormat::Contiguous),
                       at::empty(like.sizes(), like.options().requires_grad(false)));
    });
  });
  Handle sent = out.start(outgoing);
  Handle received = in.start(incoming);
  sent.wait();
  return received.wait();
}

}  // namespace kolo
