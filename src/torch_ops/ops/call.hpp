// Calls of the API.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/operations.hpp"
#include "engine/operation.hpp"
#include "torch_ops/ops/handle_state.hpp"
#include "torch_ops/ops/process_set_state.hpp"

namespace kolo {

// A call: its session, and its operation's kind and name.
struct Call {
  std::shared_ptr<Session> session;
  ProcessSet set;
  OpKind kind = OpKind::kAllreduce;  // of the first operation, if there are several
  std::string name;
  bool transient = false;
  // The point at which its tensors, on a device, have their values. If null, the point that the
  // current stream has reached when the operation is made.
  std::shared_ptr<DevicePoint> ready;

  // `function` and `operation` appear in messages: "allreduce_async" and "allreduce". They must be
  // literals. If `given` is empty, takes the next name of unnamed_names(). Throws if this rank is
  // not a member of the set.
  Call(const char* function, const char* operation, OpKind kind, const std::string& given,
       const ProcessSet& process_set);

  // Returns the call that backward() makes, for an operation of that kind.
  Call gradient(OpKind of_kind) const;

  std::string what() const;  // for messages: "allreduce of 'x' on rank 3"

  int rank() const { return set.rank(); }  // in the set
  int size() const { return set.size(); }
  // Converts a rank of the job to its position in the set; throws if it is not a member.
  int root_in_set(int root_rank) const;

 private:
  const char* operation_;
};

// Throws InvalidArgumentError if a set (not that of all ranks) does not belong to this session.
void check_alive(const Session& session, const ProcessSet& set, const char* function);

// Returns the generator of names for the process set's unnamed operations.
UnnamedNames& unnamed_names(Session& session, const ProcessSet& set);

// Returns the call's operation, without any work yet.
std::shared_ptr<Operation> operation_of(const Call& call);

// Tells the other ranks of the set that this one cannot take part in the call, and why, so that
// they do not wait. For a send, `meant` holds the two ranks. The call's name stays usable.
void give_up(const Call& call, Descriptor meant, const std::string& why);

// Returns the result of make(), which checks arguments. If make() throws, gives the call up.
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
