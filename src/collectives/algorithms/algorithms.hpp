// The collective algorithms, written once over a transport. docs/architecture.md lists the steps
// and bytes of each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/algorithms/table.hpp"
#include "collectives/collective.hpp"
#include "collectives/work.hpp"

namespace kolo {

// Settings of the algorithms. Must be the same on all ranks.
struct Tuning {
  std::size_t chunk_bytes = 128 << 10;
  AllreduceTable allreduce;
};

// Returns the size of the pieces into which `bytes` bytes are cut: chunk_bytes, or more if that
// would make too many pieces. Each piece is a message, and each message costs a look at all
// messages in flight.
inline std::size_t piece_bytes(std::size_t bytes, std::size_t chunk_bytes) {
  constexpr std::size_t kMostPieces = 1024;
  constexpr std::size_t kAlignment = 64;
  const std::size_t least = (bytes / kMostPieces + kAlignment - 1) / kAlignment * kAlignment;
  return std::max(chunk_bytes, least);
}

// Every function makes the work of one rank of a collective on transport's group. All ranks call
// the same function with the same arguments (except data) and a tag that no other collective in
// flight uses. `data` is reduced or filled in place: count elements, or bytes. Results have the
// same bits on every rank and in every run.

// Uses the algorithm that the table names for the number of ranks and the size. Adasum always uses
// recursive doubling.
std::unique_ptr<Work> make_allreduce(Transport& transport, Tag tag, void* data, std::size_t count,
                                     const Reduction& reduction, const Tuning& tuning);

// Ring: reduce-scatter, then all-gather; 2 (n - 1) steps, each rank sends and receives
// 2 (n - 1) / n of the data. Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for
// Clusters of Workstations, 2009. Pieces of chunk_bytes are pipelined through the steps.
std::unique_ptr<Work> make_ring_allreduce(Transport& transport, Tag tag, void* data,
                                          std::size_t count, const Reduction& reduction,
                                          std::size_t chunk_bytes);

// Recursive doubling: log2(n) steps of all the data, and two more if n is not a power of two.
// Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH,
// 2005. The only algorithm that supports Adasum: Maleki and others, Scaling Distributed Training
// with Adaptive Summation, 2020.
std::unique_ptr<Work> make_recursive_doubling_allreduce(Transport& transport, Tag tag, void* data,
                                                        std::size_t count,
                                                        const Reduction& reduction,
                                                        std::size_t chunk_bytes);

// Rabenseifner's algorithm: reduce-scatter by vector halving and distance doubling, then all-gather
// the same way back. 2 log2(n) steps, 2 (n - 1) / n of the data. If n is not a power of two, two
// steps and all the data more. Thakur, Rabenseifner and Gropp, 2005.
std::unique_ptr<Work> make_halving_doubling_allreduce(Transport& transport, Tag tag, void* data,
                                                      std::size_t count, const Reduction& reduction,
                                                      std::size_t chunk_bytes);

// Double binary tree: each of two trees reduces half of the data to its root and sends the result
// back, with pieces of chunk_bytes pipelined. A rank with children in one tree has none in the
// other (except rank 0 if n is odd). 2 log2(n) steps for the first piece; each rank sends and
// receives at most twice the data plus two cache lines. Sanders, Speck and Träff, Two-tree
// algorithms for full bandwidth broadcast, reduction and scan, 2009.
std::unique_ptr<Work> make_tree_allreduce(Transport& transport, Tag tag, void* data,
                                          std::size_t count, const Reduction& reduction,
                                          std::size_t chunk_bytes);

// Reduce-scatter, the first half of the ring. boundaries (n + 1, in elements, from 0) cut the data
// into one segment per rank. Afterwards the rank's own segment is reduced, and the contents of the
// others are unspecified.
std::unique_ptr<Work> make_reducescatter(Transport& transport, Tag tag, void* data,
                                         std::vector<std::size_t> boundaries,
                                         const Reduction& reduction, std::size_t chunk_bytes);

// All-gather, the second half of the ring: n - 1 steps. boundaries (n + 1, in bytes, from 0) cut
// data into one segment per rank, of any size. Each rank's own segment is filled before; all are
// filled afterwards.
std::unique_ptr<Work> make_allgather(Transport& transport, Tag tag, void* data,
                                     std::vector<std::size_t> boundaries, std::size_t chunk_bytes);

// All-to-all by pairs: in step i, rank r sends its segment for rank r + i and receives the one from
// rank r - i. The n - 1 steps overlap. `from` is not changed and must not overlap `to`. A rank's
// segments for itself have the same length on both sides and are not copied.
std::unique_ptr<Work> make_alltoall(Transport& transport, Tag tag, const AlltoallSide& from,
                                    const AlltoallSide& to, std::size_t chunk_bytes);

// A message between two ranks in pieces of chunk_bytes. Sends to the peer if `sending`, otherwise
// receives from it.
std::unique_ptr<Work> make_transfer(Transport& transport, Tag tag, void* data, std::size_t bytes,
                                    int peer, bool sending, std::size_t chunk_bytes);

// Binomial tree from root; pieces of chunk_bytes are pipelined through it. log2(n) steps for the
// first piece.
std::unique_ptr<Work> make_broadcast(Transport& transport, Tag tag, void* data, std::size_t bytes,
                                     int root, std::size_t chunk_bytes);

// Measures each rank's clock against its parent's, with round trips down a binomial tree. Of many
// round trips the shortest counts, and half of it is the error (Cristian, Probabilistic clock
// synchronization, 1989). log2(n) measurements follow one another. Fills `reading`. `now`: a clock
// other than Clock, in nanoseconds.
std::unique_ptr<Work> make_clock_reading(Transport& transport, Tag tag, ClockReading& reading,
                                         std::function<std::int64_t()> now = {});

}  // namespace kolo
