#include "timeline/flight.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "temporary_folder.hpp"
#include "timeline/watcher.hpp"

namespace kolo::timeline {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class FlightTest : public testing::Test {
 protected:
  FlightTest() {
    origin_.folder = folder_.path();
    origin_.rank = 3;
    origin_.size = 4;
    origin_.host = "node \"1\"";
    origin_.job = 99;
  }

  std::string path() const { return origin_.folder + "/flight-rank-3.json"; }
  std::vector<json> lines() const {
    std::vector<json> found;
    std::ifstream file(path());
    for (std::string line; std::getline(file, line);) found.push_back(json::parse(line));
    return found;
  }
  template <typename Condition>
  static bool comes(const Condition& condition) {
    for (int i = 0; i < 500 && !condition(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  }

  const testing_support::TemporaryFolder folder_;
  FlightOrigin origin_;
};

TEST_F(FlightTest, HasALineForEachOperation) {
  OperationEvent bucket;
  bucket.name = Name("w");
  bucket.submitted = 10;
  bucket.agreed = 20;
  bucket.started = 30;
  bucket.sequence = 7;
  bucket.bucket = 5;
  bucket.members = 12;
  bucket.state = State::kStarted;
  OperationEvent waits;
  waits.name = Name("x\n");
  waits.submitted = 11;
  waits.wanted = true;
  std::string path;
  ASSERT_TRUE(
      write_flight(origin_, flight_text(origin_, {"why \"so\"", 118, 5}, {bucket, waits}), path)
          .is_ok());
  EXPECT_EQ(path, this->path());
  const std::vector<json> all = lines();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["kolo_flight"], 1);
  EXPECT_EQ(all[0]["rank"], 3);
  EXPECT_EQ(all[0]["size"], 4);
  EXPECT_EQ(all[0]["host"], "node \"1\"");
  EXPECT_EQ(all[0]["job"], 99);
  EXPECT_EQ(all[0]["reason"], "why \"so\"");
  EXPECT_EQ(all[0]["step"], 118);
  EXPECT_EQ(all[0]["frozen_ns"], 5);
  EXPECT_EQ(all[1]["state"], "started");
  EXPECT_EQ(all[1]["members"], 12);
  EXPECT_EQ(all[1]["sequence"], 7);
  EXPECT_EQ(all[1]["started_ns"], 30);
  EXPECT_FALSE(all[1].contains("ended_ns"));
  EXPECT_EQ(all[2]["name"], "x\n");
  EXPECT_EQ(all[2]["wanted"], 1);
  EXPECT_EQ(all[2]["operation"], "allreduce");
  EXPECT_FALSE(all[2].contains("sequence"));
}

TEST_F(FlightTest, ABadFolderIsAnErrorAndFollowsNoLink) {
  std::string path;
  std::ofstream(origin_.folder + "/file") << "x";
  FlightOrigin bad = origin_;
  bad.folder += "/file/in";
  EXPECT_THAT(write_flight(bad, "x", path).message(),
              HasSubstr("cannot be made: Not a directory; name a folder that can"));
  bad = origin_;
  bad.process = 8;
  std::filesystem::create_symlink("/dev/null", this->path() + ".8.tmp");
  EXPECT_THAT(write_flight(bad, "x", path).message(),
              HasSubstr("Too many levels of symbolic links"));
}

TEST_F(FlightTest, ASignalWritesIt) {
  Tracing tracing;
  tracing.set_flight(origin_);
  {
    const Watcher watcher(tracing, {});
    for (int i = 0; i < 2; ++i) {
      std::filesystem::remove(path());
      ASSERT_EQ(kill(getpid(), SIGUSR2), 0);
      ASSERT_TRUE(comes([&] { return std::filesystem::exists(path()); }));
      EXPECT_EQ(lines()[0]["reason"], "SIGUSR2");
    }
    std::filesystem::remove(path());
    tracing.ask_for_dump("a stall");
    ASSERT_TRUE(comes([&] { return std::filesystem::exists(path()); }));
    EXPECT_EQ(lines()[0]["reason"], "a stall");
    std::filesystem::remove(path());
    tracing.ask_for_dump("the end");
  }
  EXPECT_EQ(lines()[0]["reason"], "the end");  // before it ended
  ASSERT_EQ(kill(getpid(), SIGUSR2), 0);       // does no harm
}

// Once for each silence, and not while it waits or before it has begun.
TEST_F(FlightTest, ASilentProgramIsNoticed) {
  Tracing tracing;
  tracing.set_flight(origin_);
  const Watcher watcher(tracing, {std::chrono::milliseconds(100), false});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(std::filesystem::exists(path()));
  tracing.begin_wait();
  tracing.submitted(Clock::now());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(std::filesystem::exists(path()));
  tracing.end_wait();
  ASSERT_TRUE(comes([&] { return std::filesystem::exists(path()); }));
  EXPECT_EQ(lines()[0]["reason"], "the program submits nothing");
  std::filesystem::remove(path());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(std::filesystem::exists(path()));
  tracing.submitted(Clock::now());
  EXPECT_TRUE(comes([&] { return std::filesystem::exists(path()); }));
}

TEST_F(FlightTest, OfAFailureTheRecordStays) {
  Tracing tracing;
  tracing.set_flight(origin_);
  tracing.dump("first");
  tracing.write_last(tracing.record("failure"));
  tracing.write_last("another");
  tracing.dump("afterwards");
  EXPECT_EQ(lines()[0]["reason"], "failure");
}

TEST_F(FlightTest, OfAFailureTheRecordIsThereBeforeTheProgramHearsOfIt) {
  Tracing tracing;
  tracing.set_flight(origin_);
  const Watcher watcher(tracing, {});
  tracing.hand_over_last(tracing.record("failure"), std::chrono::seconds(30));
  EXPECT_EQ(lines()[0]["reason"], "failure");
}

TEST_F(FlightTest, ADiskThatDoesNotAnswerIsWaitedForNoLongerThanAllowed) {
  Tracing tracing;
  origin_.process = 8;
  tracing.set_flight(origin_);
  const Clock::time_point begin = Clock::now();
  tracing.hand_over_last("nobody watches", std::chrono::seconds(30));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  // To be opened for writing a pipe waits for a reader.
  const std::string unfinished = path() + ".8.tmp";
  ASSERT_EQ(mkfifo(unfinished.c_str(), 0600), 0);
  const Watcher watcher(tracing, {});
  const Clock::time_point before = Clock::now();
  tracing.hand_over_last(tracing.record("failure"), std::chrono::milliseconds(100));
  const Clock::duration taken = Clock::now() - before;
  EXPECT_GE(taken, std::chrono::milliseconds(100));
  EXPECT_LT(taken, std::chrono::seconds(10));
  std::ostringstream text;
  text << std::ifstream(unfinished).rdbuf();  // and now it answers
  EXPECT_THAT(text.str(), HasSubstr("failure"));
}

TEST_F(FlightTest, KnowsThatItDidNotRun) {
  Tracing tracing;
  tracing.set_flight(origin_);
  const auto frozen = [&] {
    tracing.dump("a test");
    const json header = lines()[0];
    return header.value("frozen_ns", std::int64_t{0}) / 1'000'000'000;
  };
  const Clock::time_point now = Clock::now();
  tracing.alive(now - std::chrono::seconds(30), std::chrono::seconds(10));
  EXPECT_EQ(frozen(), 20);
  tracing.alive(now, std::chrono::seconds(10));
  EXPECT_EQ(frozen(), 20);
  tracing.alive(now, std::chrono::seconds(10));
  EXPECT_EQ(frozen(), 20);  // just now
  Tracing other;
  other.set_flight(origin_);
  other.alive(now, std::chrono::seconds(1));
  other.dump("a test");
  EXPECT_FALSE(lines()[0].contains("frozen_ns"));
}

}  // namespace
}  // namespace kolo::timeline
