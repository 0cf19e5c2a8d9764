#include "benchmarks/json_file.hpp"

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
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kolo-bench-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  int files() const { return static_cast<int>(std::distance(fs::directory_iterator(folder_), {})); }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  fs::path folder_;
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
  EXPECT_THROW(check_writable(folder_.string()), FileError);
  EXPECT_THROW(replace_file(folder_.string(), "x"), FileError);
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace kolo::bench
