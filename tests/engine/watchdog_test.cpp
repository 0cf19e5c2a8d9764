// The watchdog's findings, from snapshots made by hand: no engine, no clock, no other rank.
#include "engine/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace kolo {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const Clock::time_point kStart = Clock::time_point() + seconds(1000);

// Waits for rank 9 for ever.
class Waiting final : public Work {
 public:
  Status start() override { return Status::ok(); }
  Progress step(Status& /*status*/) override { return Progress::kWaiting; }
  std::optional<int> waits_for() const override { return 9; }
};

std::shared_ptr<Operation> operation(const std::string& name, Clock::time_point submitted,
                                     OpKind kind = OpKind::kAllreduce) {
  auto made = std::make_shared<Operation>();
  made->name = name;
  made->descriptor.kind = kind;
  made->submitted = submitted;
  return made;
}

// Ranks 5, 7 and 9 of the world, on one node; stalls do not end the job.
WatchdogOptions options_of(int rank) {
  WatchdogOptions options;
  options.ranks = {5, 7, 9};
  options.rank = rank;
  options.on_one_node = true;
  options.collective_timeout = seconds(300);
  options.stall_check = seconds(60);
  options.fusion_hold = seconds(30);
  return options;
}

struct World {
  std::list<RunningCollective> running;
  std::vector<std::shared_ptr<Operation>> pending;

  GroupSnapshot at(Clock::time_point now) const { return {now, running, pending, {}, {}, false}; }

  void run(const std::string& name, std::uint64_t sequence, Clock::time_point moved) {
    RunningCollective& one = running.emplace_back();
    one.work = std::make_unique<Waiting>();
    one.members.push_back({operation(name, moved), false});
    one.sequence = sequence;
    one.started = true;
    one.last_moved = moved;
  }
};

TEST(Watchdog, CollectiveThatMovesNothingEndsTheJobAfterTheTimeout) {
  World world;
  world.run("x", 4, kStart);
  const Watchdog watchdog(options_of(1));
  EXPECT_TRUE(watchdog.check_timeouts(world.at(kStart + seconds(300))).is_ok());
  const Status status = watchdog.check_timeouts(world.at(kStart + seconds(301)));
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("allreduce of 'x' started on every rank but moved no byte on rank 7"),
                    HasSubstr("it waits for rank 9")));
}

TEST(Watchdog, CollectiveThatHasNotStartedHasNoTimeout) {
  World world;
  world.run("x", 4, kStart);
  world.running.front().started = false;
  EXPECT_TRUE(Watchdog(options_of(1)).check_timeouts(world.at(kStart + seconds(999))).is_ok());
}

TEST(Watchdog, SlowCollectivesAreReportedOnceWithTheirNumber) {
  World world;
  world.run("x", 4, kStart);
  world.run("y", 5, kStart);
  Watchdog watchdog(options_of(1));
  // Rank 1 waits half as long again as rank 0.
  EXPECT_THAT(watchdog.look_for_stalls(world.at(kStart + seconds(89))).stalls, IsEmpty());
  const Findings findings = watchdog.look_for_stalls(world.at(kStart + seconds(90)));
  EXPECT_THAT(findings.stalls,
              ElementsAre(AllOf(HasSubstr("allreduce of 'x', and 1 further operations, started"),
                                HasSubstr("moved nothing on rank 7 for 90 s"))));
  EXPECT_THAT(findings.warnings, SizeIs(1));
  EXPECT_TRUE(findings.status.is_ok());
  EXPECT_THAT(watchdog.look_for_stalls(world.at(kStart + seconds(120))).stalls, IsEmpty());
  world.run("z", 6, kStart + seconds(90));
  world.running.pop_front();
  world.running.pop_front();
  EXPECT_THAT(watchdog.look_for_stalls(world.at(kStart + seconds(180))).stalls,
              ElementsAre(HasSubstr("allreduce of 'z' started")));
}

