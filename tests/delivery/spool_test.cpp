// Batches that wait in memory or in a file come back as they were.
#include "delivery/spool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "delivery/parcels.hpp"
#include "kolo/error.h"
#include "temporary_folder.hpp"

namespace kolo::delivery {
namespace {

using testing_support::TemporaryFolder;

std::uintmax_t files_in(const std::string& folder) {
  std::uintmax_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.exists() ? 1 : 0;
  return count;
}

TEST(Spool, BatchesComeBackFromMemoryAndFile) {
  const TemporaryFolder folder;
  Spool spool(250, folder / "");  // two of the batches of 100 bytes
  std::vector<Spool::Kept> kept;
  for (int i = 0; i < 6; ++i)
    kept.push_back(spool.keep(test::parcel_of(std::string(100, char('a' + i)))));
  EXPECT_FALSE(spool.is_full());
  EXPECT_EQ(files_in(folder / ""), 0U) << "the file has no name";
  for (const int i : {3, 0, 5, 1, 2, 4})
    EXPECT_EQ(test::text_of(kept[static_cast<std::size_t>(i)].take()),
              std::string(100, char('a' + i)));
}

TEST(Spool, SeveralArraysKeepTheirShapes) {
  const TemporaryFolder folder;
  Spool spool(0, folder / "");
  Parcel parcel = test::parcel_of("0123456789");
  parcel.arrays.push_back({ElementType::kInt16, {2, 2}, parcel.arrays[0].bytes.first(8)});
  parcel.arrays.push_back({ElementType::kFloat32, {0, 7}, {}});
  const Parcel back = spool.keep(parcel).take();
  ASSERT_EQ(back.arrays.size(), 3U);
  EXPECT_EQ(back.arrays[1].type, ElementType::kInt16);
  EXPECT_EQ(back.arrays[1].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(std::memcmp(back.arrays[1].bytes.data(), "01234567", 8), 0);
  EXPECT_EQ(back.arrays[2].shape, (std::vector<std::int64_t>{0, 7}));
}

TEST(Spool, MemoryIsFullWithoutAFile) {
  Spool spool(150, "");
  std::vector<Spool::Kept> kept;
  EXPECT_FALSE(spool.is_full());
  for (int i = 0; i < 2; ++i) kept.push_back(spool.keep(test::parcel_of(std::string(100, 'x'))));
  EXPECT_TRUE(spool.is_full());
  kept.pop_back();
  EXPECT_FALSE(spool.is_full()) << "what is destroyed gives its memory back";
}

TEST(Spool, AFolderThatCannotBeWritten) {
  try {
    const Spool spool(1, "/nowhere");
    FAIL() << "no error";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("'/nowhere'"),
                                               ::testing::HasSubstr("No such file or directory"),
                                               ::testing::HasSubstr("--spool")));
  }
}

}  // namespace
}  // namespace kolo::delivery
