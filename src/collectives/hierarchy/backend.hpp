// The collectives of a group whose ranks are on several nodes and share memory on each.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/backend.hpp"

namespace kolo {

// Where a rank stands in such a group. All are ranks of the group.
struct Hierarchy {
  std::vector<int> local;  // those of its node, itself among them
  int local_rank = 0;      // its place among these
  // The first so many ranks of each node own a slice of what is reduced; as many as the smallest
  // node has.
  int slices = 1;
  std::vector<int> cross;  // who owns the same slice on each node; empty: it owns none
};

// nodes: by rank of the group, which node it is on. Nothing where all are on one, or each on its
// own.
std::optional<Hierarchy> find_hierarchy(const std::vector<int>& nodes, int rank);

// A rank's way to the others, in stages. Null: nobody is there.
struct Levels {
  Backend* local = nullptr;  // those of its node
  Backend* cross = nullptr;  // who own its slice; only its allreduce is used
  int local_rank = 0;
  int slices = 1;
  // Bytes that go through the stages at a time: while one chunk is between nodes, the next is
  // reduced within.
  std::size_t chunk = 4 << 20;
};

// In each chunk a rank of every node owns a slice. Three stages: reduce-scatter within each node,
// all-reduce of the slices between nodes by all their owners at once, all-gather within each node.
// Jia and others, Highly Scalable Deep Learning Training System with Mixed-Precision, 2018. The
// works within the node follow each other in an order that is the same on all its ranks, whatever
// comes between nodes when.
std::unique_ptr<Work> make_hierarchical_allreduce(const Levels& levels, Turn turn, void* data,
                                                  std::size_t count, const Reduction& reduction);

// `transport` is the group's and outlives this. `local` is that of hierarchy.local, null for a rank
// that is alone on its node. What has no stages of its own goes over `messages`, whose tags begin
// with first_tag as those between nodes do.
std::unique_ptr<Backend> make_hierarchical_backend(const Hierarchy& hierarchy, Transport& transport,
                                                   Tag first_tag, const Tuning& tuning,
                                                   std::unique_ptr<Backend> local,
                                                   std::unique_ptr<Backend> messages);

}  // namespace kolo
