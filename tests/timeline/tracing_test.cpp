#include "timeline/tracing.hpp"
#include "temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace kolo::timeline {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class TracingTest : public testing::Test {
 protected:
  std::string path() const { return folder_ / "timeline-rank-0.json"; }

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path()).rdbuf();
    return all.str();
  }

  void start(
      Tracing& tracing, const std::function<void()>& now_and_then = [] {}) const {
    std::unique_ptr<TraceFile> file;
    ASSERT_TRUE(TraceFile::open(folder_.path(), 0, file).is_ok());
    Origin origin;
    origin.start = nanoseconds(Clock::now());
    origin.shift = -origin.start;
    tracing.start(std::move(file), origin, now_and_then);
  }

  static ScopeEvent scope(const std::string& name) {
    ScopeEvent event;
    event.begin = event.end = nanoseconds(Clock::now());
    event.thread = this_thread();
    event.name = Name(name);
    return event;
  }

  // Of spans.
  static std::vector<std::string> names(const std::string& text) {
    std::vector<std::string> found;
    for (const json& event : json::parse(text)) {
      if (event["ph"] == "X") found.push_back(event["name"]);
    }
    return found;
  }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(TracingTest, WritesWhatIsAddedWhileItIsOn) {
  Tracing tracing;
  EXPECT_FALSE(tracing.on());
  tracing.add(scope("before"));
  start(tracing);
  EXPECT_TRUE(tracing.on());
  tracing.add(scope("a"));
  tracing.add(scope("b"));
  tracing.stop();
  EXPECT_FALSE(tracing.on());
  tracing.add(scope("after"));
  EXPECT_THAT(names(text()), ElementsAre("a", "b"));
  start(tracing);
  tracing.add(scope("again"));
  tracing.stop();
  EXPECT_THAT(names(text()), ElementsAre("again"));
}

TEST_F(TracingTest, AnEndOfTheProcessLeavesAFileThatCanBeRead) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Tracing tracing;
    start(tracing);
    for (int i = 0; i < 1000; ++i) tracing.add(scope("scope " + std::to_string(i)));
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  // As viewers do: without the array's end.
  std::string read = text();
  ASSERT_EQ(read.substr(read.size() - 3), "},\n");
  read.erase(read.size() - 2);
  EXPECT_EQ(names(read + "]").size(), 1000U);
}

TEST_F(TracingTest, ManyThreadsAdd) {
  Tracing tracing;
  start(tracing);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&tracing] {
      for (int i = 0; i < 3000; ++i) tracing.add(scope("x"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  tracing.stop();
  EXPECT_EQ(names(text()).size(), 12000U);
}

// Nobody waits for the writer.
TEST_F(TracingTest, TooMuchIsDroppedAndCounted) {
  Tracing tracing;
  std::atomic<bool> held{false};
  std::atomic<bool> go{false};
  start(tracing, [&] {
    held = true;
    while (!go) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  constexpr std::size_t kEvents = 100000;
  for (std::size_t i = 0; i < kEvents; ++i) tracing.add(scope("x"));
  go = true;
  tracing.keep_quiet();
  tracing.stop();
  std::size_t lost = 0;
  const std::string read = text();
  for (const json& event : json::parse(read)) {
    if (event["name"] == "events were lost") lost += event["args"]["events"].get<std::size_t>();
  }
  EXPECT_GT(lost, 0U);
  EXPECT_EQ(names(read).size() + lost, kEvents);
}

TEST_F(TracingTest, CallsNowAndThenUntilItIsToKeepQuiet) {
  Tracing tracing;
  std::atomic<int> calls{0};
  start(tracing, [&] { ++calls; });
  while (calls < 3) std::this_thread::yield();
  tracing.keep_quiet();
  const int then = calls;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(calls, then);
}

TEST_F(TracingTest, CountsTheStepsOfTheFirstThatMakesOne) {
  Tracing tracing;
  const int one = 0;
  const int other = 0;
  EXPECT_EQ(tracing.step(), 1);
  tracing.end_step(&one);
  tracing.end_step(&other);
  EXPECT_EQ(tracing.step(), 2);
  start(tracing);
  tracing.end_step(&one);
  tracing.stop_counting(&other);
  tracing.end_step(&other);
  EXPECT_EQ(tracing.step(), 3);
  tracing.stop_counting(&one);
  tracing.end_step(&other);
  tracing.end_step(&one);
  EXPECT_EQ(tracing.step(), 4);
  tracing.stop();
  EXPECT_THAT(names(text()), ElementsAre("STEP 2", "STEP 3"));
}

TEST_F(TracingTest, AFolderThatCannotBeMadeIsAnError) {
  std::unique_ptr<TraceFile> file;
  std::ofstream(folder_ / "file") << "x";
  const Status status = TraceFile::open(folder_ / "file/folder", 0, file);
  EXPECT_EQ(status.code(), StatusCode::kFile);
  EXPECT_THAT(status.message(),
              HasSubstr(folder_ / "file/folder: the folder cannot be made: Not a directory"));
  std::filesystem::create_directory(path());
  EXPECT_THAT(TraceFile::open(folder_.path(), 0, file).message(),
              HasSubstr("cannot be written: Is a directory"));
  EXPECT_EQ(file, nullptr);
  ASSERT_TRUE(TraceFile::open(folder_ / "a/b", 3, file).is_ok());
  EXPECT_EQ(file->path(), folder_ / "a/b/timeline-rank-3.json");
  file->remove();
  EXPECT_FALSE(std::filesystem::exists(file->path()));
}

// The job goes on.
TEST_F(TracingTest, AFullDiskEndsTheTimelineAlone) {
  std::filesystem::create_symlink("/dev/full", path());
  Tracing tracing;
  testing::internal::CaptureStderr();
  start(tracing);
  for (int i = 0; i < 1000; ++i) tracing.add(scope("x"));
  tracing.stop();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("writing failed: No space left on device"),
                             HasSubstr("The timeline ends here; the job goes on")));
}

}  // namespace
}  // namespace kolo::timeline
