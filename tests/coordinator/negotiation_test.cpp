// The control plane's two halves against each other. Whatever the order of messages, nothing hangs
// and every rank launches the same things in the same order.
#include <gmock/gmock.h>

#include "coordinator/negotiation_world.hpp"

namespace kolo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Negotiation, ATensorRunsWhenEveryRankHasIt) {
  World world(3);
  world.submit(0, "a");
  world.submit(2, "a");
  world.deliver_all();
  EXPECT_TRUE(world.launches(0).empty());
  world.submit(1, "a");
  world.deliver_all();
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(world.launches(rank), testing::ElementsAre(testing::ElementsAre("a")));
}

TEST(Negotiation, KnownTensorsTravelWithoutTheirNames) {
  World world(2);
  const std::string name(1000, 'x');
  const auto step = [&] {
    world.forget_traffic();
    for (int rank = 0; rank < 2; ++rank) world.submit(rank, name);
    for (int rank = 0; rank < 2; ++rank) world.wait_begins(rank, name);
    world.deliver_all();
    return world.traffic().bytes;
  };
  EXPECT_GT(step(), 3000U);
  EXPECT_LT(step(), 40U);
  EXPECT_LT(step(), 40U);
}

TEST(Negotiation, WhatIsSubmittedTogetherIsFusedFromTheThirdTimeOn) {
  World world(3);
  const std::vector<std::string> names = {"a", "b", "c"};
  for (int step = 0; step < 4; ++step) train_step(world, names);
  const auto& launches = world.launches(0);
  ASSERT_EQ(launches.size(), 3U + 3U + 1U + 1U);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(launches[i].size(), 1U);
  EXPECT_EQ(launches[6], names);
  EXPECT_EQ(launches[7], names);
}

// The heart of it: 300 random interleavings give the same buckets on every rank and in every run.
TEST(Negotiation, BucketsDependOnTheProgramAlone) {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g"};
  PlanLimits limits;
  limits.bucket_bytes = 3 * 64;
  for (unsigned seed = 0; seed < 300; ++seed) {
    World world(1 + static_cast<int>(seed % 5), seed, 1000, limits);
    for (int step = 0; step < 5; ++step) train_step(world, names);
    for (int rank = 1; rank < world.size(); ++rank)
      ASSERT_EQ(world.launches(rank), world.launches(0));
    std::vector<std::vector<std::string>> late(world.launches(0).end() - 9,
                                               world.launches(0).end());
    std::sort(late.begin(), late.end());
    const std::vector<std::string> first = {"a", "b", "c"};
    const std::vector<std::string> second = {"d", "e", "f"};
    const std::vector<std::string> third = {"g"};
    ASSERT_EQ(late, (std::vector<std::vector<std::string>>{first, first, first, second, second,
                                                           second, third, third, third}))
        << "seed " << seed;
  }
}

TEST(Negotiation, ASkippedTensorGivesTheBucketUpAndNothingHangs) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 3; ++step) train_step(world, {"a", "b", "c"});
    train_step(world, {"a", "c"});       // b does not come
    train_step(world, {"a", "b", "c"});  // and comes back
    train_step(world, {"c", "new", "a"});
    for (int step = 0; step < 3; ++step) train_step(world, {"a", "b", "c"});
    for (int rank = 1; rank < 3; ++rank) ASSERT_EQ(world.launches(rank), world.launches(0));
  }
}

// Rank 1 submits "a" for the bucket's first time before it has heard of the bucket, and waits.
TEST(Negotiation, AWaitBeforeTheBucketIsKnownLetsItGo) {
  World world(2);
  train_step(world, {"a", "b"});
  for (int rank = 0; rank < 2; ++rank) {
    world.submit(rank, "a");
    world.submit(rank, "b");
  }
  world.deliver_all();  // both have run; rank 0's program has not waited yet
  world.submit(1, "a");
  world.wait_begins(1, "a");
  world.wait_begins(0, "a");
  world.submit(0, "a");
  world.submit(0, "b");
  world.wait_begins(0, "a");
  world.deliver_all();
  EXPECT_FALSE(world.busy(1, "a"));
}

