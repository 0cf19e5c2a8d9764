// Joins, sends and evictions in the orders of messages that are hard on them.
#include <gmock/gmock.h>

#include "coordinator/negotiation_world.hpp"

namespace kolo {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> history(const World& world, int rank, const std::string& name) {
  const auto found = world.history(rank).find(name);
  return found == world.history(rank).end() ? std::vector<std::string>() : found->second;
}

// --- join ---

// Rank 1 submits "a" for the bucket's first time before it has heard of the bucket, and joins. So
// "a" goes alone, as if it had waited, and what comes later finds nothing left of it.
TEST(NegotiationJoin, GivesUpABucketThatIsNotKnownYet) {
  for (const bool joins_first : {true, false}) {
    World world(2);
    train_step(world, {"a", "b"});
    for (int rank = 0; rank < 2; ++rank) {
      world.submit(rank, "a");
      world.submit(rank, "b");
    }
    world.deliver_all();
    world.submit(1, "a");
    world.join(1);
    world.wait_begins(0, "a");
    world.deliver_reports(joins_first ? 1 : 0);
    world.deliver_all();
    world.join(0);
    world.deliver_all();
    for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(world.idle(rank));
    EXPECT_EQ(world.placeholders(0), 1) << "for a alone";
    EXPECT_EQ(world.placeholders(1), 0);
    train_step(world, {"a", "b"});
    EXPECT_THAT(history(world, 0, "a"), ElementsAre("+a", "+a", "~a", "+a"));
    EXPECT_THAT(history(world, 1, "b"), ElementsAre("+b", "+b", "+b"));
  }
}

// ... and what another member means by now is what is executed.
TEST(NegotiationJoin, GivesUpABucketOfWhichAMemberChanges) {
  World world(2);
  train_step(world, {"a", "b"});
  for (int rank = 0; rank < 2; ++rank) {
    world.submit(rank, "a");
    world.submit(rank, "b");
  }
  world.deliver_all();
  world.submit(1, "b");
  world.join(1);
  world.wait_begins(0, "a");
  world.deliver_reports(0);
  world.deliver_decisions(0);
  world.submit(0, "a", shape({9}));
  world.submit(0, "b");
  world.deliver_reports(0);
  world.deliver_all();
  EXPECT_THAT(history(world, 0, "a"), ElementsAre("+a", "+a", "+a"));
  EXPECT_THAT(history(world, 1, "a"), ElementsAre("+a", "+a", "~a"));
}

// All members of a bucket change their shapes while a rank joins: each is executed with what the
// ranks announced for it, by the stand-in of the rank that has joined, too. (World compares what
// the ranks launch.)
TEST(NegotiationJoin, GivesUpABucketOfWhichAllMembersChange) {
  World world(2);
  for (int step = 0; step < 3; ++step) train_step(world, {"a", "b"});
  world.submit(1, "a", shape({9}));
  world.submit(1, "b", shape({2000}));
  world.deliver_reports(1);
  world.join(0);
  world.deliver_all();
  EXPECT_THAT(history(world, 1, "a"), ElementsAre("+a", "+a", "+ab", "+a"));
  EXPECT_THAT(history(world, 1, "b"), ElementsAre("+b", "+b", "+ab", "+b"));
  EXPECT_THAT(history(world, 0, "b"), ElementsAre("+b", "+b", "+ab", "~b"));
}

// What rank 0 submitted together with others is planned before they can go on without it.
TEST(NegotiationJoin, BucketsOfARankThatJoinsAreMadeAtOnce) {
  World world(2);
  train_step(world, {"a", "b"});
  for (int rank = 0; rank < 2; ++rank) {
    world.submit(rank, "a");
    world.submit(rank, "b");
  }
  world.deliver_all();
  world.join(0);
  for (int step = 0; step < 3; ++step) {
    world.submit(1, "a");
    world.submit(1, "b");
    world.deliver_all();
  }
  EXPECT_THAT(history(world, 0, "a"), ElementsAre("+a", "+a", "~ab", "~ab", "~ab"));
}

// Of the members of a bucket one changes its shape, so all are executed alone: once.
TEST(NegotiationJoin, TheLastToJoinExecutesEachTensorOnce) {
  World world(2);
  for (int step = 0; step < 3; ++step) train_step(world, {"a", "b"});
  world.submit(0, "a", shape({9}));
  world.submit(0, "b");
  for (int rank = 0; rank < 2; ++rank) {
    world.join(rank);
    world.deliver_reports(rank);
  }
  world.deliver_all();
  EXPECT_THAT(history(world, 1, "a"), ElementsAre("+a", "+a", "+ab", "~a"));
  EXPECT_THAT(history(world, 1, "b"), ElementsAre("+b", "+b", "+ab", "~b"));
  EXPECT_EQ(world.last_joined(0), 1);
}

// Rank 1 submits "a" by a number that is being evicted, and joins or leaves. That must not count
// before it has announced "a" again.
TEST(NegotiationJoin, ComesAfterWhatWasReportedByAnEvictedNumber) {
  for (const bool leaves : {false, true}) {
    World world(2, 0, 1);
    for (const char* name : {"a", "b"}) {
      for (int rank = 0; rank < 2; ++rank) world.submit(rank, name);
      world.deliver_all();
    }
    world.wait_begins(0, "b");  // more names than the cache holds
    world.submit(1, "a");
    leaves ? world.leave(1) : world.join(1);
    world.deliver_reports(0);
    world.deliver_reports(1);
    world.deliver_decisions(0);
    world.submit(0, "a");
    world.deliver_reports(0);
    world.deliver_all();
    if (!leaves) world.join(0);
    world.deliver_all();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(world.idle(rank));
      EXPECT_THAT(history(world, rank, "a"), ElementsAre("+a", "+a"));
    }
  }
}

