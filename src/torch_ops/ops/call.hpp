// A call of the API.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/operations.hpp"
#include "engine/operation.hpp"
#include "torch_ops/ops/handle_state.hpp"
#include "torch_ops/ops/process_set_state.hpp"

namespace kolo {

// A call: its session, and the kind and name its operation goes by.
struct Call {
  std::shared_ptr<Session> session;
  ProcessSet set;
  OpKind kind = OpKind::kAllreduce;  // of the first operation, if it makes several
  std::string name;
  bool transient = false;
  // When its tensors, on a device, have their values; null: when the current stream comes to where
  // the operation is made.
  std::shared_ptr<DevicePoint> ready;

  // `function` and `operation` are for messages, and literals: "allreduce_async" and "allreduce".
  // Without a given name it gets one of unnamed_names(). Throws where this rank is no member of the
  // set.
  Call(const char* function, const char* operation, OpKind kind, const std::string& given,
       const ProcessSet& process_set);

  // The call that backward() makes, of an operation of that kind.
  Call gradient(OpKind of_kind) const;

  std::string what() const;  // for messages: "allreduce of 'x' on rank 3"

  int rank() const { return set.rank(); }  // in the set
  int size() const { return set.size(); }
  // The position in the set of a rank among all; throws if it is no member.
  int root_in_set(int root_rank) const;

 private:
  const char* operation_;
};

// Throws InvalidArgumentError for a set (not that of all ranks) that is none of this session.
void check_alive(const Session& session, const ProcessSet& set, const char* function);

// Those of the process set.
UnnamedNames& unnamed_names(Session& session, const ProcessSet& set);

// The call's operation, with nothing to do yet.
std::shared_ptr<Operation> operation_of(const Call& call);

// Tells the other ranks of the set that this one cannot take part in the call, and why, instead of
// letting them wait. `meant` says which two ranks a send is between. The call's name stays usable.
void give_up(const Call& call, Descriptor meant, const std::string& why);

// Gives what make() gives, which checks arguments; gives the call up if it throws.
template <typename Make>
auto make_or_give_up(const Call& call, const Make& make, const Descriptor& meant = {}) {
  try {
    return make();
  } catch (const std::exception& error) {
    give_up(call, meant, error.what());
    throw;
  }
}

}  // namespace kolo