TEST(Negotiation, WaitingInBetweenIsNotFused) {
  World world(2);
  for (int step = 0; step < 4; ++step) {
    for (const char* name : {"a", "b"}) {
      for (int rank = 0; rank < 2; ++rank) {
        world.submit(rank, name);
        world.wait_begins(rank, name);
      }
      world.deliver_all();
    }
  }
  for (const auto& launch : world.launches(0)) EXPECT_EQ(launch.size(), 1U);
  EXPECT_EQ(world.launches(0).size(), 8U);
}

TEST(Negotiation, AMismatchNamesTensorRanksAndDifference) {
  World world(3);
  world.submit(0, "w", shape({2, 3}));
  world.submit(1, "w", shape({3, 2}));
  world.submit(2, "w", shape({2, 3}));
  world.submit(0, "fine");
  world.submit(1, "fine");
  world.submit(2, "fine");
  world.deliver_all();
  for (int rank = 0; rank < 3; ++rank) {
    const Status& status = world.failures(rank)["w"];
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr("'w'"));
    EXPECT_THAT(status.message(), HasSubstr("shape: [2, 3] on ranks 0, 2; [3, 2] on rank 1"));
    EXPECT_EQ(world.launches(rank).size(), 1U);
  }
}

TEST(Negotiation, OperationsOfTwoKindsMayHaveOneName) {
  World world(2);
  const Descriptor gather = described(OpKind::kAllgather, {4});
  for (int step = 0; step < 3; ++step) {
    world.submit(0, "w");
    world.submit(0, "allgather|w", gather);
    world.submit(1, "allgather|w", gather);
    world.submit(1, "w");
    world.deliver_all();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(world.idle(rank));
      EXPECT_TRUE(world.failures(rank).empty());
    }
  }
  // A failure of one of them is not the other's.
  world.submit(0, "w", shape({4}));
  world.submit(0, "allgather|w", gather);
  world.submit(1, "w", shape({5}));
  world.deliver_all();
  EXPECT_EQ(world.failures(0)["w"].code(), StatusCode::kMismatch);
  EXPECT_TRUE(world.busy(0, "allgather|w"));
  world.submit(1, "allgather|w", gather);
  world.deliver_all();
  EXPECT_TRUE(world.idle(0));
  EXPECT_EQ(world.failures(0).size(), 1U);
}

// Each rank waits in an operation of another kind: nothing would ever end that.
TEST(Negotiation, RanksThatMeanDifferentKindsByANameAreToldInTime) {
  const Clock::time_point start = Clock::now();
  const auto after = [&](int seconds) { return start + std::chrono::seconds(seconds); };
  const Descriptor gather = described(OpKind::kAllgather, {4});
  for (const bool known : {false, true}) {
    World world(3);
    world.set_now(start);
    if (known) {
      train_step(world, {"w"});
      for (int rank = 0; rank < 3; ++rank) world.submit(rank, "allgather|w", gather);
      world.deliver_all();
    }
    world.submit(0, "w");
    world.submit(1, "w");
    world.deliver_all();
    world.fail_different_kinds(after(100));
    EXPECT_TRUE(world.failures(0).empty()) << "rank 2 may still come";
    world.set_now(after(10));
    world.submit(2, "allgather|w", gather);
    world.deliver_all();
    world.fail_different_kinds(after(9));
    world.deliver_all();
    EXPECT_TRUE(world.failures(0).empty()) << "rank 2 came later than that";
    world.fail_different_kinds(after(10));
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(world.idle(rank));
      EXPECT_THAT(world.failures(rank)[rank == 2 ? "allgather|w" : "w"].message(),
                  HasSubstr("'w': operation: allreduce on ranks 0, 1; allgather on rank 2"));
    }
    train_step(world, {"w"});  // all goes on
    EXPECT_EQ(world.launches(2).back(), std::vector<std::string>{"w"});
  }
}

