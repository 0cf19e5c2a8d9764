// A bucket as the coordinator sees it: reported as a whole or member by member.
#include <gmock/gmock.h>

#include "collectives/shm/control_channel.hpp"
#include "collectives/shm/layout.hpp"
#include "coordinator/negotiation_world.hpp"

namespace kolo {
namespace {

using ::testing::ElementsAre;

// No names, and a cache line a rank and bucket each way: its report, and the decision.
TEST(Negotiation, AStepOfKnownBucketsTakesACacheLineARankAndBucket) {
  constexpr int kRanks = 3;
  constexpr std::size_t kBuckets = 4;
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("parameter." + std::to_string(i));
  PlanLimits limits;
  limits.bucket_bytes = names.size() / kBuckets * 64;
  World world(kRanks, 1, 2000, limits);
  for (int step = 0; step < 4; ++step) train_step(world, names);
  const std::size_t launched = world.launches(0).size();
  world.forget_traffic();
  train_step(world, names);
  ASSERT_EQ(world.launches(0).size(), launched + kBuckets);
  EXPECT_LE(world.traffic().longest, shm::ControlRing::Line::kRoom);
  // And each rank says once that it waits.
  EXPECT_LE(world.traffic().messages, kRanks * (2 * kBuckets + 1));
}

// A coordinator of three ranks that knows the tensors 1 and 2, and the bucket 3 of both, which all
// ranks have reported as a whole before.
class WholeBucketTest : public testing::Test {
 protected:
  static constexpr EntryId kBucket = 3;
  static constexpr int kRanks = 3;

  WholeBucketTest() {
    for (int rank = 0; rank < kRanks; ++rank) {
      take(rank, {wire::Announce{"a", shape({1}), false, false},
                  wire::Announce{"b", shape({1}), false, false}});
    }
    for (int rank = 0; rank < kRanks; ++rank) take(rank, {ready(1), ready(2)});
    take(0, {wire::Boundary{{{1, 1}, {2, 1}}, {}}});
    for (int rank = 0; rank < kRanks; ++rank) take(rank, {ready(kBucket)});
    EXPECT_EQ(decisions().back(), executes(kBucket));
  }

  void take(int rank, const wire::Report& report) {
    EXPECT_TRUE(negotiator_.handle(rank, report).is_ok());
  }
  void all_but_rank_2_come() {
    for (const int rank : {1, 0}) take(rank, {ready(kBucket)});
    EXPECT_TRUE(decisions().empty());
  }
  wire::Decisions decisions() { return negotiator_.take_decisions(); }
  static wire::Ready ready(EntryId entry, std::vector<std::uint32_t> absent = {}) {
    return {entry, std::move(absent)};
  }
  static wire::DecisionRecord executes(EntryId entry, std::vector<std::uint32_t> absent = {}) {
    return wire::Execute{entry, std::move(absent)};
  }
  static auto Fails(const std::string& name) {
    return testing::VariantWith<wire::Fail>(testing::Field(&wire::Fail::name, name));
  }

  Negotiator negotiator_{{{0, 1, 2}, {}}};
};

TEST_F(WholeBucketTest, IsExecutedWhenAllHaveReportedIt) {
  for (int step = 0; step < 3; ++step) {
    all_but_rank_2_come();
    take(2, {ready(kBucket)});
    EXPECT_THAT(decisions(), ElementsAre(executes(kBucket)));
  }
}

TEST_F(WholeBucketTest, OneRankMayReportItsMembersOneByOne) {
  for (int last = 0; last < kRanks; ++last) {
    for (int i = 1; i < kRanks; ++i) take((last + i) % kRanks, {ready(kBucket)});
    take(last, {ready(2), ready(1)});
    EXPECT_THAT(decisions(), ElementsAre(executes(kBucket)));
    take(last, {ready(2), ready(1)});
    for (int i = 1; i < kRanks; ++i) take((last + i) % kRanks, {ready(kBucket)});
    EXPECT_THAT(decisions(), ElementsAre(executes(kBucket)));
  }
}

TEST_F(WholeBucketTest, ARankMayLackAMember) {
  all_but_rank_2_come();
  take(2, {ready(kBucket, {1})});
  EXPECT_THAT(decisions(), ElementsAre(executes(kBucket)));
  take(2, {ready(kBucket, {0})});
  for (const int rank : {0, 1}) take(rank, {ready(kBucket, {0})});
  EXPECT_THAT(decisions(), ElementsAre(executes(kBucket, {0})));
}

TEST_F(WholeBucketTest, TwiceFromOneRankIsAnError) {
  for (const wire::Ready& again : {ready(kBucket), ready(kBucket, {1}), ready(1)}) {
    take(0, {ready(kBucket)});
    EXPECT_FALSE(negotiator_.handle(0, {again}).is_ok());
    for (const int rank : {1, 2}) take(rank, {ready(kBucket)});
  }
}

TEST_F(WholeBucketTest, IsGivenUpForARankThatWaits) {
  all_but_rank_2_come();
  take(2, {wire::Flush{kBucket}, ready(2)});
  EXPECT_THAT(decisions(), ElementsAre(wire::DecisionRecord(wire::Dissolve{kBucket}), executes(2)));
  take(2, {ready(1)});
  EXPECT_THAT(decisions(), ElementsAre(executes(1)));
}

TEST_F(WholeBucketTest, FailsForARankThatLeaves) {
  all_but_rank_2_come();
  take(2, {wire::Leave{}});
  EXPECT_THAT(decisions(),
              ElementsAre(Fails("a"), wire::DecisionRecord(wire::Dissolve{kBucket}), Fails("b")));
}

TEST_F(WholeBucketTest, FailsWhenARankHasLeft) {
  take(2, {wire::Leave{}});
  EXPECT_TRUE(decisions().empty());
  take(0, {ready(kBucket)});
  EXPECT_THAT(decisions(),
              ElementsAre(Fails("a"), wire::DecisionRecord(wire::Dissolve{kBucket}), Fails("b")));
}

TEST_F(WholeBucketTest, NeedsNoRankThatHasJoined) {
  all_but_rank_2_come();
  take(2, {wire::Join{}});
  EXPECT_THAT(decisions(), ElementsAre(executes(kBucket)));
  for (int step = 0; step < 2; ++step) {
    take(0, {ready(kBucket)});
    EXPECT_TRUE(decisions().empty());
    take(1, {ready(kBucket)});
    EXPECT_THAT(decisions(), ElementsAre(executes(kBucket)));
  }
}

TEST_F(WholeBucketTest, AMemberThatIsSomethingElseOnOneRankFailsAlone) {
  all_but_rank_2_come();
  take(2, {wire::Announce{"a", shape({2}), false, false}});
  EXPECT_THAT(decisions(), ElementsAre(Fails("a"), wire::DecisionRecord(wire::Dissolve{kBucket})));
  take(2, {ready(2)});
  EXPECT_THAT(decisions(), ElementsAre(executes(2)));
}

TEST_F(WholeBucketTest, MembersMayBeEvicted) {
  all_but_rank_2_come();
  take(0, {wire::Boundary{{}, {1}}});
  EXPECT_THAT(decisions(), ElementsAre(wire::DecisionRecord(wire::Dissolve{kBucket})));
  take(2, {ready(kBucket)});  // it has not heard of that
  EXPECT_THAT(decisions(), ElementsAre(executes(1), executes(2)));
}

}  // namespace
}  // namespace kolo
