// What the fuzzer does at random and with clang alone (idx_fuzz.cpp), in a small and repeatable way
// that runs everywhere, under the sanitizers too: damaged files give an array or a DataError.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "data/idx_bytes.hpp"
#include "kolo/data/idx.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

using test::Bytes;
using test::gzip;
using test::operator+;

constexpr int kFlips = 20000;
constexpr auto kTimeLimit = std::chrono::seconds(60);  // far more than needed, under sanitizers too

Bytes make_plain() {
  Bytes bytes = test::idx_header(0x0B, {5, 4, 6});
  for (int i = 0; i < 5 * 4 * 6 * 2; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 31));
  return bytes;
}

// Whether bytes were accepted. Any exception but DataError fails the test. A copy of exactly this
// size lets the address sanitizer see a read past its end.
bool accepted(const Bytes& bytes) {
  const Bytes exact(bytes.begin(), bytes.end());
  try {
    const IdxArray array = parse_idx(exact.data(), exact.size(), "mutant");
    std::uint64_t expected = size_of(array.dtype);
    for (const std::int64_t size : array.shape) expected *= static_cast<std::uint64_t>(size);
    EXPECT_EQ(array.bytes.size(), expected);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

class IdxMutation : public ::testing::TestWithParam<bool> {
 protected:
  void TearDown() override { EXPECT_LT(std::chrono::steady_clock::now() - begin_, kTimeLimit); }

  const Bytes file_ = GetParam() ? gzip(make_plain()) : make_plain();
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST_P(IdxMutation, EveryTruncationIsRefused) {
  ASSERT_TRUE(accepted(file_));
  for (std::size_t size = 0; size < file_.size(); ++size) {
    EXPECT_FALSE(accepted(Bytes(file_.begin(), file_.begin() + static_cast<std::ptrdiff_t>(size))))
        << "cut to " << size;
  }
}

TEST_P(IdxMutation, EveryAppendedByteIsRefused) {
  for (int value = 0; value < 256; ++value) {
    EXPECT_FALSE(accepted(file_ + Bytes{static_cast<std::uint8_t>(value)})) << "byte " << value;
  }
}

TEST_P(IdxMutation, RandomFlips) {
  std::mt19937 generator(1);
  int refused = 0;
  for (int flip = 0; flip < kFlips; ++flip) {
    Bytes mutant = file_;
    for (std::uint32_t left = 1 + generator() % 3; left > 0; --left) {
      mutant[generator() % mutant.size()] ^= static_cast<std::uint8_t>(1 + generator() % 255);
    }
    refused += accepted(mutant) ? 0 : 1;
  }
  // A flip among the elements of a plain file cannot be seen, one in the header can. Gzip sees
  // almost all, but for its name, time and flags.
  EXPECT_GT(refused, GetParam() ? kFlips * 8 / 10 : kFlips / 20);
}

// The header is where a mutant lies about sizes, so each of its bytes takes every value.
TEST_P(IdxMutation, EveryValueOfEveryHeaderByte) {
  const Bytes plain = make_plain();
  for (std::size_t at = 0; at < 16; ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes mutant = plain;
      mutant[at] = static_cast<std::uint8_t>(value);
      EXPECT_EQ(accepted(GetParam() ? gzip(mutant, 1) : mutant), mutant == plain)
          << "byte " << at << " is " << value;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, IdxMutation, ::testing::Bool(),
                         [](const auto& file) { return file.param ? "Gzip" : "Plain"; });

}  // namespace
}  // namespace kolo::data
