#include "benchmarks/json_file.hpp"
#include "temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace kolo::bench {
namespace {

namespace fs = std::filesystem;

class BenchJsonFile : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  int files() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(BenchJsonFile, ReplacesAsAWholeAndLeavesNothingElse) {
  replace_file(path("a.json"), "old and longer");
  replace_file(path("a.json"), "new");
  EXPECT_EQ(content(path("a.json")), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(BenchJsonFile, CheckLeavesNothingAndKeepsWhatIsThere) {
  check_writable(path("a.json"));
  EXPECT_EQ(files(), 0);
  replace_file(path("a.json"), "old");
  check_writable(path("a.json"));
  EXPECT_EQ(content(path("a.json")), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(BenchJsonFile, ErrorsNameFileAndReason) {
  try {
    check_writable(path("none/a.json"));
    FAIL() << "no exception";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cannot write " + path("none/a.json")));
    EXPECT_THAT(error.what(), testing::HasSubstr("No such file or directory"));
  }
  EXPECT_THROW(replace_file(path("none/a.json"), "x"), FileError);
}

TEST_F(BenchJsonFile, AFolderIsRefusedAndLeftAlone) {
  EXPECT_THROW(check_writable(folder_.path()), FileError);
  EXPECT_THROW(replace_file(folder_.path(), "x"), FileError);
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace kolo::bench
