// Ranks in one process write a file together, whatever parts they have, and it is the same file.
#include "checkpoint/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "checkpoint/memory_files.hpp"
#include "checkpoint/metadata.hpp"
#include "checkpoint/reading.hpp"
#include "checkpoint/writing.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

using Bytes = std::vector<unsigned char>;

// What a tensor's bytes are, whoever has them.
unsigned char byte_of(std::size_t tensor, std::uint64_t at) {
  return static_cast<unsigned char>((at * 2654435761U >> 7) + 31 * tensor);
}

Bytes part_of(const TensorEntry& entry, std::size_t tensor, const Box& box) {
  Bytes part(elements_of(box) * size_of(entry.type));
  for_each_run(entry.shape, box, [&](const Run& run) {
    for (std::uint64_t i = 0; i < run.elements * size_of(entry.type); ++i)
      part[run.in_box * size_of(entry.type) + i] =
          byte_of(tensor, run.in_tensor * size_of(entry.type) + i);
  });
  return part;
}

struct State {
  Table table;
  Boxes boxes;
  RankZeros rank_zeros;
};

// Cut along a dimension of at least two, evenly or at random.
std::vector<Box> cut(const std::vector<std::int64_t>& shape, std::size_t dimension, int ranks,
                     std::minstd_rand& random) {
  std::vector<std::int64_t> borders = {0, shape[dimension]};
  while (static_cast<int>(borders.size()) <= ranks)
    borders.push_back(
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[dimension] + 1)));
  std::sort(borders.begin(), borders.end());
  std::vector<Box> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    parts.push_back(whole(shape));
    parts.back().start[dimension] = borders[r];
    parts.back().extent[dimension] = borders[r + 1] - borders[r];
  }
  return parts;
}

State make_state(int ranks, bool is_spread, std::minstd_rand& random) {
  State state;
  const std::vector<std::vector<std::int64_t>> shapes = {
      {700, 1000}, {3}, {1000, 700}, {}, {5, 0, 3}, {2, 900, 300}, {1100}, {300, 3000}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    state.table.tensors.push_back({"t" + std::to_string(i),
                                   i % 2 == 0 ? ElementType::kFloat32 : ElementType::kBfloat16,
                                   shapes[i]});
    const bool is_cut = is_spread && i % 3 != 1 && !shapes[i].empty();
    state.boxes.push_back(is_cut ? cut(shapes[i], i % shapes[i].size(), ranks, random)
                                 : std::vector<Box>());
    state.rank_zeros.push_back(false);
  }
  return state;
}

