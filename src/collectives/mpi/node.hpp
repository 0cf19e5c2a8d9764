// Connects the ranks that run on one node.
#pragma once

#include <memory>

#include "collectives/lifelines.hpp"
#include "collectives/mpi/runtime.hpp"
#include "collectives/shm/node.hpp"
#include "core/status.hpp"
#include "core/topology.hpp"

namespace kolo {

// The connections among the ranks of a node. Both members are null if the rank is alone on its
// node. If a connection cannot be made, its member is null and a warning gives the reason.
struct NodeConnection {
  std::shared_ptr<Lifelines> lifelines;
  std::shared_ptr<shm::Node> node;  // also null if a rank of the node has no arena
};

// Collective over `parent`. `arena`: the memory that this rank shares with its node, or null.
Status connect_node(MpiParent parent, const Topology& topology,
                    const std::shared_ptr<shm::Arena>& arena, NodeConnection& made);

}  // namespace kolo
