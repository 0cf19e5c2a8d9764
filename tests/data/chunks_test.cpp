// The parts that read chunks: filters, geometry and cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "data/chunk_cache.hpp"
#include "data/chunk_filters.hpp"
#include "data/chunked_rows.hpp"
#include "data/rows_in_memory.hpp"
#include "kolo/error.h"

namespace kolo::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes deflated(const Bytes& bytes) {
  uLongf size = compressBound(bytes.size());
  Bytes result(size);
  EXPECT_EQ(compress(result.data(), &size, bytes.data(), bytes.size()), Z_OK);
  result.resize(size);
  return result;
}

const Bytes kSix = {1, 2, 3, 4, 5, 6};

TEST(ChunkFilters, AreUndoneFromTheLastToTheFirst) {
  // 3 elements of 2 bytes: first all low bytes, then all high ones.
  const Bytes shuffled = {1, 3, 5, 2, 4, 6};
  EXPECT_EQ(undo_filters(shuffled, {ChunkFilter::kShuffle}, 0, 2, 6), kSix);
  EXPECT_EQ(
      undo_filters(deflated(shuffled), {ChunkFilter::kShuffle, ChunkFilter::kDeflate}, 0, 2, 6),
      kSix);
  EXPECT_EQ(undo_filters(kSix, {}, 0, 2, 6), kSix);
}

TEST(ChunkFilters, SkippedOnesAreLeftOut) {
  const std::vector<ChunkFilter> both = {ChunkFilter::kShuffle, ChunkFilter::kDeflate};
  EXPECT_EQ(undo_filters({1, 3, 5, 2, 4, 6}, both, 0b10, 2, 6), kSix);
  EXPECT_EQ(undo_filters(deflated(kSix), both, 0b01, 2, 6), kSix);
  EXPECT_EQ(undo_filters(kSix, both, 0b11, 2, 6), kSix);
}

TEST(ChunkFilters, LastElementThatIsNotWholeStaysInItsPlace) {
  EXPECT_EQ(undo_filters({1, 3, 2, 4, 9}, {ChunkFilter::kShuffle}, 0, 2, 5),
            (Bytes{1, 2, 3, 4, 9}));
}

// By hand: the words are 0x0102, 0x0304 and 0x0506, their sum is 0x090C, and the sum of the sums is
// 0x0102 + 0x0406 + 0x090C = 0x0E14. Both are stored in little endian, the first one first.
TEST(ChunkFilters, ChecksumIsFletchers) {
  Bytes stored = kSix;
  stored.insert(stored.end(), {0x0C, 0x09, 0x14, 0x0E});
  EXPECT_EQ(undo_filters(stored, {ChunkFilter::kFletcher32}, 0, 1, 6), kSix);
  for (Bytes wrong = stored; std::uint8_t & byte : wrong) {
    byte ^= 4;
    EXPECT_THROW(undo_filters(wrong, {ChunkFilter::kFletcher32}, 0, 1, 6), DataError);
    byte ^= 4;
  }
  EXPECT_THROW(undo_filters({1, 2}, {ChunkFilter::kFletcher32}, 0, 1, 6), DataError);
}

TEST(ChunkFilters, OtherSizesAreRefused) {
  EXPECT_THROW(undo_filters(kSix, {}, 0, 2, 8), DataError);
  for (const std::size_t size : {std::size_t{5}, std::size_t{7}, std::size_t{1} << 20}) {
    EXPECT_THROW(undo_filters(deflated(kSix), {ChunkFilter::kDeflate}, 0, 1, size), DataError);
  }
  Bytes more = deflated(kSix);
  more.push_back(0);
  EXPECT_THROW(undo_filters(more, {ChunkFilter::kDeflate}, 0, 1, 6), DataError);
  Bytes fewer = deflated(kSix);
  fewer.pop_back();
  EXPECT_THROW(undo_filters(fewer, {ChunkFilter::kDeflate}, 0, 1, 6), DataError);
}