// Saves as `ranks` ranks would, one after the other.
void save(FileSystem& files, const std::string& path, State state, bool all_write, int ranks) {
  check_boxes(state.table, state.boxes);
  const Metadata metadata = make_metadata(state.table, count_pieces(state.table));
  begin_file(files, path, metadata.file_size);
  const WritePlan plan(state.table, state.boxes, state.rank_zeros, all_write, ranks,
                       metadata.checksums_offset);

  std::vector<Bytes> pieces(plan.pieces().count());
  for (int writer = 0; writer < ranks; ++writer)
    for (const Piece& piece : plan.written_by(writer)) {
      EXPECT_EQ(plan.writer(piece), writer);
      pieces[piece.number].resize(piece.bytes);
      if (state.boxes[piece.tensor].empty())
        for (std::uint64_t i = 0; i < piece.bytes; ++i)
          pieces[piece.number][i] = byte_of(piece.tensor, piece.begin + i);
    }
  for (int from = 0; from < ranks; ++from) {
    std::vector<Bytes> parts(state.boxes.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (!state.boxes[i].empty())
        parts[i] =
            part_of(state.table.tensors[i], i, state.boxes[i][static_cast<std::size_t>(from)]);
    plan.for_each_transfer(from, [&](const WritePlan::Transfer& transfer) {
      const Piece& piece = transfer.piece;
      EXPECT_EQ(transfer.to, plan.writer(piece));
      const Bytes& part = parts[piece.tensor];
      std::memcpy(pieces[piece.number].data() + transfer.in_piece, part.data() + transfer.in_box,
                  transfer.bytes);
    });
  }

  std::vector<PieceSum> sums;
  for (int writer = 0; writer < ranks; ++writer) {
    std::vector<PieceData> mine;
    for (const Piece& piece : plan.written_by(writer))
      mine.push_back({piece, pieces[piece.number].data()});
    for (const PieceSum& sum : write_pieces(files, path, mine)) sums.push_back(sum);
  }
  complete_file(files, path, metadata, sums, plan.pieces().count());
}

TEST(WritePlan, WhoeverWritesTheFileIsTheSame) {
  std::minstd_rand random(3);
  test::MemoryFiles files;
  files.make_folder("f");
  save(files, "f/one", make_state(1, false, random), false, 1);
  const Bytes expected = files.content("f/one");
  for (const int ranks : {1, 2, 3, 4, 7, 16})
    for (const bool all_write : {false, true})
      for (const bool is_spread : {false, true}) {
        save(files, "f/other", make_state(ranks, is_spread, random), all_write, ranks);
        EXPECT_EQ(files.content("f/other"), expected)
            << ranks << " ranks, all write " << all_write << ", spread " << is_spread;
      }
}

TEST(WritePlan, PartsAreReadWhateverTheyAre) {
  std::minstd_rand random(5);
  test::MemoryFiles files;
  files.make_folder("f");
  save(files, "f/one", make_state(1, false, random), false, 1);
  Reader reader(files, "f/one");
  for (const int ranks : {1, 2, 3, 5}) {
    const State wanted = make_state(ranks, true, random);
    for (std::size_t i = 0; i < wanted.table.tensors.size(); ++i) {
      const TensorEntry& entry = reader.table().tensors[i];
      std::vector<Box> parts = wanted.boxes[i];
      if (parts.empty()) parts = {whole(entry.shape)};
      for (const Box& box : parts) {
        Bytes got(elements_of(box) * size_of(entry.type));
        reader.read(i, box, got.data());
        EXPECT_EQ(got, part_of(entry, i, box)) << entry.name;
      }
    }
  }
}

TEST(WritePlan, WorkIsSharedOut) {
  std::minstd_rand random(3);
  State state = make_state(1, false, random);
  const Metadata metadata = make_metadata(state.table, count_pieces(state.table));
  std::uint64_t all = 0;
  for (const TensorEntry& entry : state.table.tensors) all += entry.bytes();
  const WritePlan plan(state.table, state.boxes, state.rank_zeros, true, 4,
                       metadata.checksums_offset);
  for (int rank = 0; rank < 4; ++rank) {
    std::uint64_t bytes = 0;
    for (const Piece& piece : plan.written_by(rank)) bytes += piece.bytes;
    EXPECT_LE(bytes, all / 4 + 2 * kPieceBytes);
    EXPECT_GE(bytes + 2 * kPieceBytes, all / 4);
  }
}

// Rank 0 writes what only it has, and less of the rest, or nothing.
TEST(WritePlan, RankZerosOwnTensorsAreWrittenByRankZero) {
  std::minstd_rand random(3);
  State state = make_state(1, false, random);
  const Metadata metadata = make_metadata(state.table, count_pieces(state.table));
  for (int seed = 0; seed < 50; ++seed) {
    std::uint64_t own = 0;
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < state.table.tensors.size(); ++i) {
      const std::uint64_t bytes = state.table.tensors[i].bytes();
      state.rank_zeros[i] = seed == 0 || random() % 3 == 0;
      own += state.rank_zeros[i] ? bytes : 0;
      all += bytes;
    }
    const WritePlan plan(state.table, state.boxes, state.rank_zeros, true, 4,
                         metadata.checksums_offset);
    const std::uint64_t most = std::max(own, all / 4);
    for (int rank = 0; rank < 4; ++rank) {
      std::uint64_t bytes = 0;
      for (const Piece& piece : plan.written_by(rank)) {
        bytes += piece.bytes;
        EXPECT_TRUE(rank == 0 || !state.rank_zeros[piece.tensor]) << piece.tensor;
      }
      const std::uint64_t wanted = rank == 0 ? most : (all - most) / 3;
      EXPECT_LE(bytes, wanted + 2 * kPieceBytes);
      EXPECT_GE(bytes + 2 * kPieceBytes, wanted);
    }
  }
}

