// Connects the ranks that run on one node.
#pragma once

#include <memory>

#include "collectives/lifelines.hpp"
#include "collectives/mpi/runtime.hpp"
#include "collectives/shm/node.hpp"
#include "core/status.hpp"
#include "core/topology.hpp"

namespace kolo {

// What connects the ranks of a node. Both are null where a rank is alone on its node; what cannot
// be had for another reason is null, too, and a warning says why.
struct NodeConnection {
  std::shared_ptr<Lifelines> lifelines;
  std::shared_ptr<shm::Node> node;  // also null where a rank has no arena
};

// Collective over `parent`. `arena`: what this rank lets the others of its node reach, or null.
Status connect_node(MpiParent parent, const Topology& topology,
                    const std::shared_ptr<shm::Arena>& arena, NodeConnection& made);

}  // namespace kolo
