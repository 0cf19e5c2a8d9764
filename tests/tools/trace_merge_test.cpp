#include "tools/trace/merge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kolo/error.h"
#include "temporary_folder.hpp"
#include "timeline/trace_text.hpp"

namespace kolo::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kUs = 1000;
constexpr std::int64_t kSecond = 1'000'000'000;

class MergeTest : public testing::Test {
 protected:
  std::string path(int rank) const {
    return folder_ / "timeline-rank-" + std::to_string(rank) + ".json";
  }

  // Of a rank whose clock shows `ahead` more than rank 0's at the start, and gains 20 ppm. Before
  // the scopes come so many that touch, each as long as `length` on that clock.
  void write(int rank, std::int64_t ahead, std::int64_t run = 7, bool ended = true,
             int touching = 0, std::int64_t length = 0) const {
    const std::int64_t start = 500 * kSecond;  // on rank 0's clock
    const auto here = [&](std::int64_t time) { return time + ahead + (time - start) / 50'000; };
    const auto reading = [&](std::int64_t time) {
      return timeline::ClockEvent{here(time), time - here(time), 300 * rank};
    };
    timeline::Origin origin;
    origin.rank = rank;
    origin.size = 3;
    origin.host = "node";
    origin.run = run;
    origin.start = here(start);
    origin.shift = -here(start);
    timeline::TraceText lines(origin);
    std::string text;
    lines.head(text);
    lines.add(text, reading(start));
    for (int i = 0; i < touching; ++i) {
      timeline::ScopeEvent scope;
      scope.begin = here(start) + i * length;
      scope.end = scope.begin + length;
      scope.name = timeline::Name("touching");
      lines.add(text, scope);
    }
    for (const int seconds : {0, 25, 50}) {
      timeline::ScopeEvent scope;
      scope.begin = here(start + seconds * kSecond + 5 * kUs);
      scope.end = scope.begin + 2 * kUs;
      scope.name = timeline::Name(std::to_string(seconds) + ",\"ts\":1");
      lines.add(text, scope);
    }
    lines.add(text, reading(start + 100 * kSecond));
    if (ended) lines.end(text);
    std::ofstream(path(rank)) << text;
  }

  json merged() {
    std::ostringstream merged;
    std::ostringstream notes;
    merge_traces(folder_.path(), merged, notes);
    notes_ = notes.str();
    return json::parse(merged.str());
  }
  // By process, the times of scopes.
  std::map<int, std::vector<double>> merge() {
    std::map<int, std::vector<double>> times;
    for (const json& event : merged()) {
      if (event["ph"] == "X") times[event["pid"]].push_back(event["ts"]);
    }
    return times;
  }

  const testing_support::TemporaryFolder folder_;
  std::string notes_;
};

// The same moment is the same time, whatever clocks show.
TEST_F(MergeTest, PutsAllRanksOnOneClock) {
  write(0, 0);
  write(1, 3 * kSecond);
  write(2, -kSecond);
  const auto times = merge();
  ASSERT_EQ(times.size(), 3U);
  for (const auto& [process, scopes] : times) {
    ASSERT_EQ(scopes.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(scopes[i], static_cast<double>(i) * 25e6 + 5, 0.01) << "process " << process;
  }
  EXPECT_THAT(notes_, HasSubstr("rank 1 on node: clock -3000.000 ms behind rank 0's, drift -20.00 "
                                "ppm, known to 0.3 us by 2 readings\n"));
  EXPECT_THAT(notes_, Not(HasSubstr("no timeline of")));
}

// To the nanosecond, or viewers leave some out.
TEST_F(MergeTest, SpansThatTouchedStillDo) {
  write(0, 0);
  write(1, 3 * kSecond + 17, 7, true, 1000, 77'123'457);
  const auto nanoseconds = [](const json& microseconds) {
    return std::llround(microseconds.get<double>() * 1000);
  };
  int spans = 0;
  std::int64_t end = 0;
  for (const json& event : merged()) {
    if (event["name"] != "touching") continue;
    const std::int64_t begin = nanoseconds(event["ts"]);
    if (spans++ > 0) {
      ASSERT_EQ(begin, end) << "span " << spans;
    }
    end = begin + nanoseconds(event["dur"]);
  }
  EXPECT_EQ(spans, 1000);
  EXPECT_NEAR(static_cast<double>(end), 77'123'457'000 / (1 + 20e-6), 10.0);
}

TEST_F(MergeTest, TakesWhatAKilledProcessLeaves) {
  write(0, 0);
  write(1, 0, 7, false);
  std::ofstream(path(1), std::ios::app) << R"({"ph":"X","name":"cut of)";
  EXPECT_EQ(merge()[2].size(), 3U);
  EXPECT_THAT(
      notes_,
      HasSubstr("; it was not ended, so its last 0.1 s may be missing; its last event is cut off"));
  EXPECT_THAT(notes_, HasSubstr("no timeline of rank 2 is in the folder"));
}

// Killed, or a full disk, before anything or half of the header was written.
TEST_F(MergeTest, LeavesOutARankThatHasNotBegun) {
  for (const char* left : {"", "[", "[\n", "[\n{\"name\":\"kolo\",\"ph\""}) {
    write(0, 0);
    write(2, 0);
    std::ofstream(path(1)) << left;
    EXPECT_EQ(merge().size(), 2U) << left;
    EXPECT_THAT(notes_, HasSubstr("no timeline of rank 1 is in the folder"));
    EXPECT_THAT(notes_, HasSubstr("timeline-rank-1.json: has no complete header"));
  }
}

// As a page that a machine had no time to write, or that a disk has lost: wherever it lies, what is
// merged is JSON.
TEST_F(MergeTest, ZeroesInAFileAreRefused) {
  write(0, 0);
  std::string whole;
  {
    std::ifstream file(path(0), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    const bool is_between = whole[at] == '\n' || whole[at] == ',';
    if (!is_between && at % 17 != 0) continue;
    for (const std::size_t size : {1U, 2U, 512U}) {
      std::string damaged = whole;
      for (std::size_t i = at; i < std::min(at + size, whole.size()); ++i) damaged[i] = '\0';
      std::ofstream(path(0), std::ios::binary) << damaged;
      std::ostringstream merged;
      std::ostringstream notes;
      try {
        merge_traces(folder_.path(), merged, notes);
      } catch (const DataError&) {
        ++refused;
        continue;
      }
      ASSERT_EQ(merged.str().find('\0'), std::string::npos) << size << " zeroes from " << at;
      ASSERT_TRUE(json::accept(merged.str())) << size << " zeroes from " << at;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_F(MergeTest, LeavesEarlierRunsOut) {
  write(0, 0, 8);
  write(1, 0, 8);
  write(2, 0, 7);
  EXPECT_EQ(merge().size(), 2U);
  EXPECT_THAT(notes_,
              HasSubstr("timeline-rank-2.json: belongs to an earlier run, and was left out"));
}

TEST_F(MergeTest, RefusesWhatIsNoTimeline) {
  const auto message = [&]() -> std::string {
    try {
      merge();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(), HasSubstr("there are no timelines here"));
  std::ofstream(path(0)) << "[\n";
  EXPECT_THAT(message(), HasSubstr("all timelines here are empty"));
  std::ofstream(path(0)) << "[\n{},\n]\n";
  EXPECT_THAT(message(), HasSubstr("it has no header"));
  std::ofstream(path(0)) << "[\nhello\n{},\n]\n";
  EXPECT_THAT(message(), HasSubstr("line 2: is not an event"));
  std::ofstream(path(0)) << "[\n{\"name\":\"kolo\",\"ph\":\"M\",\"args\":{\"version\":2}},\n";
  EXPECT_THAT(message(), HasSubstr("newer version"));
  std::ofstream(path(0)) << "[\n{\"name\":\"kolo\",\"ph\":\"M\",\"args\":{\"version\":1}},\n";
  EXPECT_THAT(message(), HasSubstr("line 2: 'rank' is missing"));
  std::ofstream(path(0)) << "[\n{\"name\":\"kolo\",\"ph\":\"M\"},\n";
  EXPECT_THAT(message(), HasSubstr("line 2: [json.exception.out_of_range.403] key 'args'"));
}

}  // namespace
}  // namespace kolo::tools
