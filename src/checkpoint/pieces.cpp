#include "checkpoint/pieces.hpp"

#include <algorithm>
#include <numeric>

namespace kolo::checkpoint {
namespace {

std::size_t pieces_of(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
}

}  // namespace

std::uint64_t count_pieces(const Table& table) {
  std::uint64_t count = 0;
  for (const TensorEntry& entry : table.tensors) count += pieces_of(entry.bytes());
  return count;
}

Pieces::Pieces(const Table& table) : order_(table.tensors.size()) {
  for (const TensorEntry& entry : table.tensors)
    places_.push_back({entry.bytes(), entry.offset, 0});
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t left, std::size_t right) {
    return places_[left].offset < places_[right].offset;
  });
  for (const std::size_t tensor : order_) {
    places_[tensor].first = count_;
    count_ += pieces_of(places_[tensor].bytes);
  }
}

std::size_t Pieces::count(std::size_t tensor) const {
  return pieces_of(places_[tensor].bytes);
}

Piece Pieces::piece(std::size_t tensor, std::size_t index) const {
  const Place& place = places_[tensor];
  const std::uint64_t begin = index * kPieceBytes;
  return {place.first + index, tensor, begin, std::min(kPieceBytes, place.bytes - begin),
          place.offset + begin};
}

}  // namespace kolo::checkpoint
