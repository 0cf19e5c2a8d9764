#include "engine/group_backend.hpp"

#include <utility>

#include "collectives/hierarchy/backend.hpp"
#include "collectives/messages/backend.hpp"
#include "collectives/messages/control_channel.hpp"
#include "collectives/shm/backend.hpp"
#include "collectives/shm/control_channel.hpp"
#include "collectives/shm/layout.hpp"

namespace kolo {
namespace {

// By rank of the group.
std::vector<int> nodes_of(const GroupPlace& place) {
  std::vector<int> nodes;
  nodes.reserve(place.ranks.size());
  for (const int rank : place.ranks)
    nodes.push_back(place.nodes.empty() ? rank : place.nodes[static_cast<std::size_t>(rank)]);
  return nodes;
}

std::unique_ptr<Backend> make_node_backend(const GroupPlace& place, const std::vector<int>& local,
                                           std::unique_ptr<Backend> messages) {
  return shm::make_backend(place.node, local, place.slot.number, place.slot.generation,
                           std::move(messages));
}

}  // namespace

std::optional<std::vector<int>> find_on_node(const GroupPlace& place) {
  const std::size_t size = place.ranks.size();
  if (place.node == nullptr || size == 1 || size > shm::ControlRing::kMostRanks)
    return std::nullopt;
  return place.node->find(place.ranks);
}

std::unique_ptr<Backend> make_group_backend(const GroupPlace& place, Transport& transport,
                                            const Tuning& tuning) {
  auto messages = make_message_backend(transport, kFirstFreeTag, tuning);
  if (const auto local = find_on_node(place))
    return make_node_backend(place, *local, std::move(messages));
  const auto hierarchy = find_hierarchy(nodes_of(place), transport.rank());
  if (!hierarchy) return messages;
  std::unique_ptr<Backend> within;
  if (hierarchy->local.size() > 1) {
    std::vector<int> world;
    world.reserve(hierarchy->local.size());
    for (const int rank : hierarchy->local)
      world.push_back(place.ranks[static_cast<std::size_t>(rank)]);
    within = make_node_backend(place, place.node->find(world).value(), nullptr);
  }
  return make_hierarchical_backend(*hierarchy, transport, kFirstFreeTag, tuning, std::move(within),
                                   std::move(messages));
}

std::unique_ptr<ControlChannel> make_group_channel(const GroupPlace& place, Transport& transport) {
  const std::optional<std::vector<int>> local = find_on_node(place);
  if (!local) return make_message_control_channel(transport);
  return shm::make_control_channel(place.node, *local, place.slot.number, place.slot.generation);
}

}  // namespace kolo
