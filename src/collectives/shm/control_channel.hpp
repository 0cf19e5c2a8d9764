// The control plane's channel where the ranks of a group share memory: each rank has a ring of
// cache lines in its own segment, that it alone writes. A short message is one line, with its stamp
// in it, and so travels at once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/control_channel.hpp"
#include "collectives/shm/node.hpp"

namespace kolo::shm {

struct ControlRing {
  static constexpr std::size_t kLines = 1024;
  static constexpr std::size_t kMostRanks = 1024;

  struct alignas(64) Line {
    static constexpr std::size_t kRoom = 56;
    // Which line it is, and how many bytes of it are used: see stamp_of(). Written last.
    std::atomic<std::uint64_t> stamp;
    std::array<std::byte, kRoom> bytes;
  };

  std::array<Line, kLines> lines;
  // Of others' rings, by rank of the group: how many lines this rank has read, with the generation.
  // On rank 0 of all others', elsewhere of rank 0's.
  std::array<std::atomic<std::uint64_t>, kMostRanks> read;
};

// For a group of at most ControlRing::kMostRanks; the arguments are those of Board.
std::unique_ptr<ControlChannel> make_control_channel(std::shared_ptr<Node> node,
                                                     const std::vector<int>& local_ranks, int slot,
                                                     std::uint64_t generation);

}  // namespace kolo::shm