// After a rank has left nobody can join, so nobody counts as joined either.
TEST(NegotiationJoin, ThatFailsChangesNothingElse) {
  World world(3);
  world.leave(2);
  world.submit(0, "s", send_between(0, 1));
  world.deliver_all();
  world.join(1);
  world.deliver_all();
  EXPECT_THAT(history(world, 1, "join"), ElementsAre(HasSubstr("will not join")));
  world.submit(1, "s", send_between(0, 1));
  world.deliver_all();
  for (int rank = 0; rank < 2; ++rank) EXPECT_THAT(history(world, rank, "s"), ElementsAre("+s"));
}

// Each time rank 0 has joined the others change the shape of "a", which so gets a new number.
TEST(NegotiationJoin, TheCacheIsCountedRight) {
  World world(2, 0, 4);
  for (int round = 0; round < 10; ++round) {
    train_step(world, {"a", "b"});
    world.join(0);
    world.submit(1, "a", shape({7}));
    world.deliver_all();
    world.join(1);
    world.deliver_all();
  }
  for (int step = 0; step < 4; ++step) train_step(world, {"a", "b"});
  EXPECT_EQ(history(world, 0, "a").back(), "+ab") << "what is evicted all the time is not fused";
}

TEST(NegotiationJoin, NamesThatOthersUseMeanwhileAreForgottenToo) {
  World world(3, 0, 16);
  for (int round = 0; round < 3; ++round) {
    world.join(0);
    for (int i = 0; i < 100; ++i) {
      for (const int rank : {1, 2})
        world.submit(rank, "r" + std::to_string(round) + "." + std::to_string(i));
      world.deliver_all();
    }
    for (const int rank : {1, 2}) world.join(rank);
    world.deliver_all();
    train_step(world, {"a"});
    for (int rank = 0; rank < 3; ++rank) EXPECT_LE(world.numbers(rank), 16U);
  }
}

// Rank 1 submits "a" before or after rank 0 lets it be forgotten; it means something else then.
TEST(NegotiationCache, WhetherAnEvictionComesInTimeChangesNothing) {
  std::vector<World::History> histories;
  for (const bool in_time : {false, true}) {
    World world(2, 0, 4);
    train_step(world, {"a", "b"});
    for (int rank = 0; rank < 2; ++rank) {
      for (const char* name : {"p", "q", "r"}) world.submit(rank, name);
    }
    world.deliver_all();
    if (in_time) {
      world.wait_begins(0, "p");
      world.deliver_all();
    }
    world.submit(1, "a", shape({9}));
    world.deliver_all();
    if (!in_time) world.wait_begins(0, "p");
    world.submit(0, "a");
    world.deliver_all();
    EXPECT_THAT(history(world, 0, "a").back(), HasSubstr("disagree"));
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b"});
    histories.push_back(world.history(0));
  }
  EXPECT_EQ(histories[0], histories[1]);
}

// Rank 0 begins to wait for "c" before or after it hears that "a" has failed. Either way five names
// are in the cache then, too many by one, and the oldest one, "x", starts anew: it is not fused
// when it comes for the second time.
TEST(NegotiationCache, WhenAFailureIsHeardOfChangesNothing) {
  for (const bool in_time : {false, true}) {
    World world(2, 0, 4);
    train_step(world, {"x", "y"});
    for (int rank = 0; rank < 2; ++rank) {
      world.submit(rank, "a", shape({4 + rank}));
      for (const char* name : {"b", "c"}) world.submit(rank, name);
    }
    if (in_time) world.deliver_all();
    world.wait_begins(0, "c");
    world.deliver_all();
    EXPECT_THAT(history(world, 0, "a").back(), HasSubstr("disagree"));
    for (int step = 0; step < 2; ++step) train_step(world, {"x", "y"});
    EXPECT_EQ(history(world, 0, "x").back(), "+x") << (in_time ? "in time" : "too late");
    train_step(world, {"x", "y"});
    EXPECT_EQ(history(world, 0, "x").back(), "+xy") << (in_time ? "in time" : "too late");
  }
}

