#include "torch_ops/ops/call.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "core/ranks.hpp"
#include "kolo/error.h"

namespace kolo {
namespace {

void check_member(const Session& session, const ProcessSet& set, const char* function) {
  if (!set.state()) return;
  check_alive(session, set, function);
  if (!set.included()) {
    throw InvalidArgumentError(std::string(function) + ": rank " +
                               std::to_string(session.topology().rank) +
                               " is not a member of process set " + std::to_string(set.id()) +
                               " (" + rank_list(set.ranks()) + "); only members may call it");
  }
}

}  // namespace

UnnamedNames& unnamed_names(Session& session, const ProcessSet& set) {
  return set.state() ? set.state()->unnamed : session.unnamed();
}

void check_alive(const Session& session, const ProcessSet& set, const char* function) {
  if (set.state()->session.lock().get() == &session) return;
  throw InvalidArgumentError(std::string(function) + ": process set " + std::to_string(set.id()) +
                             " was made before kolo::shutdown(), or has no members; make it anew");
}

Call::Call(const char* function, const char* operation, OpKind of_kind, const std::string& given,
           const ProcessSet& process_set)
    : session(kolo::session(function)),
      set(process_set),
      kind(of_kind),
      transient(given.empty()),
      operation_(operation) {
  check_member(*session, set, function);
  name = given.empty() ? unnamed_names(*session, set).next() : given;
}

std::string Call::what() const {
  std::string text = std::string(operation_) + " of '" + name + "' on rank " +
                     std::to_string(session->topology().rank);
  if (set.id() != 0) text += " in process set " + std::to_string(set.id());
  return text;
}

int Call::root_in_set(int root_rank) const {
  const std::vector<int> ranks = set.ranks();
  const auto found = std::find(ranks.begin(), ranks.end(), root_rank);
  if (found != ranks.end()) return static_cast<int>(found - ranks.begin());
  refuse("root rank " + std::to_string(root_rank) + " does not take part; choose one of " +
         rank_list(ranks));
}

Call Call::gradient(OpKind of_kind) const {
  Call call = *this;
  call.kind = of_kind;
  call.name += ".gradient";
  call.operation_ = "backward()";
  std::swap(call.source, call.destination);
  // Autograd would take what other ranks contribute for constant.
  if (at::GradMode::is_enabled())
    call.refuse("a gradient that comes from other ranks has no derivatives (create_graph)");
  return call;
}

void Call::refuse(const std::string& why) const {
  throw InvalidArgumentError(what() + ": " + why);
}

void Call::give_up(const std::string& why) const {
  const std::shared_ptr<Operation> refusal = operation();
  refusal->descriptor.refusal = why;
  // Submitting fails if the name is in flight, or after a failure. Then no rank waits for this one.
  static_cast<void>(session->engine().submit(refusal));
}

std::shared_ptr<Operation> Call::operation() const {
  std::shared_ptr<Operation> operation = Operation::make();
  operation->name = name;
  operation->descriptor.kind = kind;
  operation->descriptor.root = source;
  operation->descriptor.destination = destination;
  operation->process_set = set.id();
  operation->transient = transient;
  return operation;
}

}  // namespace kolo
