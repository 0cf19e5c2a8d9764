// A small state of one process in files, without LibTorch: tensors whose bytes say which step they
// are of.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/metadata.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/reading.hpp"
#include "checkpoint/shelf.hpp"
#include "checkpoint/writing.hpp"

namespace kolo::checkpoint::test {

inline Table small_table(std::int64_t step) {
  Table table;
  table.tensors = {{"model/weight", ElementType::kFloat32, {300, 1024}},
                   {"model/bias", ElementType::kFloat32, {300}},
                   {"model/empty", ElementType::kFloat32, {0, 3}},
                   {"model/scalar", ElementType::kFloat64, {}},
                   {"random/cpu", ElementType::kUint8, {2, 5056}, Kind::kPerRank}};
  table.values = {{"epoch", step / 10}, {"config", std::string("lr: 0.1")}, {"rate", 0.5}};
  put({step, 2, "2026-11-22T20:13:47Z", "0.1.0", static_cast<double>(step % 7)}, table);
  return table;
}

inline std::vector<unsigned char> bytes_of(const TensorEntry& entry, std::int64_t step) {
  std::vector<std::uint64_t> words(entry.bytes() / sizeof(std::uint64_t) + 1);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = (i + 1) * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(step);
  std::vector<unsigned char> bytes(entry.bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

// As one rank does it.
inline void save_small(FileSystem& files, Shelf& shelf, std::int64_t step) {
  Table table = small_table(step);
  const Metadata metadata = make_metadata(table, count_pieces(table));
  shelf.look();
  const Pieces pieces(table);
  std::vector<std::vector<unsigned char>> bytes;
  for (const TensorEntry& entry : table.tensors) bytes.push_back(bytes_of(entry, step));
  std::vector<PieceData> data;
  for (const std::size_t tensor : pieces.order())
    for (std::size_t i = 0; i < pieces.count(tensor); ++i) {
      const Piece piece = pieces.piece(tensor, i);
      data.push_back({piece, bytes[tensor].data() + piece.begin});
    }
  save_alone(files, shelf, metadata, step, static_cast<double>(step % 7), data);
}

// The step of a file that is whole and right. Throws what Reader throws.
inline std::int64_t step_if_whole(FileSystem& files, const std::string& path) {
  Reader reader(files, path);
  const std::int64_t step = about_of(reader.table()).step;
  for (std::size_t i = 0; i < reader.table().tensors.size(); ++i) {
    const TensorEntry& entry = reader.table().tensors[i];
    std::vector<unsigned char> bytes(entry.bytes());
    reader.read(i, bytes.data());
    if (bytes != bytes_of(entry, step)) throw std::logic_error(entry.name + " has other bytes");
  }
  return step;
}

}  // namespace kolo::checkpoint::test