TEST(Watchdog, ThirdRankLogsNothingButWritesItsRecord) {
  World world;
  world.run("x", 4, kStart);
  Watchdog watchdog(options_of(2));
  const Findings findings = watchdog.look_for_stalls(world.at(kStart + seconds(90)));
  EXPECT_THAT(findings.warnings, IsEmpty());
  EXPECT_THAT(findings.stalls, SizeIs(1));
}

TEST(Watchdog, StoppedRankIsNamedInsteadOfThePeer) {
  World world;
  world.run("x", 4, kStart);
  WatchdogOptions options = options_of(0);
  options.stopped_ranks = [](const std::vector<int>& /*ranks*/) { return std::vector<int>{9}; };
  const Findings findings = Watchdog(options).look_for_stalls(world.at(kStart + seconds(60)));
  EXPECT_THAT(findings.stalls, ElementsAre(AllOf(HasSubstr("rank 9 is stopped (by a signal"),
                                                 Not(HasSubstr("waits for")))));
}

TEST(Watchdog, RankThatHasEndedCountsWhenItIsSeenTwice) {
  World world;
  world.run("x", 4, kStart);
  WatchdogOptions options = options_of(0);
  options.lost_rank = [](const std::vector<int>& /*ranks*/) { return std::optional<int>(9); };
  Watchdog watchdog(options);
  EXPECT_TRUE(watchdog.check_ranks(world.at(kStart + seconds(1))).is_ok());  // not asked yet
  EXPECT_TRUE(watchdog.check_ranks(world.at(kStart + seconds(2))).is_ok());
  EXPECT_THAT(watchdog.check_ranks(world.at(kStart + seconds(2))).message(),
              HasSubstr("allreduce of 'x': the process of rank 9 has ended"));
  watchdog.start_over();
  EXPECT_TRUE(watchdog.check_ranks(world.at(kStart + seconds(2))).is_ok());
}

TEST(Watchdog, CoordinatorReportsWhatRanksHaveNotSubmitted) {
  World world;
  WatchdogOptions options = options_of(0);
  options.stall_shutdown = seconds(100);
  Watchdog watchdog(options);
  const std::vector<Stall> stalls = {{"x", OpKind::kAllreduce, 0, kStart, {9}}};
  GroupSnapshot group = world.at(kStart + seconds(60));
  group.stalls = &stalls;
  const Findings findings = watchdog.look_for_stalls(group);
  EXPECT_THAT(findings.warnings, ElementsAre(AllOf(HasSubstr("'x'"), HasSubstr("rank 9"),
                                                   HasSubstr("The job ends after 100 s"))));
  EXPECT_THAT(findings.announcement, HasSubstr("rank 9"));
  group.now = kStart + seconds(70);
  EXPECT_THAT(watchdog.look_for_stalls(group).warnings, IsEmpty());  // not twice as long yet
  group.now = kStart + seconds(101);
  EXPECT_EQ(watchdog.look_for_stalls(group).status.code(), StatusCode::kPeerLost);
}

// The coordinator knows of x 30 s after its submission. The limit is 60 % of (time since then +
// stall_check), which is 36 s + 60 % of that time: 120 s after submission.
TEST(Watchdog, SilentCoordinatorIsReportedByOthers) {
  World world;
  // A join may last, and is not the oldest.
  world.pending = {operation("join", kStart - seconds(500), OpKind::kJoin), nullptr,
                   operation("x", kStart)};
  for (const int rank : {1, 2}) {
    Watchdog watchdog(options_of(rank));
    EXPECT_THAT(watchdog.look_for_stalls(world.at(kStart + seconds(119))).stalls, IsEmpty());
    const Findings findings = watchdog.look_for_stalls(world.at(kStart + seconds(121)));
    EXPECT_THAT(findings.stalls,
                ElementsAre(HasSubstr("allreduce of 'x' was submitted 121 s ago, and rank 5, the "
                                      "coordinator, has not reported on it")));
    EXPECT_THAT(findings.warnings, SizeIs(rank == 1 ? 1 : 0));
  }
}