// Small tensors and the checksums lie in what is left of larger ones' last pages.
TEST(WritePlan, NoPageHasTwoWriters) {
  constexpr std::uint64_t kPage = 4096;
  State state;
  for (int i = 0; i < 12; ++i) {
    const std::int64_t extent = i % 3 == 0 ? 300'000 + 100 * i : i % 3 == 1 ? 1250 : 9;
    state.table.tensors.push_back({"t" + std::to_string(i), ElementType::kFloat32, {extent}});
    // Every other one lies on the last rank.
    std::vector<Box> boxes(4, Box{{0}, {0}});
    boxes[3] = whole({extent});
    state.boxes.push_back(i % 2 == 0 ? boxes : std::vector<Box>());
    state.rank_zeros.push_back(false);
  }
  const Metadata metadata = make_metadata(state.table, count_pieces(state.table));
  const WritePlan plan(state.table, state.boxes, state.rank_zeros, true, 4,
                       metadata.checksums_offset);
  std::map<std::uint64_t, std::set<int>> writers;
  std::map<std::uint64_t, std::set<std::size_t>> tensors;
  writers[metadata.checksums_offset / kPage].insert(0);
  for (int rank = 0; rank < 4; ++rank)
    for (const Piece& piece : plan.written_by(rank))
      for (std::uint64_t page = piece.offset / kPage;
           page <= (piece.offset + piece.bytes - 1) / kPage; ++page) {
        writers[page].insert(rank);
        tensors[page].insert(piece.tensor);
      }
  int shared = 0;
  std::set<int> all;
  for (const auto& [page, ranks] : writers) {
    EXPECT_EQ(ranks.size(), 1U) << "page " << page;
    all.insert(ranks.begin(), ranks.end());
    for (const std::size_t tensor : tensors[page])
      shared += tensors[page].size() > 1 && state.table.tensors[tensor].bytes() > kPage ? 1 : 0;
  }
  EXPECT_GT(shared, 0) << "no large tensor shares a page, so this shows nothing";
  EXPECT_EQ(all.size(), 4U);
}

TEST(WritePlan, ThePageOfTheChecksumsIsRankZeros) {
  State state;
  state.table.tensors = {{"t", ElementType::kFloat32, {300'000}}};
  state.boxes = {{Box{{0}, {0}}, whole({300'000})}};  // all of it on rank 1
  state.rank_zeros = {false};
  const Metadata metadata = make_metadata(state.table, count_pieces(state.table));
  const TensorEntry& entry = state.table.tensors[0];
  ASSERT_EQ((entry.offset + entry.bytes()) / 4096, metadata.checksums_offset / 4096)
      << "they do not share a page, so this shows nothing";
  const WritePlan plan(state.table, state.boxes, state.rank_zeros, true, 2,
                       metadata.checksums_offset);
  EXPECT_EQ(plan.writer(plan.pieces().piece(0, 0)), 1);
  EXPECT_EQ(plan.writer(plan.pieces().piece(0, 1)), 0);
}

// Of a part of a tensor no more is read than the pieces that it touches.
TEST(WritePlan, OnlyWhatIsWantedIsRead) {
  std::minstd_rand random(5);
  test::MemoryFiles files;
  files.make_folder("f");
  State state;
  state.table.tensors = {{"rows", ElementType::kFloat32, {4096, 1024}}};  // 16 pieces
  state.boxes = {{}};
  state.rank_zeros = {false};
  save(files, "f/one", state, false, 1);
  Reader reader(files, "f/one");
  const std::uint64_t before = files.bytes_read();
  Bytes got(256 * 1024 * sizeof(float));
  reader.read(0, {{1000, 0}, {256, 1024}}, got.data());
  EXPECT_EQ(files.bytes_read() - before, 2 * kPieceBytes);
}

std::string refusal(const std::vector<Box>& parts) {
  const Table table{{{"w", ElementType::kFloat32, {4, 4}}}, {}};
  try {
    check_boxes(table, {parts});
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(WritePlan, PartsThatMakeNoWholeAreRefused) {
  using testing::HasSubstr;
  EXPECT_EQ(refusal({{{0, 0}, {2, 4}}, {{2, 0}, {2, 4}}}), "");
  EXPECT_EQ(refusal({{{0, 0}, {4, 1}}, {{0, 1}, {4, 0}}, {{0, 1}, {4, 3}}}), "");
  EXPECT_THAT(refusal({{{0, 0}, {2, 4}}, {{1, 0}, {2, 4}}}), HasSubstr("ranks 0 and 1 both have"));
  EXPECT_THAT(refusal({{{0, 0}, {2, 4}}, {{3, 0}, {1, 4}}}), HasSubstr("12 elements"));
  EXPECT_THAT(refusal({{{0, 0}, {2, 4}}, {{2, 0}, {3, 4}}}), HasSubstr("rank 1's part of 'w'"));
}

}  // namespace
}  // namespace kolo::checkpoint
