// The collectives of a group whose ranks are on several nodes and share memory on each.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/backend.hpp"

namespace kolo {

// A rank's place in such a group. The vectors hold ranks of the group.
struct Hierarchy {
  std::vector<int> local;  // the ranks of its node, itself among them
  int local_rank = 0;      // its index in `local`
  // Number of ranks of each node, from its first one, that own a slice of the data to reduce: as
  // many as the smallest node has.
  int slices = 1;
  std::vector<int> cross;  // owners of the same slice, one per node; empty: it owns none
};

// `nodes`: the node of each rank of the group. Returns nothing if all ranks are on one node, or
// each is on its own.
std::optional<Hierarchy> find_hierarchy(const std::vector<int>& nodes, int rank);

// The backends by which a rank reaches the others in stages. Null: no other rank is there.
struct Levels {
  Backend* local = nullptr;  // the ranks of its node
  Backend* cross = nullptr;  // the owners of its slice; only its allreduce is used
  int local_rank = 0;
  int slices = 1;
  // Bytes that pass through the stages at a time: while one chunk is between nodes, the next is
  // reduced within them.
  std::size_t chunk = 4 << 20;
};

// Makes an allreduce in three stages: reduce-scatter within each node, all-reduce of the slices
// between nodes by all their owners at once, all-gather within each node. In each chunk, each slice
// has an owner on every node. Jia and others, Highly Scalable Deep Learning Training System with
// Mixed-Precision, 2018. The works within a node follow each other in the same order on all its
// ranks, whatever the timing between nodes.
std::unique_ptr<Work> make_hierarchical_allreduce(const Levels& levels, Turn turn, void* data,
                                                  std::size_t count, const Reduction& reduction);

// `transport` is the group's and outlives the result. `local` is the backend of hierarchy.local, or
// null for a rank that is alone on its node. Operations without stages of their own go over
// `messages`. Its tags begin with first_tag, as those between nodes do.
std::unique_ptr<Backend> make_hierarchical_backend(const Hierarchy& hierarchy, Transport& transport,
                                                   Tag first_tag, const Tuning& tuning,
                                                   std::unique_ptr<Backend> local,
                                                   std::unique_ptr<Backend> messages);

}  // namespace kolo
