// The collectives of ranks that share memory, each a work over an exposure. docs/architecture.md
// describes each one.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/shm/board.hpp"

namespace kolo::shm {

// Whether an allreduce fits the lines' rooms. Every rank then reduces all of it by itself.
bool fits_room(std::size_t bytes);

std::unique_ptr<Work> make_small_allreduce(Board& board, Turn turn, void* data, std::size_t count,
                                           const Reduction& reduction);

// Each rank reduces its share of every piece, from all ranks and to all ranks.
std::unique_ptr<Work> make_sliced_allreduce(Board& board, Turn turn, void* data, std::size_t count,
                                            const Reduction& reduction);

// Each rank reads what the others expose.
std::unique_ptr<Work> make_broadcast(Board& board, Turn turn, void* data, std::size_t bytes,
                                     int root);
std::unique_ptr<Work> make_allgather(Board& board, Turn turn, void* data,
                                     const std::vector<std::size_t>& boundaries);
// Whether an alltoall's offsets, for this number of ranks, fit a line's room, in which they travel.
bool offsets_fit_room(int ranks);
std::unique_ptr<Work> make_alltoall(Board& board, Turn turn, const AlltoallSide& from,
                                    const AlltoallSide& to);
std::unique_ptr<Work> make_reducescatter(Board& board, Turn turn,
                                         const collective::Reducescatter& what);
std::unique_ptr<Work> make_transfer(Board& board, Turn turn, void* data, std::size_t bytes,
                                    int source, int destination);

}  // namespace kolo::shm
