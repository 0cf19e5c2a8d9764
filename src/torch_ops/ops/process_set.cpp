#include "kolo/process_set.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "collectives/mpi/runtime.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/mpi_detail.h"
#include "kolo/objects.h"
#include "kolo/operations.h"
#include "torch_ops/ops/handle_state.hpp"

namespace kolo {
namespace {

// Returns a call that changes process sets. It concerns all ranks.
Call change(const char* function, OpKind kind) {
  return Call(function, function, kind, std::string("kolo.") + function, ProcessSet());
}

// Runs the call in the engine.
std::shared_ptr<Operation> run_change(const Call& call, std::vector<std::int64_t> numbers) {
  std::shared_ptr<Operation> operation = call.operation();
  operation->descriptor.tensors = {{DType::kInt64, std::move(numbers)}};
  operation->tensors.emplace_back();
  run(call, operation, at::Tensor());
  return operation;
}

void check_ranks(const std::vector<int>& ranks, int size) {
  const auto refuse = [](const std::string& why) {
    throw InvalidArgumentError("add_process_set: " + why);
  };
  if (ranks.empty()) refuse("a process set needs a rank at least");
  std::vector<bool> seen(static_cast<std::size_t>(size), false);
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size) {
      refuse("rank " + std::to_string(rank) + " is not between 0 and " + std::to_string(size - 1));
    }
    if (seen[static_cast<std::size_t>(rank)])
      refuse("rank " + std::to_string(rank) + " comes twice");
    seen[static_cast<std::size_t>(rank)] = true;
  }
}

}  // namespace

ProcessSet::ProcessSet(std::shared_ptr<const detail::ProcessSetState> state)
    : state_(std::move(state)) {}

int ProcessSet::id() const {
  return state_ ? state_->id : 0;
}

std::vector<int> ProcessSet::ranks() const {
  if (state_) return state_->ranks;
  std::vector<int> all(static_cast<std::size_t>(kolo::size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int ProcessSet::size() const {
  return state_ ? static_cast<int>(state_->ranks.size()) : kolo::size();
}

bool ProcessSet::included() const {
  if (!state_) return true;
  return std::find(state_->ranks.begin(), state_->ranks.end(), kolo::rank()) != state_->ranks.end();
}

int ProcessSet::rank() const {
  if (!state_) return kolo::rank();
  const auto found = std::find(state_->ranks.begin(), state_->ranks.end(), kolo::rank());
  if (found != state_->ranks.end()) return static_cast<int>(found - state_->ranks.begin());
  throw InvalidArgumentError("rank " + std::to_string(kolo::rank()) +
                             " is not a member of process set " + std::to_string(id()));
}

ProcessSet add_process_set(const std::vector<int>& ranks) {
  const Call call = change("add_process_set", OpKind::kAddProcessSet);
  call.or_give_up([&] { check_ranks(ranks, call.size()); });
  const auto operation = run_change(call, {ranks.begin(), ranks.end()});
  auto state = std::make_shared<detail::ProcessSetState>();
  state->session = call.session;
  state->id = operation->number;
  state->ranks = ranks;
  return ProcessSet(std::move(state));
}

void remove_process_set(const ProcessSet& process_set) {
  const Call call = change("remove_process_set", OpKind::kRemoveProcessSet);
  call.or_give_up([&] {
    if (!process_set.state())
      throw InvalidArgumentError("remove_process_set: all ranks are no set that can be removed");
    check_alive(*call.session, process_set, "remove_process_set");
  });
  run_change(call, {process_set.id()});
}

std::vector<ProcessSet> init(const std::vector<std::vector<int>>& process_sets) {
  init();
  std::vector<ProcessSet> sets;
  sets.reserve(process_sets.size());
  for (const std::vector<int>& ranks : process_sets) sets.push_back(add_process_set(ranks));
  return sets;
}

namespace detail {

// Ranks may pass different communicators, as MPI_Comm_split creates them; each becomes a set.
ProcessSet add_process_set_from_comm(const void* mpi_comm) {
  const std::shared_ptr<Session> running = session("add_process_set_from_comm");
  // The own rank in MPI_COMM_WORLD, and those of the communicator.
  const auto encode = [&] {
    int own = 0;
    std::vector<int> members;
    Status status;
    running->engine().visit(
        [&] { status = ranks_in_mpi_world(MpiParent{mpi_comm}, members, own); });
    throw_if_error(status);
    members.insert(members.begin(), own);
    return std::string(reinterpret_cast<const char*>(members.data()), members.size() * sizeof(int));
  };
  std::vector<std::vector<int>> given;
  std::map<int, int> ranks;  // by rank in MPI_COMM_WORLD
  for (const std::string& bytes : allgather_bytes(encode, "add_process_set.ranks")) {
    given.emplace_back(bytes.size() / sizeof(int));
    std::memcpy(given.back().data(), bytes.data(), bytes.size());
    ranks.emplace(given.back().front(), static_cast<int>(given.size()) - 1);
  }
  if (ranks.size() < given.size()) {
    throw InvalidArgumentError(
        "add_process_set_from_comm: kolo's ranks have several MPI_COMM_WORLDs; name the ranks "
        "instead: add_process_set(ranks)");
  }
  std::vector<std::vector<int>> sets;
  std::vector<bool> covered(given.size(), false);
  for (std::size_t rank = 0; rank < given.size(); ++rank) {
    if (given[rank].size() == 1 || covered[rank]) continue;
    std::vector<int>& members = sets.emplace_back();
    for (std::size_t i = 1; i < given[rank].size(); ++i) {
      const auto member = ranks.find(given[rank][i]);
      if (member == ranks.end()) {
        throw InvalidArgumentError("add_process_set_from_comm: the communicator of rank " +
                                   std::to_string(rank) +
                                   " has a process that is not a rank of kolo; name the ranks "
                                   "instead: add_process_set(ranks)");
      }
      members.push_back(member->second);
      covered[static_cast<std::size_t>(member->second)] = true;
    }
  }
  ProcessSet own(std::make_shared<ProcessSetState>());
  for (const std::vector<int>& members : sets) {
    const ProcessSet set = add_process_set(members);
    if (set.included()) own = set;
  }
  return own;
}

}  // namespace detail
}  // namespace kolo
