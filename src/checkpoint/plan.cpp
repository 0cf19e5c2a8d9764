#include "checkpoint/plan.hpp"

#include <algorithm>

#include "core/types.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

// Smaller tensors and the checksums may lie anywhere, even in the rest of a larger tensor's last
// page. Rank 0 writes all such pages, so that no two machines write to the same page, which network
// file systems handle badly.
constexpr std::uint64_t kPageBytes = 4096;

std::string described(const Box& box) {
  return "from " + to_string(box.start) + ", " + to_string(box.extent) + " long";
}

bool contains(const Box& box, const std::vector<std::int64_t>& shape, std::uint64_t element) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::uint64_t>(shape[d]);
    const auto at = static_cast<std::int64_t>(element % extent);
    if (at < box.start[d] || at >= box.start[d] + box.extent[d]) return false;
    element /= extent;
  }
  return true;
}

void check_overlap(const TensorEntry& entry, const std::vector<Box>& parts) {
  for (std::size_t left = 0; left < parts.size(); ++left) {
    for (std::size_t right = left + 1; right < parts.size(); ++right) {
      if (overlap(parts[left], parts[right])) {
        throw InvalidArgumentError("checkpoint: ranks " + std::to_string(left) + " and " +
                                   std::to_string(right) + " both have a part of '" + entry.name +
                                   "': " + described(parts[left]) + ", and " +
                                   described(parts[right]) + "; each element belongs to one rank");
      }
    }
  }
}

}  // namespace

void check_boxes(const Table& table, const Boxes& boxes) {
  for (std::size_t tensor = 0; tensor < boxes.size(); ++tensor) {
    const TensorEntry& entry = table.tensors[tensor];
    const std::vector<Box>& parts = boxes[tensor];
    if (parts.empty() || entry.kind == Kind::kPerRank) continue;
    std::uint64_t covered = 0;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (!is_within(parts[rank], entry.shape)) {
        throw InvalidArgumentError("checkpoint: rank " + std::to_string(rank) + "'s part of '" +
                                   entry.name + "', " + described(parts[rank]) +
                                   ", is not within the whole tensor, " + to_string(entry.shape));
      }
      covered += elements_of(parts[rank]);
    }
    check_overlap(entry, parts);
    const std::uint64_t all = elements_of(entry.shape).value_or(0);
    if (covered != all) {
      throw InvalidArgumentError("checkpoint: the ranks' parts of '" + entry.name + "' have " +
                                 std::to_string(covered) + " elements, the whole tensor, " +
                                 to_string(entry.shape) + ", has " + std::to_string(all));
    }
  }
}

WritePlan::WritePlan(const Table& table, const Boxes& boxes, const RankZeros& rank_zeros,
                     bool all_write, int ranks, std::uint64_t checksums_offset)
    : table_(table), boxes_(boxes), pieces_(table), writers_(pieces_.count(), 0) {
  if (all_write) choose_writers(rank_zeros, ranks, checksums_offset);
}

// Returns page numbers.
std::set<std::uint64_t> WritePlan::pages_of_rank_zero(std::uint64_t checksums_offset) const {
  std::set<std::uint64_t> pages = {checksums_offset / kPageBytes};
  for (const TensorEntry& entry : table_.tensors) {
    if (entry.bytes() == 0 || entry.bytes() >= kPageBytes) continue;
    pages.insert(entry.offset / kPageBytes);
    pages.insert((entry.offset + entry.bytes() - 1) / kPageBytes);
  }
  return pages;
}

// Gives each rank an equal share of what can be shared out: tensors that are the same on all ranks,
// and rank 0's own, which it writes first. A piece of a tensor in parts is written by the rank that
// has its first byte.
void WritePlan::choose_writers(const RankZeros& rank_zeros, int ranks,
                               std::uint64_t checksums_offset) {
  const std::set<std::uint64_t> pages = pages_of_rank_zero(checksums_offset);
  std::uint64_t own = 0, shared = 0;  // bytes
  for (std::size_t tensor = 0; tensor < boxes_.size(); ++tensor) {
    if (boxes_[tensor].empty())
      (rank_zeros[tensor] ? own : shared) += table_.tensors[tensor].bytes();
  }
  int first = 0;
  std::uint64_t before = own;
  std::uint64_t share = (own + shared) / static_cast<std::uint64_t>(ranks) + 1;  // rounded up
  if (own >= share) {  // rank 0 has enough to do
    first = 1;
    before = 0;
    share = shared / static_cast<std::uint64_t>(ranks - 1) + 1;
  }
  for (const std::size_t tensor : pieces_.order()) {
    const bool is_everywhere = boxes_[tensor].empty();
    for (std::size_t i = 0; i < pieces_.count(tensor); ++i) {
      const Piece piece = pieces_.piece(tensor, i);
      int& writer = writers_[piece.number];
      if (rank_zeros[tensor]) {
        writer = 0;
      } else if (is_everywhere) {
        writer = first + static_cast<int>(before / share);
        before += piece.bytes;
      } else {
        writer = rank_with(tensor, piece.begin);
      }
      // A large tensor begins on a page boundary, so checking the last page is enough.
      if (pages.count((piece.offset + piece.bytes - 1) / kPageBytes) > 0) writer = 0;
    }
  }
}

int WritePlan::rank_with(std::size_t tensor, std::uint64_t byte) const {
  const TensorEntry& entry = table_.tensors[tensor];
  const std::vector<Box>& parts = boxes_[tensor];
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (contains(parts[rank], entry.shape, byte / size_of(entry.type)))
      return static_cast<int>(rank);
  }
  return 0;
}

std::vector<Piece> WritePlan::written_by(int rank) const {
  std::vector<Piece> pieces;
  for (const std::size_t tensor : pieces_.order()) {
    for (std::size_t i = 0; i < pieces_.count(tensor); ++i) {
      const Piece piece = pieces_.piece(tensor, i);
      if (writer(piece) == rank) pieces.push_back(piece);
    }
  }
  return pieces;
}

bool WritePlan::writes(int rank, std::size_t tensor) const {
  for (std::size_t i = 0; i < pieces_.count(tensor); ++i) {
    if (writer(pieces_.piece(tensor, i)) == rank) return true;
  }
  return false;
}

void WritePlan::for_each_transfer(int from,
                                  const std::function<void(const Transfer&)>& take) const {
  for (std::size_t tensor = 0; tensor < boxes_.size(); ++tensor) {
    if (boxes_[tensor].empty()) continue;
    const TensorEntry& entry = table_.tensors[tensor];
    const std::uint64_t element = size_of(entry.type);
    for_each_run(entry.shape, boxes_[tensor][static_cast<std::size_t>(from)], [&](const Run& run) {
      std::uint64_t at = run.in_tensor * element;
      std::uint64_t in_box = run.in_box * element;
      const std::uint64_t end = at + run.elements * element;
      while (at < end) {
        const Piece piece = pieces_.containing(tensor, at);
        const std::uint64_t bytes = std::min(end, piece.begin + piece.bytes) - at;
        take({piece, writer(piece), at - piece.begin, in_box, bytes});
        at += bytes;
        in_box += bytes;
      }
    });
  }
}

}  // namespace kolo::checkpoint