// Ranks 1 and 2 used ten names while rank 0 had joined, in whatever order. Too many by two: those
// that are first in the alphabet go.
TEST(NegotiationCache, WhatIsEvictedAfterAJoinDependsOnNoOrder) {
  const std::vector<std::string> first = {"n0", "n1", "n2", "n3", "n4"};
  for (unsigned seed = 0; seed < 20; ++seed) {
    World world(3, seed, 12);
    world.join(0);
    for (const int rank : {1, 2}) {
      for (int i = 0; i < 10; ++i) world.submit(rank, "n" + std::to_string(i));
    }
    world.deliver_all();
    for (const int rank : {1, 2}) world.join(rank);
    world.deliver_all();
    train_step(world, {"a", "b", "c", "d"});
    for (int step = 0; step < 2; ++step) train_step(world, first);
    EXPECT_EQ(history(world, 0, "n1").back(), "+n1");
    EXPECT_EQ(history(world, 0, "n2").back(), "+n2n3n4");
  }
}

// --- send ---

// Of ten thousand names none stays, on no rank: the two that use them, and the one that does not.
TEST(NegotiationSend, NamesAreForgotten) {
  for (const bool between_others : {true, false}) {
    World world(3, 0, 16);
    const int source = between_others ? 1 : 0;
    for (int i = 0; i < 10000; ++i) {
      const std::string name = "s" + std::to_string(i);
      for (const int rank : {source, 2}) world.submit(rank, name, send_between(source, 2));
      for (const int rank : {source, 2}) world.wait_begins(rank, name);
      world.deliver_all();
      if (i % 1000 == 0) train_step(world, {"a"});
      for (int rank = 0; rank < 3; ++rank) ASSERT_LE(world.numbers(rank), 1U) << "on rank " << rank;
    }
    EXPECT_EQ(world.history(2).size(), 10001U);
  }
}

TEST(NegotiationSend, ToWhoHasJoinedLeavesNothingBehind) {
  World world(3);
  world.join(2);
  for (int i = 0; i < 10; ++i) {
    world.submit(1, "s", send_between(1, 2), false, i % 2 == 0);
    Descriptor from_2 = described(OpKind::kBroadcast, {4});
    from_2.root = 2;
    for (const int rank : {0, 1}) world.submit(rank, "b", from_2, false, true);
    world.deliver_all();
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(world.numbers(rank), 0U);
  EXPECT_THAT(history(world, 1, "s"), Each(HasSubstr("has joined")));
  EXPECT_THAT(history(world, 0, "b"), Each(HasSubstr("its root, rank 2, has joined")));
}

// Ranks 0 and 1 mean different pairs and fail at once. Rank 2, which nobody has heard of yet, means
// what rank 1 means: its submission waits for rank 1's next.
TEST(NegotiationSend, AFailureDoesNotMeanWhoComesLater) {
  World world(3);
  world.submit(0, "p", send_between(0, 1));
  world.submit(1, "p", send_between(2, 1));
  world.submit(2, "p", send_between(2, 1));
  world.deliver_reports(0);
  world.deliver_reports(1);
  world.deliver_all();
  EXPECT_THAT(history(world, 0, "p"),
              ElementsAre(HasSubstr("root rank: 0 on rank 0; 2 on rank 1")));
  EXPECT_TRUE(world.busy(2, "p"));
  world.submit(1, "p", send_between(2, 1));
  world.deliver_all();
  EXPECT_EQ(history(world, 1, "p").back(), "+p");
  EXPECT_THAT(history(world, 2, "p"), ElementsAre("+p"));
}

// Two ranks send under a name that a third one means for an allreduce.
TEST(NegotiationSend, MayTakeANameThatIsInFlightElsewhere) {
  for (const bool known : {false, true}) {
    World world(3);
    if (known) train_step(world, {"x"});
    world.submit(0, "x");
    for (const int rank : {1, 2}) {
      world.submit(rank, "x", send_between(1, 2));
      world.deliver_reports(rank);
    }
    world.deliver_all();
    EXPECT_TRUE(world.busy(0, "x"));
    for (const int rank : {1, 2}) {
      EXPECT_EQ(history(world, rank, "x").back(), "+x");
      world.submit(rank, "x");
    }
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(world.idle(rank));
    train_step(world, {"x"});
  }
}

}  // namespace
}  // namespace kolo
