#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "engine/group.hpp"
#include "engine/mailbox.hpp"
#include "engine/operation.hpp"
#include "engine/slot_pool.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

// The process sets of a job, and this rank's groups for those that it is a member of. All ranks
// make the same changes in the same order, so they number the sets alike. Owns the transport and
// the node's memory that the groups use. Used by the thread that drives the engine.
class ProcessSets {
 public:
  // Makes the world, set 0. Options, mailbox and tracing must outlive the object. `node`: null
  // where memory is not shared.
  ProcessSets(std::unique_ptr<Transport> transport, std::shared_ptr<shm::Node> node,
              const GroupOptions& options, Mailbox& mailbox, timeline::Tracing& tracing);

  Group& world() { return *groups_.at(0); }
  // Null if the set does not exist, or this rank is not a member.
  Group* find(int process_set);

  // Adds and removes the sets that the ranks of the world have agreed on, and ends the removals
  // whose groups have finished. `leaving`: this rank shuts down, so new groups end at once.
  void change(bool leaving);
  // Whether a set is being removed.
  bool removes_any() const;

  // Fails all operations, and removals of sets. Devices are stopped last, because that may take
  // seconds.
  void fail_all(const Status& status);

  // This rank's groups, by the number of the set.
  const std::map<int, std::unique_ptr<Group>>& groups() const { return groups_; }
  template <typename Predicate>
  bool any_group(const Predicate& predicate) const {
    return std::any_of(groups_.begin(), groups_.end(),
                       [&](const auto& entry) { return predicate(*entry.second); });
  }

 private:
  struct ProcessSet {
    SlotPool::Slot slot;
    std::shared_ptr<Operation> removal;  // ends when this rank's group has finished
  };

  void add(const std::shared_ptr<Operation>& operation, bool leaving);
  void remove(const std::shared_ptr<Operation>& operation);
  void forget_finished();
  void make_group(int number, const SlotPool::Slot& slot, const std::vector<int>& ranks);

  const GroupOptions& options_;
  Mailbox& mailbox_;
  timeline::Tracing& tracing_;
  const std::shared_ptr<shm::Node> node_;
  const std::unique_ptr<Transport> transport_;
  SlotPool slots_;
  int next_ = 1;                                  // the number of the next set
  std::map<int, ProcessSet> sets_;                // by number
  std::map<int, std::unique_ptr<Group>> groups_;  // last, because groups use what is above
};

}  // namespace kolo
