// Calls of the API.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/exception.hpp"
#include "core/operations.hpp"
#include "engine/operation.hpp"
#include "torch_ops/ops/process_set_state.hpp"
#include "torch_ops/session/session.hpp"

namespace kolo {

// A call: its session, and its operation's kind and name. Other ranks may wait for this one
// already. So a call whose arguments turn out to be wrong is given up, which they learn.
struct Call {
  std::shared_ptr<Session> session;
  ProcessSet set;
  OpKind kind = OpKind::kAllreduce;  // of the first operation, if there are several
  std::string name;
  bool transient = false;
  int source = 0;  // of a send: the two ranks, in the job
  int destination = 0;

  // `function` and `operation` appear in messages: "allreduce_async" and "allreduce". They must be
  // literals. If `given` is empty, takes the next name of unnamed_names(). Throws if this rank is
  // not a member of the set.
  Call(const char* function, const char* operation, OpKind kind, const std::string& given,
       const ProcessSet& process_set);
  // `options`: OperationOptions or AllreduceOptions.
  template <typename Options>
  Call(const char* function, const char* operation, OpKind of_kind, const Options& options)
      : Call(function, operation, of_kind, options.name(), options.process_set()) {}

  // Returns the call that backward() makes, for an operation of that kind. The gradient of a
  // message goes the opposite way.
  Call gradient(OpKind of_kind) const;

  std::string what() const;  // for messages: "allreduce of 'x' on rank 3"

  int rank() const { return set.rank(); }  // in the set
  int size() const { return set.size(); }
  // Converts a rank of the job to its position in the set; throws if it is not a member.
  int root_in_set(int root_rank) const;
  bool is_root(int root_rank) const { return rank() == root_in_set(root_rank); }

  // Throws InvalidArgumentError.
  [[noreturn]] void refuse(const std::string& why) const;

  // Reports to the other ranks of the set, for a send to the other rank, that this one cannot take
  // part, and why, so that they do not wait. The call's name stays usable.
  void give_up(const std::string& why) const;

  // Returns the result of make(), which checks arguments. If make() throws, gives the call up.
  template <typename Make>
  auto or_give_up(const Make& make) const {
    try {
      return make();
    } catch (...) {
      give_up(text_of(std::current_exception()));
      throw;
    }
  }

  // Returns the call's operation, without any tensors yet.
  std::shared_ptr<Operation> operation() const;

 private:
  const char* operation_;
};

// Throws InvalidArgumentError if a set (not that of all ranks) does not belong to this session.
void check_alive(const Session& session, const ProcessSet& set, const char* function);

// Returns the generator of names for the process set's unnamed operations.
UnnamedNames& unnamed_names(Session& session, const ProcessSet& set);

}  // namespace kolo