// The name is of a bucket that the other rank has reported whole.
TEST(Negotiation, DifferentKindsAreToldOfABucketsMembersToo) {
  World world(2);
  const Clock::time_point start = Clock::now();
  world.set_now(start);
  for (int step = 0; step < 4; ++step) train_step(world, {"a", "b"});
  for (const char* name : {"a", "b"}) {
    world.submit(0, name);
    world.submit(1, "allgather|" + std::string(name), described(OpKind::kAllgather, {4}));
  }
  world.deliver_all();
  world.fail_different_kinds(start);
  world.deliver_all();
  for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(world.idle(rank));
  EXPECT_THAT(world.failures(0)["b"].message(),
              HasSubstr("operation: allreduce on rank 0; allgather on rank 1"));
  for (int step = 0; step < 4; ++step) train_step(world, {"a", "b"});
  EXPECT_EQ(world.launches(1).back(), (std::vector<std::string>{"a", "b"})) << "fused again";
}

// A rank that has joined takes part in whatever the others do.
TEST(Negotiation, DifferentKindsAreToldWhileARankHasJoined) {
  World world(3);
  world.join(1);
  world.submit(0, "w");
  world.submit(2, "broadcast|w", described(OpKind::kBroadcast, {4}));
  world.deliver_all();
  world.fail_different_kinds(Clock::time_point::max());
  world.deliver_all();
  EXPECT_THAT(world.failures(0)["w"].message(),
              HasSubstr("operation: allreduce on rank 0; broadcast on rank 2"));
  EXPECT_TRUE(world.idle(2));
}

TEST(Negotiation, WhileAJobIsSuspendedKindsDoNotDiffer) {
  World world(2);
  const Clock::time_point start = Clock::now();
  world.set_now(start);
  world.submit(0, "w");
  world.submit(1, "broadcast|w", described(OpKind::kBroadcast, {4}));
  world.deliver_all();
  world.count_from(start + std::chrono::seconds(100));
  world.fail_different_kinds(start + std::chrono::seconds(90));
  world.deliver_all();
  EXPECT_TRUE(world.failures(0).empty());
  world.fail_different_kinds(start + std::chrono::seconds(100));
  world.deliver_all();
  EXPECT_FALSE(world.failures(0).empty());
}

// Both come in the end, each on a rank of its own first.
TEST(Negotiation, OperationsOfTwoKindsThatAllRanksMakeAreNoMistake) {
  World world(2);
  const Descriptor gather = described(OpKind::kAllgather, {4});
  world.submit(0, "w");
  world.submit(1, "allgather|w", gather);
  world.submit(1, "x");
  world.submit(0, "allgather|x", gather);
  world.submit(1, "allgather|x", gather);
  world.deliver_all();
  world.submit(0, "allgather|w", gather);
  world.deliver_all();
  world.fail_different_kinds(Clock::time_point::max());
  world.deliver_all();
  EXPECT_TRUE(world.failures(0).empty());
  EXPECT_TRUE(world.failures(1).empty());
}

// Calls without a name are counted over all kinds.
TEST(Negotiation, RanksWhoseUnnamedCallsDifferAreToldAtOnce) {
  World world(2);
  world.submit(0, "unnamed.0", shape({4}), false, true);
  world.submit(1, "unnamed.0", described(OpKind::kAllgather, {4}), false, true);
  world.deliver_all();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(world.failures(rank)["unnamed.0"].message(),
                HasSubstr("operation: allreduce on rank 0; allgather on rank 1"));
    EXPECT_TRUE(world.idle(rank));
  }
}

