// Process sets: groups of ranks with operations of their own.
#pragma once

#include <memory>
#include <vector>

namespace kolo {

namespace detail {
struct ProcessSetState;
}

// A set of ranks in which operations can be run, as an option of each. Sets may overlap; operations
// of different sets go on at the same time and have names of their own. The default is all ranks. A
// cheap value; any thread may use it. It ends with remove_process_set() or shutdown().
class ProcessSet {
 public:
  ProcessSet() = default;
  // For kolo itself.
  explicit ProcessSet(std::shared_ptr<const detail::ProcessSetState> state);

  // 0 for all ranks.
  int id() const;
  // The members' ranks among all; the position is the rank in the set.
  std::vector<int> ranks() const;
  int size() const;
  // Whether this rank is a member.
  bool included() const;
  // This rank's position in the set. Throws InvalidArgumentError where it is no member.
  int rank() const;

  // For kolo itself; null for all ranks.
  const std::shared_ptr<const detail::ProcessSetState>& state() const { return state_; }

 private:
  std::shared_ptr<const detail::ProcessSetState> state_;
};

// Collective over all ranks, members or not: they give the same ranks, in the order that the ranks
// of the set shall have. Throws InvalidArgumentError for ranks that do not exist or come twice,
// MismatchError where ranks disagree.
ProcessSet add_process_set(const std::vector<int>& ranks);

// Collective over all ranks. Operations in the set that all members have submitted still end.
// Throws InvalidArgumentError for a set that does not exist (all ranks cannot be removed).
void remove_process_set(const ProcessSet& process_set);

}  // namespace kolo
