// Chooses what carries a group's collectives and its control messages.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/backend.hpp"
#include "collectives/control_channel.hpp"
#include "collectives/shm/node.hpp"
#include "collectives/transport.hpp"
#include "engine/slot_pool.hpp"

namespace kolo {

// The ranks of a group, and the nodes they are on.
struct GroupPlace {
  std::vector<int> ranks;           // of the group, in the world
  std::vector<int> nodes;           // of the ranks of the world; empty: unknown
  std::shared_ptr<shm::Node> node;  // this process's; null if no memory is shared
  SlotPool::Slot slot;
};

// The ranks as local ranks, if all of them are on one node and can share its memory.
std::optional<std::vector<int>> find_on_node(const GroupPlace& place);

// Shared memory if all ranks are on one node; stages if there are several nodes and one of them has
// several ranks; otherwise messages. `transport` is the group's and outlives the result.
std::unique_ptr<Backend> make_group_backend(const GroupPlace& place, Transport& transport,
                                            const Tuning& tuning);
// Shared memory if all ranks are on one node, otherwise messages.
std::unique_ptr<ControlChannel> make_group_channel(const GroupPlace& place, Transport& transport);

}  // namespace kolo
