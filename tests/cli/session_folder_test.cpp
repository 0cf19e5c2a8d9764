#include "cli/run/session_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "temporary_folder.hpp"

namespace kolo::cli {
namespace {

using testing::HasSubstr;

TEST(FaultOfFolder, IsNoneWhereFilesCanBeWritten) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(fault_of_folder(folder.path()), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the trial leaves nothing behind";
}

TEST(FaultOfFolder, IsTheSystemsWord) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(fault_of_folder(folder / "missing"), "No such file or directory");
  EXPECT_EQ(fault_of_folder("/dev/null"), "Not a directory");
}

TEST(FaultOfFolder, IsAPathThatLeavesNoRoom) {
  const testing_support::TemporaryFolder folder;
  EXPECT_THAT(fault_of_folder(folder.path() + std::string(4000, '/')), HasSubstr("characters"));
}

}  // namespace
}  // namespace kolo::cli
