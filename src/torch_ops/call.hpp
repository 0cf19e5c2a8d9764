// From a call of the API to the operation that the engine gets.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kolo/operations.h"
#include "torch_ops/handle_state.hpp"
#include "torch_ops/process_set_state.hpp"
#include "torch_ops/tensor.hpp"

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

// Refuses factors that the dtype cannot be scaled by.
void check_scales(const Call& call, at::ScalarType dtype, const AllreduceOptions& options);

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

// Each checks its arguments and, if one is wrong, gives the call up and throws
// InvalidArgumentError. Works on `results` in place.
std::shared_ptr<Operation> make_allreduce(const Call& call, at::TensorList results,
                                          const AllreduceOptions& options);
std::shared_ptr<Operation> make_broadcast(const Call& call, at::TensorList results, int root_rank);
std::shared_ptr<Operation> make_allgather(const Call& call, const std::vector<at::Tensor>& tensors,
                                          const std::shared_ptr<Gathered>& gathered);
// Without splits every rank gets the same number of rows.
std::shared_ptr<Operation> make_alltoall(const Call& call, const at::Tensor& tensor,
                                         std::vector<std::int64_t> splits,
                                         const std::shared_ptr<AlltoallResult>& result);
// `results` are made, and filled when the operation ends.
std::shared_ptr<Operation> make_reducescatter(const Call& call,
                                              const std::vector<at::Tensor>& tensors,
                                              const ReducescatterOptions& options,
                                              std::vector<at::Tensor>& results);

// Copies to work on. They, too, give the call up for tensors that kolo cannot take.
at::Tensor working_copy(const Call& call, const at::Tensor& tensor);
std::vector<at::Tensor> working_copies(const Call& call, const std::vector<at::Tensor>& tensors);

}  // namespace kolo
