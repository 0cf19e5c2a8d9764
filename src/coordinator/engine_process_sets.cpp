// Process sets, which come and go in an order that all ranks see alike.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/subset/transport.hpp"
#include "coordinator/engine.hpp"

namespace kolo {

Group* Engine::group(int process_set) {
  const auto found = sets_.find(process_set);
  return found == sets_.end() ? nullptr : found->second.group.get();
}

void Engine::make_group(int process_set, ProcessSet& set, const std::vector<int>& ranks) {
  set.group = std::make_unique<Group>(process_set, set.slot, ranks,
                                      make_subset_transport(*transport_, ranks, set.slot.number),
                                      node_, options_.group, mailbox_, *tracing_);
}

// All ranks see the changes in the same order, so they number the sets alike.
void Engine::change_process_sets() {
  for (const std::shared_ptr<Operation>& operation : world().take_changes()) {
    if (operation->descriptor.kind == OpKind::kAddProcessSet) {
      add_process_set(operation);
    } else {
      remove_process_set(operation);
    }
  }
}

void Engine::add_process_set(const std::shared_ptr<Operation>& operation) {
  if (next_process_set_ == std::numeric_limits<int>::max()) {
    return world().complete(operation, Status::invalid_argument(
                                           "add_process_set: " + std::to_string(next_process_set_) +
                                           " process sets have been made; no numbers are left"));
  }
  const std::optional<SlotPool::Slot> slot = slots_.take();
  if (!slot) {
    return world().complete(
        operation,
        Status::invalid_argument("add_process_set: there are " + std::to_string(sets_.size()) +
                                 " process sets, and MPI's tags are enough for no more; "
                                 "remove some"));
  }
  const std::vector<std::int64_t>& shape = operation->descriptor.tensors[0].shape;
  const std::vector<int> ranks(shape.begin(), shape.end());
  operation->number = next_process_set_++;
  ProcessSet& set = sets_[operation->number];
  set.slot = *slot;
  if (std::find(ranks.begin(), ranks.end(), rank_) != ranks.end())
    make_group(operation->number, set, ranks);
  if (set.group != nullptr && leave_deadline_) set.group->leave();
  world().complete(operation, Status::ok());
}

// The members' groups end as the world does at shutdown: what all have submitted still is done.
void Engine::remove_process_set(const std::shared_ptr<Operation>& operation) {
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
  if (found->second.group != nullptr) found->second.group->leave();
}

void Engine::forget_finished_sets() {
  for (auto set = sets_.begin(); set != sets_.end();) {
    const bool ends = set->second.removal != nullptr &&
                      (set->second.group == nullptr || set->second.group->finished());
    if (ends) world().complete(set->second.removal, Status::ok());
    set = ends ? sets_.erase(set) : std::next(set);
  }
}

}  // namespace kolo