TEST(Negotiation, GroupsAndGathersAreComparedTensorByTensor) {
  Descriptor a;
  a.tensors = {{DType::kFloat32, {4}}, {DType::kFloat32, {2, 3}}};
  Descriptor b = a;
  b.tensors[1].shape = {3, 2};
  EXPECT_EQ(describe_difference({&a, &b}, {0, 1}),
            "shape of tensor 1: [2, 3] on rank 0; [3, 2] on rank 1");
  b.tensors.pop_back();
  EXPECT_THAT(describe_difference({&a, &b}, {0, 1}),
              HasSubstr("number of tensors: 2 on rank 0; 1 on rank 1"));
  a = shape({3});
  a.kind = OpKind::kAllgather;
  b = a;
  b.tensors[0].shape = {};
  EXPECT_EQ(describe_difference({&a, &b}, {0, 1}), "shape: [*, 3] on rank 0; [*] on rank 1");
}

TEST(Negotiation, EveryFieldIsCompared) {
  const auto difference_of = [](auto change) {
    Descriptor a = shape({4});
    Descriptor b = a;
    change(b);
    return describe_difference({&a, &b}, {0, 1});
  };
  EXPECT_EQ(difference_of([](Descriptor&) {}), "");
  EXPECT_THAT(difference_of([](Descriptor& d) { d.kind = OpKind::kBroadcast; }),
              HasSubstr("operation: allreduce on rank 0; broadcast on rank 1"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.tensors[0].dtype = DType::kInt8; }),
              HasSubstr("dtype: float32 on rank 0; int8 on rank 1"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.op = ReduceOp::Max; }),
              HasSubstr("operator: Sum on rank 0; Max on rank 1"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.root = 1; }),
              HasSubstr("root rank: 0 on rank 0; 1 on rank 1"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.prescale = 2; }), HasSubstr("prescale"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.postscale = 2; }), HasSubstr("postscale"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.prescale = 1 + 1e-12; }),
              HasSubstr("1 on rank 0; 1.000000000001 on rank 1"));
}

TEST(Negotiation, AKnownTensorMayChangeItsShapeEverywhere) {
  World world(2);
  for (const auto& extents : std::vector<std::vector<std::int64_t>>{{4}, {4}, {7}, {7}, {4}}) {
    for (int rank = 0; rank < 2; ++rank) world.submit(rank, "last batch", shape(extents));
    world.deliver_all();
  }
  EXPECT_EQ(world.launches(1).size(), 5U);
}

// ... but not on some ranks alone, also when the tensor is in a bucket; and it recovers.
TEST(Negotiation, AKnownTensorThatChangesOnOneRankFailsAndRecovers) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
    for (int rank = 0; rank < 3; ++rank) {
      world.submit(rank, "a");
      world.submit(rank, "b", rank == 1 ? shape({9}) : shape({4}));
      world.submit(rank, "c");
    }
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(world.idle(rank));
      ASSERT_EQ(world.failures(rank).size(), 1U);
      EXPECT_THAT(world.failures(rank)["b"].message(), HasSubstr("[9] on rank 1"));
    }
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
  }
}

TEST(Negotiation, AfterAMismatchTensorsAreFusedAgain) {
  World world(2);
  for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
  for (int rank = 0; rank < 2; ++rank) {
    world.submit(rank, "a");
    world.submit(rank, "b", rank == 1 ? shape({9}) : shape({4}));
    world.submit(rank, "c");
  }
  world.deliver_all();
  for (int step = 0; step < 5; ++step) train_step(world, {"a", "b", "c"});
  EXPECT_EQ(world.launches(0).back().size(), 3U);
}

TEST(Negotiation, BucketMembersMayChangeShapeTogether) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
    for (int rank = 0; rank < 3; ++rank) {
      for (const char* name : {"a", "b", "c"})
        world.submit(rank, name, name[0] == 'b' ? shape({9}) : shape({4}));
    }
    for (int rank = 0; rank < 3; ++rank) world.wait_begins(rank, "a");
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(world.idle(rank));
      ASSERT_TRUE(world.failures(rank).empty());
      ASSERT_EQ(world.launches(rank), world.launches(0));
    }
  }
}

