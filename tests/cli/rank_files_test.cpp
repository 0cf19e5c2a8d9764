#include "cli/run/rank_files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <sstream>

#include "cli/usage_error.hpp"
#include "temporary_folder.hpp"

namespace kolo::cli {
namespace {

std::string content_of(const std::string& name) {
  std::ifstream file(name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RankFiles, HaveAsManyDigitsAsTheLastRank) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(RankFiles(folder.path(), 10).name_of(3), folder.path() + "/rank-3.log");
  EXPECT_EQ(RankFiles(folder.path(), 11).name_of(3), folder.path() + "/rank-03.log");
}

TEST(RankFiles, AreOneForEachRank) {
  const testing_support::TemporaryFolder folder;
  const std::string inner = folder.path() + "/a/b";
  {
    RankFiles files(inner, 11);
    EXPECT_EQ(files.write(3, "one\n"), "");
    EXPECT_EQ(files.write(10, "other\n"), "");
    EXPECT_EQ(files.write(3, "two\n"), "");
    EXPECT_EQ(files.write(4, ""), "");
    EXPECT_EQ(content_of(inner + "/rank-03.log"), "one\ntwo\n") << "is there at once";
  }
  RankFiles again(inner, 11);
  EXPECT_EQ(again.write(3, "three\n"), "");
  EXPECT_EQ(content_of(inner + "/rank-03.log"), "one\ntwo\nthree\n");
  EXPECT_EQ(content_of(inner + "/rank-10.log"), "other\n");
  EXPECT_FALSE(std::filesystem::exists(inner + "/rank-04.log"));
}

TEST(RankFiles, MayBeMoreThanTheUsualLimit) {
  const testing_support::TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{32, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  RankFiles files(folder.path(), 64);
  for (int rank = 0; rank < 64; ++rank) EXPECT_EQ(files.write(rank, "x"), "");
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(RankFiles, RefuseAFolderThatCannotBe) {
  EXPECT_THROW(RankFiles("/proc/kolo", 2), UsageError);
  EXPECT_THROW(RankFiles("/dev/null", 2), UsageError);
}

TEST(RankFiles, TellOnceThatAFileCannotBeWritten) {
  const testing_support::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/rank-1.log");
  RankFiles files(folder.path(), 2);
  EXPECT_EQ(files.write(1, "lost\n"),
            "cannot write " + folder.path() +
                "/rank-1.log; the rest of the ranks' output is missing there");
  EXPECT_EQ(files.write(1, "lost\n"), "");
  EXPECT_EQ(files.write(0, "kept\n"), "");
  EXPECT_EQ(content_of(folder.path() + "/rank-0.log"), "kept\n");
}

}  // namespace
}  // namespace kolo::cli