// Random arrays cut into random chunks are put together again. Element i of the array is i.
TEST(ChunkGrid, RowsAreMadeOfTheirChunks) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    ChunkGrid grid;
    grid.element_size = sizeof(std::uint32_t);
    const std::size_t dimensions = 1 + random() % 4;
    std::size_t row_elements = 1;
    for (std::size_t i = 0; i < dimensions; ++i) {
      grid.shape.push_back(1 + random() % 6);
      grid.chunk.push_back(1 + random() % 7);
      if (i > 0) row_elements *= grid.shape[i];
    }
    for (std::size_t row = 0; row < grid.shape[0]; ++row) {
      std::vector<std::uint32_t> got(row_elements, 0xFFFFFFFF);
      for (std::size_t k = 0; k < grid.chunks_of_row(); ++k) {
        // The chunk as a file would have it: whatever lies outside the array is not a value.
        const std::vector<std::size_t> begin = grid.offset(row / grid.chunk[0], k);
        std::vector<std::uint32_t> chunk(grid.chunk_bytes() / grid.element_size, 0xEEEEEEEE);
        for (std::size_t c = 0; c < chunk.size(); ++c) {
          std::size_t rest = c;
          std::size_t element = 0;
          std::size_t stride = 1;
          bool inside = true;
          for (std::size_t i = dimensions; i-- > 0;) {
            const std::size_t at = begin[i] + rest % grid.chunk[i];
            rest /= grid.chunk[i];
            inside = inside && at < grid.shape[i];
            element += at * stride;
            stride *= grid.shape[i];
          }
          if (inside) chunk[c] = static_cast<std::uint32_t>(element);
        }
        grid.copy_row(reinterpret_cast<const std::uint8_t*>(chunk.data()), row, k,
                      reinterpret_cast<std::uint8_t*>(got.data()));
      }
      for (std::size_t i = 0; i < row_elements; ++i)
        ASSERT_EQ(got[i], row * row_elements + i) << "round " << round << ", row " << row;
    }
  }
}

TEST(ChunkCache, LoadsAgainOnlyWhatDidNotFit) {
  ChunkCache cache(20);
  int loads = 0;
  const auto get = [&](std::size_t chunk) {
    return cache.get(chunk, [&] {
      ++loads;
      return Bytes(10, static_cast<std::uint8_t>(chunk));
    });
  };
  for (const std::size_t chunk : {1, 2, 1, 2}) EXPECT_EQ(get(chunk)->front(), chunk);
  EXPECT_EQ(loads, 2);
  get(1);
  get(3);  // instead of 2, which was asked for the longest ago
  get(1);
  EXPECT_EQ(loads, 3);
  get(2);
  EXPECT_EQ(loads, 4);
}

TEST(ChunkCache, OneThatIsTooLargeIsGivenButNotKept) {
  ChunkCache cache(0);
  int loads = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache
                  .get(7,
                       [&] {
                         ++loads;
                         return Bytes(10, 4);
                       })
                  ->size(),
              10U);
  }
  EXPECT_EQ(loads, 3);
}

TEST(ChunkCache, ErrorReachesAllThatWaitAndIsNotKept) {
  ChunkCache cache(100);
  std::atomic<int> errors{0};
  std::atomic<int> loads{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      try {
        cache.get(1, [&]() -> Bytes {
          ++loads;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          throw std::runtime_error("no such chunk");
        });
      } catch (const std::runtime_error&) {
        ++errors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 4);
  EXPECT_EQ(cache.get(1, [] { return Bytes(3, 1); })->size(), 3U);
}

TEST(ChunkCache, ThreadsShareWhatIsLoaded) {
  ChunkCache cache(40);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5000; ++i) {
        const std::size_t chunk = random() % 8;
        const auto got =
            cache.get(chunk, [&] { return Bytes(10, static_cast<std::uint8_t>(chunk)); });
        if (*got != Bytes(10, static_cast<std::uint8_t>(chunk))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Row i holds the three bytes of i. The first call fails.
class CountedRows : public RowReader {
 public:
  explicit CountedRows(std::atomic<int>& calls) : calls_(calls) {}
  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) override {
    if (calls_++ == 0) throw DataError("the disk is away");
    for (const std::size_t row : rows) {
      for (const unsigned shift : {0U, 8U, 16U}) *to++ = static_cast<std::uint8_t>(row >> shift);
    }
  }

 private:
  std::atomic<int>& calls_;
};

// 150,000 rows are read in 3 pieces, once for both threads. A read that failed is tried again at
// the next use.
TEST(RowsInMemory, AreReadOnce) {
  std::atomic<int> calls = 0;
  RowsInMemory rows(std::make_unique<CountedRows>(calls), 150'000, 3);
  Bytes unused(3);
  EXPECT_THROW(rows.read({0}, unused.data()), DataError);
  std::vector<Bytes> got(2, Bytes(12));
  std::vector<std::thread> threads;
  for (Bytes& bytes : got) {
    threads.emplace_back([&] {
      for (int use = 0; use < 100; ++use) rows.read({149'999, 0, 65'536, 258}, bytes.data());
    });
  }
  for (std::thread& thread : threads) thread.join();
  // 149,999 is 0x0249EF, 65,536 is 0x010000 and 258 is 0x000102.
  EXPECT_THAT(got, ::testing::Each(Bytes{0xEF, 0x49, 2, 0, 0, 0, 0, 0, 1, 2, 1, 0}));
  EXPECT_EQ(calls, 1 + 3);
}

}  // namespace
}  // namespace kolo::data
