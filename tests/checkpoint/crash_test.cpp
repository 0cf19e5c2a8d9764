// A save that ends at any of its system calls, and a machine that loses what was not synced, leave
// a whole checkpoint: the new one or the one before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/memory_files.hpp"
#include "checkpoint/saved_state.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint::test {
namespace {

constexpr const char* kFolder = "f";

Shelf keeping(FileSystem& files, std::int64_t last) {
  return {files, kFolder, "c", {last}};
}

// Of the newest file of its name that is whole; what is damaged is passed over. -1: none.
std::int64_t newest(FileSystem& files) {
  for (const Saved& saved : list_checkpoints(files, kFolder, "c")) {
    try {
      const std::int64_t step = step_if_whole(files, saved.path);
      EXPECT_EQ(step, saved.step);
      return step;
    } catch (const DataError&) {
      continue;
    }
  }
  return -1;
}

class Crash : public testing::Test {
 protected:
  // Kills the save of step 20 before its n-th call. Returns whether there was one.
  bool save_until(MemoryFiles& files, int call) {
    int calls = 0;
    files.before = [&](const std::string& what) {
      if (calls++ == call) {
        last_ = what;
        throw Killed();
      }
    };
    bool is_killed = false;
    try {
      Shelf shelf = keeping(files, 1);
      save_small(files, shelf, 20);
    } catch (const Killed&) {
      is_killed = true;
    }
    files.before = [](const std::string&) {};
    return is_killed;
  }

  std::string last_;
};

TEST_F(Crash, ProcessKilledAtAnyCall) {
  bool is_killed = true;
  int call = 0;
  for (; is_killed; ++call) {
    MemoryFiles files;
    Shelf shelf = keeping(files, 1);
    save_small(files, shelf, 10);
    is_killed = save_until(files, call);
    const std::int64_t found = newest(files);
    if (is_killed) {
      EXPECT_THAT(found, testing::AnyOf(10, 20)) << "killed before call " << call << ", " << last_;
    } else {
      EXPECT_EQ(found, 20);
    }
    // And it goes on from there, leaving nothing behind.
    Shelf next = keeping(files, 1);
    save_small(files, next, 30);
    EXPECT_EQ(newest(files), 30);
    EXPECT_THAT(files.list(kFolder), testing::ElementsAre(file_name("c", 30)));
  }
  EXPECT_GT(call, 15);
}

// Without a sync of the data before the rename, or of the folder after it, this fails.
TEST_F(Crash, MachineLosesPowerAtAnyCall) {
  std::minstd_rand random(11);
  bool is_killed = true;
  for (int call = 0; is_killed; ++call) {
    for (int round = 0; round < 25; ++round) {
      MemoryFiles files;
      Shelf shelf = keeping(files, 1);
      save_small(files, shelf, 10);
      files.sync_folder(kFolder);
      is_killed = save_until(files, call);
      files.crash(random);
      const std::int64_t found = newest(files);
      if (is_killed) {
        EXPECT_THAT(found, testing::AnyOf(10, 20))
            << "round " << round << ", killed before call " << call << ", " << last_;
      } else {
        EXPECT_EQ(found, 20) << "round " << round;
      }
    }
  }
}

// An error, of a full disk say, is told and leaves the checkpoint before.
TEST_F(Crash, AnyCallMayFail) {
  bool has_failed = true;
  for (int call = 0; has_failed; ++call) {
    MemoryFiles files;
    Shelf shelf = keeping(files, 1);
    save_small(files, shelf, 10);
    int calls = 0;
    std::string failed;
    files.before = [&](const std::string& what) {
      if (calls++ != call) return;
      failed = what;
      throw FileError("no room for " + what);
    };
    std::string told;
    try {
      save_small(files, shelf, 20);
    } catch (const FileError& error) {
      told = error.what();
    }
    files.before = [](const std::string&) {};
    has_failed = !failed.empty();
    if (!has_failed) continue;
    // That old ones cannot be removed is no failure of the new one.
    if (failed.starts_with("remove")) {
      EXPECT_EQ(told, "");
      EXPECT_EQ(newest(files), 20);
      continue;
    }
    EXPECT_EQ(told, "no room for " + failed);
    EXPECT_THAT(newest(files), testing::AnyOf(10, 20));
    abandon_file(files, shelf.path_of(20));
    for (const std::string& name : files.list(kFolder))
      EXPECT_THAT(name, testing::AnyOf(file_name("c", 10), file_name("c", 20)));
  }
}

}  // namespace
}  // namespace kolo::checkpoint::test
