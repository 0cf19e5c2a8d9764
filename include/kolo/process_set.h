// Process sets: sets of ranks with their own operations.
#pragma once

#include <memory>
#include <vector>

namespace kolo {

namespace detail {
struct ProcessSetState;
}

// A set of ranks. Each operation has an option for the set in which it runs. Sets may overlap;
// operations of different sets run at the same time and have separate names. The default is all
// ranks. Cheap to copy; any thread may use it. A set exists until remove_process_set() or
// shutdown().
class ProcessSet {
 public:
  ProcessSet() = default;
  // For kolo itself.
  explicit ProcessSet(std::shared_ptr<const detail::ProcessSetState> state);

  // 0 for all ranks.
  int id() const;
  // The members, numbered among all ranks. A member's position in the list is its rank in the set.
  std::vector<int> ranks() const;
  int size() const;
  // Whether this rank is a member.
  bool included() const;
  // This rank's position in the set. Throws InvalidArgumentError if this rank is not a member.
  int rank() const;

  // For kolo itself; null for all ranks.
  const std::shared_ptr<const detail::ProcessSetState>& state() const { return state_; }

 private:
  std::shared_ptr<const detail::ProcessSetState> state_;
};

// Makes a process set of these ranks (numbered among all ranks), in this order. Collective over all
// ranks, members or not; every rank gives the same list. Throws InvalidArgumentError for ranks that
// do not exist or are listed twice, MismatchError if the ranks' lists differ.
ProcessSet add_process_set(const std::vector<int>& ranks);

// Removes a process set. Collective over all ranks. Operations that all members have submitted are
// completed. Throws InvalidArgumentError for a set that does not exist, and for that of all ranks.
void remove_process_set(const ProcessSet& process_set);

}  // namespace kolo