TEST(Negotiation, AbsentTensors) {
  World world(2);
  for (int step = 0; step < 4; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      world.submit(rank, "here");
      world.submit(rank, "nowhere", shape({4}), true);
      world.submit(rank, "on rank 1", shape({4}), rank == 0);
    }
    for (int rank = 0; rank < 2; ++rank) world.wait_begins(rank, "here");
    world.deliver_all();
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(world.launches(rank)[1], testing::ElementsAre("nowhere (absent)"));
    EXPECT_THAT(world.launches(rank).back(),
                testing::ElementsAre("here", "nowhere (absent)", "on rank 1"));
  }
}

TEST(Negotiation, TheCacheEvictsAndNothingIsLost) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    World world(3, seed, 4);  // fewer places than names
    for (int step = 0; step < 6; ++step) {
      train_step(world, {"a", "b"});
      train_step(world, {"a", "step" + std::to_string(step), "c", "d"});
      if (step % 2 == 0) train_step(world, {"c", "b", "e", "f", "g"});
    }
    for (int rank = 1; rank < 3; ++rank) ASSERT_EQ(world.launches(rank), world.launches(0));
  }
}

TEST(Negotiation, TransientNamesLeaveNothingBehind) {
  World world(2);
  for (int i = 0; i < 100; ++i) {
    for (int rank = 0; rank < 2; ++rank)
      world.submit(rank, "unnamed." + std::to_string(i % 2), shape({i}), false, true);
    world.deliver_all();
  }
  EXPECT_EQ(world.launches(1).size(), 100U);
}

TEST(Negotiation, ARankThatLeavesFailsWhatOthersWaitFor) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 3; ++step) train_step(world, {"a", "b"});
    world.submit(0, "a");
    world.submit(1, "a");
    world.submit(0, "b");
    world.submit(2, "a");  // rank 2 goes with this one submitted: it still runs
    world.leave(2);
    world.deliver_all();
    world.submit(1, "b");  // comes too late
    world.wait_begins(1, "a");
    world.deliver_all();
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(world.idle(rank)) << "rank " << rank << " hangs, seed " << seed;
      const Status& status = world.failures(rank)["b"];
      EXPECT_EQ(status.code(), StatusCode::kPeerLost);
      EXPECT_THAT(status.message(),
                  HasSubstr("rank 2 shut kolo down or exited before submitting tensor 'b'"));
      EXPECT_FALSE(world.closed(rank));
    }
    EXPECT_THAT(world.launches(2).back(), testing::ElementsAre("a"));
    world.leave(0);
    world.leave(1);
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(world.closed(rank));
  }
}

// --- join ---

TEST(Negotiation, JoinedRanksStandInUntilAllHaveJoined) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b"});
    const auto fused = world.launches(0).back();
    EXPECT_EQ(fused.size(), 2U);
    world.join(1);
    for (int step = 0; step < 2; ++step) {
      for (const int rank : {0, 2}) {
        world.submit(rank, "b");
        world.submit(rank, "a");
        world.submit(rank, "new");  // rank 1 has never seen it
        world.submit(rank, "once" + std::to_string(step), shape({4}), false, true);
      }
      for (const int rank : {0, 2}) world.wait_begins(rank, "a");
      world.deliver_all();
      for (const int rank : {0, 2}) ASSERT_TRUE(world.idle(rank)) << "seed " << seed;
    }
    EXPECT_EQ(world.placeholders(1), 8);
    EXPECT_EQ(world.last_joined(1), -1);
    world.join(0);
    world.submit(2, "a");
    world.submit(2, "b");
    world.wait_begins(2, "b");
    world.deliver_all();
    ASSERT_TRUE(world.idle(2));
    world.join(2);
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(world.idle(rank));
      EXPECT_EQ(world.last_joined(rank), 2);
      ASSERT_EQ(world.launches(rank), world.launches(0));
    }
    for (int step = 0; step < 2; ++step) train_step(world, {"a", "b", "new"});
  }
}

