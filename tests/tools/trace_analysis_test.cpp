#include "tools/trace/analyse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include <cmath>
#include <functional>

#include "kolo/error.h"
#include "temporary_folder.hpp"
#include "timeline/event.hpp"
#include "trace_fixture.hpp"

namespace kolo::tools {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// What a file's decimals and the clocks' reckoning leave of a microsecond.
constexpr double kClose = 0.01;

class AnalysisTest : public testing::Test {
 protected:
  // Ranks that compute for work(rank, step) ms, reduce 'w' for 2 ms when all are ready, and wait
  // for that; the next step begins then.
  void train(int ranks, int steps, const std::function<double(int rank, int step)>& work,
             RankTimeline::Settings settings = {}) const {
    settings.size = ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      settings.ahead = rank * 3'000'000'000;
      RankTimeline timeline(rank, settings);
      double begin = 10;
      for (int step = 1; step <= steps; ++step) {
        double all = 0;
        for (int one = 0; one < ranks; ++one) all = std::max(all, begin + work(one, step));
        const double ready = begin + work(rank, step);
        timeline.tensor(step, static_cast<std::uint64_t>(step), "w", 1 << 20,
                        {ready, all, all, all + 2});
        timeline.wait(step, "w", ready, all + 2);
        timeline.step(step, begin, all + 2);
        begin = all + 2;
      }
      timeline.write(folder_.path());
    }
  }

  Analysis analysis() const { return analyse(read_activity(folder_.path())); }

  const testing_support::TemporaryFolder folder_;
};

void expect_shares(const Shares& shares, double compute, double overlapped, double exposed,
                   double waiting) {
  EXPECT_NEAR(shares.compute, compute * 1000, kClose);
  EXPECT_NEAR(shares.overlapped, overlapped * 1000, kClose);
  EXPECT_NEAR(shares.exposed, exposed * 1000, kClose);
  EXPECT_NEAR(shares.waiting, waiting * 1000, kClose);
}

// 100 ms: communication from 20 to 60 in two pieces that touch, waiting from 50 to 80.
TEST_F(AnalysisTest, DividesAStep) {
  RankTimeline timeline(0, {});
  timeline.tensor(1, 0, "a", 1000, {5, 15, 20, 40});
  timeline.tensor(1, 1, "b", 1000, {10, 15, 40, 60});
  timeline.wait(1, "a", 50, 70);
  timeline.wait(1, "b", 70, 80);
  timeline.wait(1, "saved", 0, 100, 78);  // another thread than the one that makes steps
  timeline.step(1, 0, 100);
  timeline.write(folder_.path());
  const Analysis analysis = this->analysis();
  ASSERT_THAT(analysis.steps, ElementsAre(1));
  expect_shares(analysis.shares.at(0).at(0), 40, 30, 10, 20);
  EXPECT_NEAR(analysis.mean.whole(), 100'000, kClose);
}

// What crosses a step's end counts in both, each its part.
TEST_F(AnalysisTest, CutsAtTheEndOfAStep) {
  RankTimeline timeline(0, {});
  timeline.step(1, 0, 10);
  timeline.tensor(1, 0, "a", 1000, {5, 6, 8, 14});
  timeline.wait(1, "a", 9, 13);
  timeline.step(2, 10, 20);
  timeline.write(folder_.path());
  const Analysis analysis = this->analysis();
  expect_shares(analysis.shares.at(0).at(0), 8, 1, 1, 0);
  expect_shares(analysis.shares.at(0).at(1), 6, 1, 3, 0);
}

// Readings of clocks are kolo's, and so is the time before an operation starts.
TEST_F(AnalysisTest, CountsOnlyTheProgramsCommunication) {
  RankTimeline timeline(0, {});
  timeline.tensor(1, 0, "a", 1000, {1, 2, 6, 8});
  timeline.tensor(1, 1, "c", 1000, {1, 2, 2, 10}, OpKind::kClock);
  timeline.step(1, 0, 10);
  timeline.write(folder_.path());
  const Analysis analysis = this->analysis();
  expect_shares(analysis.shares.at(0).at(0), 8, 2, 0, 0);
  EXPECT_NEAR(analysis.collectives, 1, 1e-9);
}

TEST_F(AnalysisTest, LeavesTheFirstStepOutOfMeans) {
  train(2, 10, [](int, int step) { return step == 1 ? 500.0 : 8.0; });
  const Analysis analysis = this->analysis();
  expect_shares(analysis.mean, 8, 0, 2, 0);
  EXPECT_EQ(analysis.shares.at(0).size(), 10U);
}

TEST_F(AnalysisTest, TakesTheStepsThatAllRanksHave) {
  RankTimeline whole(0, {});
  for (int step = 1; step <= 5; ++step) whole.step(step, step, step + 1);
  whole.write(folder_.path());
  RankTimeline killed(1, {});
  for (int step = 2; step <= 4; ++step) killed.step(step, step, step + 1);
  killed.write(folder_.path(), false);
  EXPECT_THAT(analysis().steps, ElementsAre(2, 3, 4));
}

TEST_F(AnalysisTest, SaysThatThereAreNoSteps) {
  RankTimeline(0, {}).write(folder_.path());
  try {
    analysis();
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("kolo::mark_step()"));
  }
}

