// The collectives of ranks that share memory, each a work over an exposure. docs/architecture.md
// tells how each one goes.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/shm/board.hpp"

namespace kolo::shm {

// Whether an allreduce travels whole in the lines' room: every rank reduces all of it by itself.
bool fits_room(std::size_t bytes);

std::unique_ptr<Work> make_small_allreduce(Board& board, Turn turn, void* data, std::size_t count,
                                           const Reduction& reduction);

// Each rank reduces its share of every piece, from all ranks and to all ranks.
std::unique_ptr<Work> make_sliced_allreduce(Board& board, Turn turn, void* data, std::size_t count,
                                            const Reduction& reduction);

// The others read what each one exposes.
std::unique_ptr<Work> make_broadcast(Board& board, Turn turn, void* data, std::size_t bytes,
                                     int root);
std::unique_ptr<Work> make_allgather(Board& board, Turn turn, void* data,
                                     const std::vector<std::size_t>& boundaries);
// Each rank's offsets travel in its line's room.
bool offsets_fit_room(int ranks);
std::unique_ptr<Work> make_alltoall(Board& board, Turn turn, const AlltoallSide& from,
                                    const AlltoallSide& to);
std::unique_ptr<Work> make_reducescatter(Board& board, Turn turn, void* data,
                                         const std::vector<std::size_t>& boundaries,
                                         const Reduction& reduction);
std::unique_ptr<Work> make_transfer(Board& board, Turn turn, void* data, std::size_t bytes,
                                    int source, int destination);

}  // namespace kolo::shm