// What a rank submitted before it joined is its own; what it held back is let go.
TEST(Negotiation, ARankMayJoinWithOperationsInFlight) {
  World world(2);
  for (int step = 0; step < 4; ++step) train_step(world, {"a", "b"});
  world.submit(1, "a");
  world.join(1);
  world.submit(0, "a");
  world.submit(0, "b");
  world.wait_begins(0, "a");
  world.deliver_all();
  EXPECT_TRUE(world.idle(0));
  EXPECT_EQ(world.placeholders(1), 1) << "for b alone";
  world.join(0);
  world.deliver_all();
  EXPECT_EQ(world.last_joined(1), 0);
}

TEST(Negotiation, TheRootOfABroadcastMustNotHaveJoined) {
  World world(3);
  Descriptor from_1 = shape({4});
  from_1.kind = OpKind::kBroadcast;
  from_1.root = 1;
  world.join(1);
  for (const int rank : {0, 2}) world.submit(rank, "w", from_1);
  world.deliver_all();
  for (const int rank : {0, 2}) {
    EXPECT_THAT(world.failures(rank)["w"].message(), HasSubstr("its root, rank 1, has joined"));
  }
  EXPECT_FALSE(world.idle(1));
}

TEST(Negotiation, AJoinedRankAgreesWithWhateverTheOthersSubmit) {
  World world(3);
  for (const auto& extents : std::vector<std::vector<std::int64_t>>{{4}, {4}, {7}}) {
    if (extents[0] == 7) world.join(2);
    for (int rank = 0; rank < (extents[0] == 7 ? 2 : 3); ++rank)
      world.submit(rank, "a", shape(extents));
    world.deliver_all();
  }
  EXPECT_TRUE(world.idle(0));
  EXPECT_TRUE(world.failures(0).empty());
  world.submit(0, "a", shape({7}));
  world.submit(1, "a", shape({8}));
  world.deliver_all();
  EXPECT_THAT(world.failures(0)["a"].message(), HasSubstr("[8] on rank 1"));
}

TEST(Negotiation, HeldTensorsAreLetGoByFlush) {
  World world(2);
  for (int step = 0; step < 3; ++step) train_step(world, {"a", "b"});
  const Clock::time_point before = Clock::now();
  for (int rank = 0; rank < 2; ++rank) world.submit(rank, "a");
  world.deliver_all();
  EXPECT_FALSE(world.idle(0));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(world.participant(rank).flush(before), 0U) << "not that old";
    EXPECT_EQ(world.participant(rank).flush(Clock::now() + std::chrono::seconds(1)), 1U);
  }
  world.wait_begins(0, "a");
  world.wait_begins(1, "a");
  world.deliver_all();
  EXPECT_TRUE(world.idle(0));
  EXPECT_TRUE(world.idle(1));
}

TEST(Negotiation, ProtocolErrorsAreErrors) {
  Negotiator negotiator({{0, 1}, {}});
  EXPECT_FALSE(negotiator.handle(1, {wire::Ready{77, {}}}).is_ok());
  EXPECT_TRUE(negotiator.handle(1, {wire::Announce{"a", shape({1}), false, false}}).is_ok());
  EXPECT_FALSE(negotiator.handle(1, {wire::Announce{"a", shape({1}), false, false}}).is_ok());
  Participant participant(1, 10);
  std::vector<Participant::Action> actions;
  EXPECT_FALSE(participant.apply({wire::Execute{3, {}}}, actions).is_ok());
  EXPECT_FALSE(participant.apply({wire::Assign{3, "x", {}, false}}, actions).is_ok());
  EXPECT_FALSE(participant.apply({wire::Evict{3}}, actions).is_ok());
  EXPECT_FALSE(participant.apply({wire::Bucket{4, {{3, 0}}}}, actions).is_ok());
}

}  // namespace
}  // namespace kolo
