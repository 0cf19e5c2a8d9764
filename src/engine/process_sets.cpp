#include "engine/process_sets.hpp"

#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "collectives/subset/transport.hpp"

namespace kolo {

ProcessSets::ProcessSets(std::unique_ptr<Transport> transport, std::shared_ptr<shm::Node> node,
                         const GroupOptions& options, Mailbox& mailbox, timeline::Tracing& tracing)
    : options_(options),
      mailbox_(mailbox),
      tracing_(tracing),
      node_(std::move(node)),
      transport_(std::move(transport)),
      slots_(subset_slots(*transport_)) {
  std::vector<int> everyone(static_cast<std::size_t>(transport_->size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  make_group(0, sets_[0].slot, everyone);
}

Group* ProcessSets::find(int process_set) {
  const auto found = groups_.find(process_set);
  return found == groups_.end() ? nullptr : found->second.get();
}

void ProcessSets::make_group(int number, const SlotPool::Slot& slot,
                             const std::vector<int>& ranks) {
  groups_[number] = std::make_unique<Group>(number, slot, ranks,
                                            make_subset_transport(*transport_, ranks, slot.number),
                                            node_, options_, mailbox_, tracing_);
}

void ProcessSets::change(bool leaving) {
  for (const std::shared_ptr<Operation>& operation : world().take_changes()) {
    if (operation->descriptor.kind == OpKind::kAddProcessSet) {
      add(operation, leaving);
    } else {
      remove(operation);
    }
  }
  forget_finished();
}

void ProcessSets::add(const std::shared_ptr<Operation>& operation, bool leaving) {
  if (next_ == std::numeric_limits<int>::max()) {
    return world().complete(
        operation, Status::invalid_argument("add_process_set: " + std::to_string(next_) +
                                            " process sets have been made; no numbers are left"));
  }
  const std::optional<SlotPool::Slot> slot = slots_.take();
  if (!slot) {
    return world().complete(operation,
                            Status::invalid_argument(
                                "add_process_set: there are " + std::to_string(sets_.size()) +
                                " process sets, and MPI has no tags for another one; remove some"));
  }
  const std::vector<std::int64_t>& shape = operation->descriptor.tensors[0].shape;
  const std::vector<int> ranks(shape.begin(), shape.end());
  operation->number = next_++;
  sets_[operation->number].slot = *slot;
  if (std::find(ranks.begin(), ranks.end(), transport_->rank()) != ranks.end()) {
    make_group(operation->number, *slot, ranks);
    if (leaving) groups_[operation->number]->leave();
  }
  world().complete(operation, Status::ok());
}

// The members' groups end as the world does at shutdown: operations that all members have submitted
// are still carried out.
void ProcessSets::remove(const std::shared_ptr<Operation>& operation) {
  const auto number = static_cast<int>(operation->descriptor.tensors[0].shape[0]);
  const auto found = sets_.find(number);
  if (found == sets_.end() || number == 0) {
    return world().complete(
        operation, Status::invalid_argument("remove_process_set: there is no process set " +
                                            std::to_string(number)));
  }
  if (found->second.removal != nullptr) {
    return world().complete(
        operation, Status::invalid_argument("remove_process_set: process set " +
                                            std::to_string(number) + " is being removed already"));
  }
  found->second.removal = operation;
  slots_.give_back(found->second.slot.number);
  if (Group* const group = find(number)) group->leave();
}

void ProcessSets::forget_finished() {
  for (auto set = sets_.begin(); set != sets_.end();) {
    const Group* const group = find(set->first);
    if (set->second.removal == nullptr || (group != nullptr && !group->finished())) {
      ++set;
      continue;
    }
    world().complete(set->second.removal, Status::ok());
    groups_.erase(set->first);
    set = sets_.erase(set);
  }
}

bool ProcessSets::removes_any() const {
  return std::any_of(sets_.begin(), sets_.end(),
                     [](const auto& set) { return set.second.removal != nullptr; });
}

void ProcessSets::fail_all(const Status& status) {
  for (const auto& [number, group] : groups_) group->fail_all(status);
  for (auto& [number, set] : sets_) {
    if (set.removal != nullptr) world().complete(std::exchange(set.removal, nullptr), status);
  }
  for (const auto& [number, group] : groups_) group->abort_device();
}

}  // namespace kolo