TEST_F(AnalysisTest, RanksWithFewStepsAreLeftOut) {
  train(3, 10, [](int, int) { return 8.0; });
  RankTimeline::Settings settings;
  settings.size = 3;
  RankTimeline none(1, settings);
  none.write(folder_.path());
  RankTimeline few(2, settings);
  for (int step = 1; step <= 4; ++step) few.step(step, step, step + 1);
  few.write(folder_.path());
  const Analysis analysis = this->analysis();
  EXPECT_THAT(analysis.ranks, ElementsAre(0));
  EXPECT_THAT(analysis.short_ranks, ElementsAre(1, 2));
  EXPECT_EQ(analysis.steps.size(), 10U);
  EXPECT_THAT(analysis.stragglers, IsEmpty());
}

// An evaluation on rank 1, every tenth step.
TEST_F(AnalysisTest, LongStepsCountForThemselves) {
  train(2, 40, [](int rank, int step) { return step % 10 == 0 && rank == 1 ? 500.0 : 8.0; });
  const Analysis analysis = this->analysis();
  EXPECT_THAT(analysis.long_steps.steps, ElementsAre(10, 20, 30, 40));
  EXPECT_NEAR(analysis.long_steps.time, 502'000, kClose);
  EXPECT_EQ(analysis.long_steps.latest_rank, 1);
  EXPECT_EQ(analysis.counted, 35U);
  EXPECT_NEAR(analysis.mean.whole(), 10'000, kClose);
  EXPECT_NEAR(analysis.speeds.at(0).time, 2000, kClose);
}

TEST_F(AnalysisTest, LongStepsOfAllAreNobodys) {
  train(2, 40, [](int, int step) { return step % 10 == 0 ? 500.0 : 8.0; });
  EXPECT_EQ(analysis().long_steps.latest_rank, -1);
}

TEST_F(AnalysisTest, WhoIsALittleLateInLongStepsDoesNotMakeThemLong) {
  train(2, 40, [](int rank, int step) { return step % 10 == 0 ? 500.0 + 10 * rank : 8.0; });
  EXPECT_EQ(analysis().long_steps.latest_rank, -1);
}

// In each step both are late once: they wait for each other, and neither works longer.
TEST_F(AnalysisTest, WhoIsLateNowAndThenIsNotSlow) {
  for (int rank = 0; rank < 2; ++rank) {
    RankTimeline timeline(rank, {});
    for (int step = 1; step <= 40; ++step) {
      const double begin = 20.0 * step;
      for (int i = 0; i < 2; ++i) {
        const double at = begin + 8 * i + (i == rank ? 6 : 3);
        timeline.tensor(step, static_cast<std::uint64_t>(2 * step + i), "t" + std::to_string(i),
                        400, {at, begin + 8 * i + 6, begin + 8 * i + 6, begin + 8 * i + 8});
        timeline.wait(step, "t" + std::to_string(i), at, begin + 8 * i + 8);
      }
      timeline.step(step, begin, begin + 20);
    }
    timeline.write(folder_.path());
  }
  const Analysis analysis = this->analysis();
  EXPECT_NEAR(analysis.lateness.at(0)[20], 3000, kClose);
  EXPECT_NEAR(analysis.lateness.at(1)[20], 3000, kClose);
  EXPECT_THAT(analysis.stragglers, IsEmpty());
  EXPECT_NEAR(analysis.for_others, 3000, kClose);
  EXPECT_NEAR(analysis.mean.waiting, 3000, kClose);
  EXPECT_NEAR(analysis.small_waits, 4000, kClose);
}

// All have come, and agree for 1 ms.
TEST_F(AnalysisTest, AgreeingIsNotWaitingForOthers) {
  for (int rank = 0; rank < 2; ++rank) {
    RankTimeline timeline(rank, {});
    timeline.tensor(1, 1, "t", 400, {5.0 - rank, 6, 6, 8});
    timeline.wait(1, "t", 5.0 - rank, 8);
    timeline.step(1, 0, 10);
    timeline.write(folder_.path());
  }
  const Analysis analysis = this->analysis();
  EXPECT_NEAR(analysis.mean.waiting, 1500, kClose);
  EXPECT_NEAR(analysis.for_others, 500, kClose);
}

// Rank 1 comes 6 ms late with 'b', and for 4 ms of them 'a' is under way.
TEST_F(AnalysisTest, WhileSomethingMovesNobodyWaitsForOthers) {
  for (int rank = 0; rank < 2; ++rank) {
    RankTimeline timeline(rank, {});
    timeline.tensor(1, 1, "a", 400, {1, 1, 1, 6});
    const double ready = rank == 0 ? 2 : 8;
    timeline.tensor(1, 2, "b", 400, {ready, 8, 8, 9});
    timeline.wait(1, "b", ready, 9);
    timeline.step(1, 0, 10);
    timeline.write(folder_.path());
  }
  const Analysis analysis = this->analysis();
  EXPECT_NEAR(analysis.means.at(0).exposed, 5000, kClose);
  EXPECT_NEAR(analysis.means.at(0).waiting, 2000, kClose);
  EXPECT_NEAR(analysis.for_others, 1000, kClose);
  EXPECT_NEAR(analysis.small_waits, 1000 + 2000, kClose);
}

TEST_F(AnalysisTest, NotAllWaitsAreForSmallCollectives) {
  RankTimeline timeline(0, {});
  const auto waited = [&](const std::string& name, std::uint64_t bytes, double begin, OpKind kind) {
    timeline.tensor(1, static_cast<std::uint64_t>(begin), name, bytes,
                    {begin, begin, begin, begin + 1}, kind);
    timeline.wait(1, name, begin, begin + 1);
  };
  waited("small", kSmall - 1, 1, OpKind::kAllreduce);
  waited("large", kSmall, 3, OpKind::kAllreduce);
  waited("barrier", 0, 5, OpKind::kBarrier);
  waited("sent", 400, 7, OpKind::kSend);
  timeline.step(1, 0, 10);
  timeline.write(folder_.path());
  EXPECT_NEAR(analysis().small_waits, 1000, kClose);
}

TEST_F(AnalysisTest, KnowsWhatRanAlone) {
  RankTimeline timeline(0, {});
  timeline.tensor(1, 1, "a", 400, {0, 1, 1, 4});
  timeline.tensor(1, 2, "a", 400, {0, 2, 2, 3});
  timeline.tensor(1, 3, "a", 400, {0, 3, 3.5, 5});
  timeline.tensor(1, 4, "a", 400, {0, 3, 5, 6});
  timeline.step(1, 0, 10);
  timeline.write(folder_.path());
  const Speed speed = analysis().speeds.at(0);
  EXPECT_EQ(speed.count, 4U);
  EXPECT_EQ(speed.alone, 1U);
  EXPECT_NEAR(speed.alone_gigabytes, 400e-6, 1e-9);
}

TEST_F(AnalysisTest, SendsMakeNobodyLate) {
  for (int rank = 0; rank < 2; ++rank) {
    RankTimeline timeline(rank, {});
    for (int step = 1; step <= 40; ++step) {
      const double begin = 20.0 * step;
      timeline.tensor(step, static_cast<std::uint64_t>(step), "s", 1000,
                      {begin + (rank == 0 ? 9 : 1), begin + 9, begin + 9, begin + 10},
                      OpKind::kSend);
      timeline.step(step, begin, begin + 20);
    }
    timeline.write(folder_.path());
  }
  const Analysis analysis = this->analysis();
  EXPECT_THAT(analysis.stragglers, IsEmpty());
  EXPECT_TRUE(std::isnan(analysis.lateness.at(0)[20]));
  EXPECT_EQ(analysis.collectives, 0);
  EXPECT_EQ(analysis.speeds.size(), 1U);
}

// Names that lines of kolo's own have, too.
TEST_F(AnalysisTest, ScopesMayHaveAnyName) {
  RankTimeline timeline(0, {});
  for (const char* name : {"clock", "kolo", "kolo_end", "events were lost"})
    timeline.trace(1, name, 1, 2);
  timeline.step(1, 0, 10);
  timeline.write(folder_.path(), false);
  const RunActivity run = read_activity(folder_.path());
  EXPECT_EQ(run.ranks.at(0).scopes.size(), 4U);
  EXPECT_FALSE(run.ranks.at(0).trace.complete);
}

TEST_F(AnalysisTest, WhatComesNowAndThenIsNoLateTensor) {
  RankTimeline timeline(0, {});
  for (int step = 1; step <= 20; ++step) {
    const double begin = 10.0 * step;
    timeline.tensor(step, static_cast<std::uint64_t>(2 * step), "w", 4,
                    {begin + 1, begin + 2, begin + 2, begin + 3});
    if (step % 5 == 0) {
      timeline.tensor(step, static_cast<std::uint64_t>(2 * step + 1), "accuracy", 4,
                      {begin + 8, begin + 8, begin + 8, begin + 9});
    }
    timeline.step(step, begin, begin + 10);
  }
  timeline.write(folder_.path());
  const std::vector<TensorTiming> tensors = analysis().tensors;
  ASSERT_THAT(tensors, ElementsAre(Field(&TensorTiming::name, "w")));
  EXPECT_EQ(tensors[0].last, 19U);
}

// Whatever clocks show: each rank's is 3 s further than the one's before.
TEST_F(AnalysisTest, FindsARankThatBecomesSlow) {
  train(4, 100, [](int rank, int step) { return rank == 2 && step >= 40 ? 13.0 : 8.0; });
  const Analysis analysis = this->analysis();
  ASSERT_THAT(analysis.stragglers, SizeIs(1));
  const Straggler& slow = analysis.stragglers[0];
  EXPECT_EQ(slow.rank, 2);
  ASSERT_THAT(slow.periods, SizeIs(1));
  EXPECT_EQ(slow.periods[0].first_step, 40);
  EXPECT_EQ(slow.periods[0].last_step, 100);
  EXPECT_TRUE(slow.periods[0].until_end);
  EXPECT_EQ(slow.steps, 61U);
  EXPECT_NEAR(slow.late, 5000, kClose);
  EXPECT_NEAR(slow.works, 13'000, kClose);
  EXPECT_NEAR(slow.others, 8000, kClose);
}

TEST_F(AnalysisTest, FindsARankThatWasSlowForAWhile) {
  train(2, 100,
        [](int rank, int step) { return rank == 0 && step > 20 && step <= 50 ? 9.0 : 8.0; });
  const Analysis analysis = this->analysis();
  ASSERT_THAT(analysis.stragglers, SizeIs(1));
  EXPECT_EQ(analysis.stragglers[0].rank, 0);
  ASSERT_THAT(analysis.stragglers[0].periods, SizeIs(1));
  EXPECT_EQ(analysis.stragglers[0].periods[0].first_step, 21);
  EXPECT_EQ(analysis.stragglers[0].periods[0].last_step, 50);
  EXPECT_FALSE(analysis.stragglers[0].periods[0].until_end);
}

TEST_F(AnalysisTest, TwoOfFourCanBeSlow) {
  train(4, 30, [](int rank, int) { return rank >= 2 ? 9.0 + rank : 8.0; });
  EXPECT_THAT(analysis().stragglers,
              ElementsAre(Field(&Straggler::rank, 3), Field(&Straggler::rank, 2)));
}

TEST_F(AnalysisTest, OneUnluckyStepIsChance) {
  train(3, 60, [](int rank, int step) { return step % 20 == 7 * rank ? 50.0 : 8.0; });
  EXPECT_THAT(analysis().stragglers, IsEmpty());
}

// Steps of different length, as of texts: now this one is late, now that one.
TEST_F(AnalysisTest, RanksThatTakeTurnsByChanceAreNotSlow) {
  for (const int ranks : {2, 4}) {
    for (const int steps : {30, 300}) {
      std::mt19937 random(static_cast<unsigned>(ranks * steps));
      std::vector<double> work;
      for (int i = 0; i < ranks * (steps + 1); ++i)
        work.push_back(8 + static_cast<double>(random() % 4000) / 1000);
      train(ranks, steps, [&](int rank, int step) {
        return work[static_cast<std::size_t>(step * ranks + rank)];
      });
      EXPECT_THAT(analysis().stragglers, IsEmpty()) << ranks << " ranks, " << steps << " steps";
    }
  }
}

// It is slow nonetheless: all of its steps take 4 ms more, and chance 4 ms at most.
TEST_F(AnalysisTest, ChanceHidesNoSlowRank) {
  std::mt19937 random(1);
  std::vector<double> work;
  for (int i = 0; i < 4 * 301; ++i) work.push_back(8 + static_cast<double>(random() % 4000) / 1000);
  train(4, 300, [&](int rank, int step) {
    return work[static_cast<std::size_t>(step * 4 + rank)] + (rank == 2 && step >= 100 ? 4 : 0);
  });
  const Analysis analysis = this->analysis();
  ASSERT_THAT(analysis.stragglers, ElementsAre(Field(&Straggler::rank, 2)));
  ASSERT_THAT(analysis.stragglers[0].periods, SizeIs(1));
  EXPECT_NEAR(static_cast<double>(analysis.stragglers[0].periods[0].first_step), 100, 10);
  EXPECT_TRUE(analysis.stragglers[0].periods[0].until_end);
}

TEST_F(AnalysisTest, AHalfPercentIsChance) {
  train(2, 60, [](int rank, int) { return rank == 1 ? 8.05 : 8.0; });
  EXPECT_THAT(analysis().stragglers, IsEmpty());
}

// 1 ms late by clocks that are known to 1 ms is not late.
TEST_F(AnalysisTest, ClocksThatAreNotKnownTellNothing) {
  RankTimeline::Settings settings;
  settings.clock_error = 1'000'000;
  train(
      2, 60, [](int rank, int) { return rank == 1 ? 9.0 : 8.0; }, settings);
  EXPECT_THAT(analysis().stragglers, IsEmpty());
}

TEST_F(AnalysisTest, OrdersTensorsByTheTimeTheyAreReady) {
  for (int rank = 0; rank < 2; ++rank) {
    RankTimeline timeline(rank, {});
    for (int step = 1; step <= 6; ++step) {
      const double begin = 100.0 * step;
      const auto sequence = static_cast<std::uint64_t>(2 * step);
      // On the other rank each is ready 1 ms later.
      timeline.member(step, sequence, 1, "early", begin + 10 + rank, begin + 21);
      timeline.member(step, sequence, 1, "middle", begin + 20 + rank, begin + 21);
      timeline.bucket(step, sequence, 1, 2, 8,
                      {begin + 20 + rank, begin + 21, begin + 22, begin + 25});
      timeline.tensor(step, sequence + 1, "late", 4,
                      {begin + 60 + rank, begin + 61, begin + 61, begin + 70});
      timeline.wait(step, "late", begin + 50, begin + 70);
      timeline.step(step, begin, begin + 100);
    }
    timeline.write(folder_.path());
  }
  const std::vector<TensorTiming> tensors = analysis().tensors;
  ASSERT_THAT(tensors,
              ElementsAre(Field(&TensorTiming::name, "late"), Field(&TensorTiming::name, "middle"),
                          Field(&TensorTiming::name, "early")));
  EXPECT_NEAR(tensors[0].ready, 61'000, kClose);
  EXPECT_NEAR(tensors[0].reduced, 70'000, kClose);
  EXPECT_NEAR(tensors[0].waited, 20'000, kClose);
  EXPECT_EQ(tensors[0].last, 5U);
  EXPECT_NEAR(tensors[1].ready, 21'000, kClose);
  EXPECT_NEAR(tensors[1].reduced, 25'000, kClose);
  EXPECT_EQ(tensors[1].last, 0U);
  EXPECT_NEAR(tensors[2].ready, 11'000, kClose);
}

TEST_F(AnalysisTest, ABucketWithoutItsTensorsStandsForThem) {
  RankTimeline timeline(0, {});
  timeline.bucket(1, 3, 5, 2, 8, {20, 21, 22, 25});
  timeline.step(1, 0, 30);
  timeline.write(folder_.path());
  EXPECT_THAT(analysis().tensors, ElementsAre(Field(&TensorTiming::name, "bucket 5")));
}

TEST_F(AnalysisTest, MeasuresCollectivesBySize) {
  RankTimeline timeline(0, {});
  for (int step = 1; step <= 2; ++step) {
    const double begin = 100.0 * step;
    for (int i = 0; i < 3; ++i) {  // 1, 2 and 4 ms
      const double at = begin + 10 * i;
      timeline.tensor(step, static_cast<std::uint64_t>(4 * step + i), "a", 1'000'000,
                      {at, at, at, at + (1 << i)});
    }
    timeline.tensor(step, static_cast<std::uint64_t>(4 * step + 3), "b", 1000,
                    {begin + 40, begin + 40, begin + 40, begin + 41}, OpKind::kBroadcast);
    timeline.step(step, begin, begin + 100);
  }
  timeline.write(folder_.path());
  const Analysis analysis = this->analysis();
  ASSERT_THAT(analysis.speeds, SizeIs(2));
  const Speed& reduce = analysis.speeds[0];
  EXPECT_EQ(reduce.phase, "SHM_ALLREDUCE");
  EXPECT_EQ(reduce.count, 6U);
  EXPECT_NEAR(reduce.gigabytes, 0.5, 1e-4);
  EXPECT_NEAR(reduce.slow, 0.25, 1e-4);
  EXPECT_NEAR(reduce.fast, 1.0, 1e-4);
  EXPECT_NEAR(reduce.time, 7000, 2 * kClose);
  EXPECT_EQ(analysis.speeds[1].phase, "SHM_BROADCAST");
  EXPECT_NEAR(analysis.collectives, 4, 1e-9);
  EXPECT_NEAR(analysis.small_collectives, 1, 1e-9);
  EXPECT_NEAR(analysis.small_waits, 0, kClose);
  EXPECT_EQ(reduce.alone, 6U);
  EXPECT_NEAR(reduce.alone_gigabytes, 0.5, 1e-4);
  EXPECT_NEAR(analysis.bytes, 3'001'000, 1e-3);
  EXPECT_EQ(analysis.bucket_bytes, 0);
}

TEST_F(AnalysisTest, ManySizesArePutTogether) {
  RankTimeline timeline(0, {});
  for (int i = 0; i < 100; ++i) {
    timeline.tensor(1, static_cast<std::uint64_t>(i), "a", static_cast<std::uint64_t>(1000 + i),
                    {1.0 + i, 1.0 + i, 1.0 + i, 1.5 + i});
  }
  timeline.step(1, 0, 200);
  timeline.write(folder_.path());
  const Analysis analysis = this->analysis();
  std::size_t all = 0;
  for (const Speed& one : analysis.speeds) all += one.count;
  EXPECT_LE(analysis.speeds.size(), 2U);
  EXPECT_EQ(all, 100U);
}

TEST_F(AnalysisTest, SumsScopes) {
  RankTimeline rank(0, {});
  for (int step = 1; step <= 5; ++step) {
    const double begin = 10.0 * step;
    rank.trace(step, "load", begin, begin + 1);
    rank.trace(step, "forward", begin + 1, begin + 4);
    rank.trace(step, timeline::kDataWaitScope, begin + 4, begin + 4.5);
    rank.step(step, begin, begin + 10);
  }
  rank.write(folder_.path());
  const Analysis analysis = this->analysis();
  ASSERT_THAT(analysis.scopes,
              ElementsAre(Field(&ScopeTime::name, "forward"), Field(&ScopeTime::name, "load"),
                          Field(&ScopeTime::name, timeline::kDataWaitScope)));
  EXPECT_NEAR(analysis.scopes[0].time, 3000, kClose);
  EXPECT_NEAR(analysis.data_wait, 500, kClose);
}

}  // namespace
}  // namespace kolo::tools