TEST(Watchdog, CoordinatorThatHasReportedIsNotSilent) {
  World world;
  world.pending = {operation("x", kStart)};
  Watchdog watchdog(options_of(1));
  watchdog.heard_of_stall(kStart + seconds(100));
  EXPECT_THAT(watchdog.look_for_stalls(world.at(kStart + seconds(121))).stalls, IsEmpty());
}

TEST(Watchdog, SilentCoordinatorEndsTheJobAfterTheLimit) {
  World world;
  world.pending = {operation("x", kStart)};
  WatchdogOptions options = options_of(1);
  options.stall_shutdown = seconds(120);
  const Findings findings = Watchdog(options).look_for_stalls(world.at(kStart + seconds(121)));
  EXPECT_EQ(findings.status.code(), StatusCode::kPeerLost);
  EXPECT_THAT(findings.stalls, IsEmpty());
}

// Two collectives are enqueued; the first one became the first at the start.
TEST(Watchdog, DeviceThatEndsNothingIsReportedAndThenEndsTheJob) {
  World enqueued;
  enqueued.run("x", 4, kStart);
  enqueued.run("y", 6, kStart);
  const World world;
  GroupSnapshot group = world.at(kStart + seconds(59));
  group.on_device = {&enqueued.running.front(), &enqueued.running.back(), 2, kStart};
  Watchdog watchdog(options_of(0));
  EXPECT_THAT(watchdog.look_for_stalls(group).stalls, IsEmpty());
  group.now = kStart + seconds(60);
  EXPECT_THAT(watchdog.look_for_stalls(group).stalls,
              ElementsAre(AllOf(HasSubstr("allreduce of 'x', and 1 further operations, was "
                                          "enqueued on the device of rank 5"),
                                HasSubstr("which has finished nothing for 60 s"))));
  group.now = kStart + seconds(100);
  EXPECT_THAT(watchdog.look_for_stalls(group).stalls, IsEmpty());  // y, too, was reported
  group.now = kStart + seconds(300);
  EXPECT_TRUE(watchdog.check_timeouts(group).is_ok());
  group.now = kStart + seconds(301);
  EXPECT_THAT(watchdog.check_timeouts(group).message(),
              HasSubstr("was enqueued on the device of rank 5 300 s ago and has not ended"));
}

// On several nodes a peer may have gone long before.
TEST(Watchdog, RankThatEndsDuringAShutdownCountsOnOneNode) {
  const World world;
  for (const bool on_one_node : {true, false}) {
    WatchdogOptions options = options_of(0);
    options.on_one_node = on_one_node;
    options.lost_rank = [](const std::vector<int>& /*ranks*/) { return std::optional<int>(9); };
    Watchdog watchdog(options);
    GroupSnapshot group = world.at(kStart + seconds(2));
    group.leaving = kStart;
    EXPECT_TRUE(watchdog.check_ranks(group).is_ok());
    const Status status = watchdog.check_ranks(group);
    EXPECT_EQ(status.is_ok(), !on_one_node);
    if (on_one_node) {
      EXPECT_THAT(status.message(), HasSubstr("shutdown: the process of rank 9 has ended"));
    }
    group.is_closed = true;
    EXPECT_TRUE(watchdog.check_ranks(group).is_ok());
  }
}

TEST(Watchdog, LooksInIntervals) {
  Watchdog watchdog(options_of(0));
  EXPECT_TRUE(watchdog.is_time_for_stalls(kStart));
  EXPECT_FALSE(watchdog.is_time_for_stalls(kStart + seconds(7)));  // an eighth of stall_check
  EXPECT_TRUE(watchdog.is_time_for_stalls(kStart + seconds(8)));
  EXPECT_TRUE(watchdog.is_time_for_ranks(kStart));
  EXPECT_FALSE(watchdog.is_time_for_ranks(kStart + std::chrono::milliseconds(99)));
  EXPECT_TRUE(watchdog.is_time_for_ranks(kStart + std::chrono::milliseconds(100)));
  WatchdogOptions never = options_of(0);
  never.stall_check = Clock::duration::zero();
  EXPECT_FALSE(Watchdog(never).is_time_for_stalls(kStart));
}

}  // namespace
}  // namespace kolo
