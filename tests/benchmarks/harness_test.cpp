#include "benchmarks/harness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "one_rank.hpp"

namespace kolo::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(OrderInRound, TwoContendersAlternate) {
  EXPECT_THAT(order_in_round(0, 2), ElementsAre(0, 1));
  EXPECT_THAT(order_in_round(1, 2), ElementsAre(1, 0));
  EXPECT_THAT(order_in_round(2, 2), ElementsAre(0, 1));
  EXPECT_THAT(order_in_round(3, 2), ElementsAre(1, 0));
}

TEST(OrderInRound, ThreeContendersComeInEachOrderEquallyOften) {
  std::vector<std::vector<std::size_t>> orders;
  for (int round = 0; round < 12; ++round) orders.push_back(order_in_round(round, 3));
  std::vector<std::size_t> order = {0, 1, 2};
  do {
    EXPECT_EQ(std::count(orders.begin(), orders.end(), order), 2);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(OrderInRound, OneAndNone) {
  EXPECT_THAT(order_in_round(7, 1), ElementsAre(0));
  EXPECT_TRUE(order_in_round(7, 0).empty());
}

auto Taking(double microseconds) {
  return testing::Field(&Sample::microseconds, microseconds);
}

// Cores that are near, near, far, far ... when they are looked at.
class MovingRanks final : public OneRank {
 public:
  Distance distance() override { return looks_++ / 2 % 2 == 0 ? Distance::kNear : Distance::kFar; }
  void skip_a_look() { ++looks_; }

 private:
  int looks_ = 0;
};

// One rank of two, whose peer takes 1 s and has right results.
class SlowPeer final : public Ranks {
 public:
  explicit SlowPeer(std::string& log) : log_(log) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void barrier() override { log_ += "|"; }
  void largest(double* values, int /*count*/) override { values[0] = std::max(values[0], 1e6); }
  void largest_on_node(double* /*values*/, int /*count*/) override {}

 private:
  std::string& log_;  // the test's
};

// Logs what it is asked for: refresh in lower case, run in upper case, check as '?'.
class Logger final : public Contender {
 public:
  Logger(std::string& log, char name, int wrong_in_check = -1)
      : log_(log), name_(name), wrong_(wrong_in_check) {}
  std::string name() const override { return {name_}; }
  void refresh(const Pattern& /*pattern*/) override { log_ += name_; }
  void run() override { log_ += static_cast<char>(name_ - 'a' + 'A'); }
  std::string check(const Pattern& /*pattern*/) override {
    log_ += "?";
    return checks_++ == wrong_ ? "element 7" : "";
  }

 private:
  std::string& log_;  // the test's
  const char name_;
  const int wrong_;
  int checks_ = 0;
};

TEST(BenchMeasure, InterleavesAndRefreshesAndChecksEverySample) {
  std::string log;
  SlowPeer ranks(log);
  Contenders contenders;
  contenders.push_back(std::make_unique<Logger>(log, 'a'));
  contenders.push_back(std::make_unique<Logger>(log, 'b'));
  const auto times = measure(ranks, contenders, {1, 2});
  EXPECT_EQ(log,
            "a|A?b|B?"
            "b|B?a|A?"
            "a|A?b|B?");
  // The warm-up is left out, and the slowest rank's time is taken.
  EXPECT_THAT(times, ElementsAre(ElementsAre(Taking(1e6), Taking(1e6)),
                                 ElementsAre(Taking(1e6), Taking(1e6))));
}

TEST(BenchMeasure, RehearsalsAreCheckedAndNotCounted) {
  std::string log;
  SlowPeer ranks(log);
  Contenders contenders;
  contenders.push_back(std::make_unique<Logger>(log, 'a'));
  contenders.push_back(std::make_unique<Logger>(log, 'b'));
  const auto times = measure(ranks, contenders, {0, 1, true});
  EXPECT_EQ(log, "a|A?a|A?b|B?b|B?");
  EXPECT_THAT(times, ElementsAre(ElementsAre(Taking(1e6)), ElementsAre(Taking(1e6))));
}

TEST(BenchMeasure, CallsInARowAreOneSample) {
  std::string log;
  SlowPeer ranks(log);
  Contenders contenders;
  contenders.push_back(std::make_unique<Logger>(log, 'a'));
  const auto times = measure(ranks, contenders, {0, 1, true, 4});
  EXPECT_EQ(log, "a|AAAA?a|AAAA?");
  EXPECT_THAT(times, ElementsAre(ElementsAre(Taking(1e6 / 4))));  // each
}

TEST(BenchMeasure, SaysHowFarTheCoresWere) {
  std::string log;
  MovingRanks ranks;
  Contenders contenders;
  contenders.push_back(std::make_unique<Logger>(log, 'a'));
  const auto at = [](Distance distance) { return testing::Field(&Sample::distance, distance); };
  EXPECT_THAT(measure(ranks, contenders, {0, 2}),
              ElementsAre(ElementsAre(at(Distance::kNear), at(Distance::kFar))));
  ranks.skip_a_look();
  EXPECT_THAT(measure(ranks, contenders, {0, 2}),
              ElementsAre(ElementsAre(at(Distance::kMoved), at(Distance::kMoved))));
}

TEST(BenchMeasure, WrongResultEndsTheRunAlsoInWarmUp) {
  std::string log;
  SlowPeer ranks(log);
  Contenders contenders;
  contenders.push_back(std::make_unique<Logger>(log, 'a'));
  contenders.push_back(std::make_unique<Logger>(log, 'b', 0));
  try {
    measure(ranks, contenders, {5, 5});
    FAIL() << "no exception";
  } catch (const RunFailed& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("contender b: element 7"));
  }
  EXPECT_EQ(log, "a|A?b|B?");
}

// The result is wrong on the peer alone.
class WrongPeer final : public OneRank {
 public:
  int size() const override { return 2; }
  void largest(double* values, int /*count*/) override { values[1] = 1; }
};

TEST(BenchMeasure, WrongResultOfAnotherRankEndsTheRunHereInSilence) {
  std::string log;
  WrongPeer ranks;
  Contenders contenders;
  contenders.push_back(std::make_unique<Logger>(log, 'a'));
  try {
    measure(ranks, contenders, {0, 1});
    FAIL() << "no exception";
  } catch (const RunFailed& failed) {
    EXPECT_STREQ(failed.what(), "");
  }
}

// Does nothing, but says that it took 7 us.
class OwnClock : public Contender {
 public:
  std::string name() const override { return "own"; }
  void refresh(const Pattern& /*pattern*/) override {}
  void run() override {}
  std::optional<double> measured_microseconds() const override { return 7; }
  std::string check(const Pattern& /*pattern*/) override { return ""; }
};

TEST(BenchMeasure, TakesTheTimeThatTheContenderMeasured) {
  OneRank ranks;
  Contenders contenders;
  contenders.push_back(std::make_unique<OwnClock>());
  EXPECT_THAT(measure(ranks, contenders, {0, 2}), ElementsAre(ElementsAre(Taking(7), Taking(7))));
}

class Failing final : public OwnClock {
 public:
  Failing(std::string& log, bool in_refresh) : log_(log), in_refresh_(in_refresh) {}
  void refresh(const Pattern& /*pattern*/) override { fail_if(in_refresh_, "refresh "); }
  void run() override { fail_if(!in_refresh_, "run "); }
  std::string check(const Pattern& /*pattern*/) override {
    log_ += "check ";
    return "also wrong";
  }

 private:
  void fail_if(bool fails, const char* what) {
    log_ += what;
    if (fails) throw ContenderFailed("no more");
  }

  std::string& log_;  // the test's
  const bool in_refresh_;
};

// The other ranks are in the same collective calls, so none may be left out.
TEST(BenchMeasure, AFailureEndsTheRunAfterAllCollectiveCalls) {
  for (const bool in_refresh : {false, true}) {
    std::string log;
    SlowPeer ranks(log);
    Contenders contenders;
    contenders.push_back(std::make_unique<Failing>(log, in_refresh));
    try {
      measure(ranks, contenders, {0, 1});
      FAIL() << "no exception";
    } catch (const RunFailed& failed) {
      EXPECT_STREQ(failed.what(), "contender own failed: no more");
    }
    EXPECT_EQ(log, in_refresh ? "refresh |check " : "refresh |run check ");
  }
}

TEST(BenchAgree, AProblemAnywhereEndsTheRun) {
  OneRank ranks;
  EXPECT_NO_THROW(agree(ranks, ""));
  EXPECT_THROW(agree(ranks, "a problem"), RunFailed);
}

}  // namespace
}  // namespace kolo::bench
