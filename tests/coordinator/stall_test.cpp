#include "coordinator/stall.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "negotiation_world.hpp"

namespace kolo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Clock::time_point at(int seconds) {
  return Clock::time_point(std::chrono::seconds(1000 + seconds));
}

std::vector<std::string> in_words(const std::vector<Stall>& stalls) {
  std::vector<std::string> all;
  all.reserve(stalls.size());
  for (const Stall& stall : stalls) all.push_back(describe({stall}, at(70)));
  return all;
}

TEST(Stalls, NameWhoIsMissingAndSinceWhen) {
  World world(4);
  world.set_now(at(0));
  world.submit(0, "a");
  world.submit(2, "a");
  world.deliver_all();
  world.set_now(at(10));
  world.submit(1, "b");
  world.submit(3, "a");
  world.deliver_all();
  EXPECT_THAT(world.stalls(at(-1)), IsEmpty());
  EXPECT_THAT(
      in_words(world.stalls(at(5))),
      ElementsAre(
          "rank 1 has not submitted allreduce of 'a', which another rank submitted 70 s ago"));
  EXPECT_THAT(
      in_words(world.stalls(at(10))),
      ElementsAre(
          "rank 1 has not submitted allreduce of 'a', which another rank submitted 70 s ago",
          "ranks 0, 2, 3 have not submitted allreduce of 'b', which another rank submitted 60 s "
          "ago"));
  world.submit(1, "a");
  for (const int rank : {0, 2, 3}) world.submit(rank, "b");
  world.deliver_all();
  EXPECT_THAT(world.stalls(at(100)), IsEmpty());
}

// Of the timeline's own operations a rank whose disk hangs is not waited for.
TEST(Stalls, ReadingsOfTheClockAreNone) {
  World world(2);
  world.set_now(at(0));
  Descriptor clock;
  clock.kind = OpKind::kClock;
  world.submit(0, "kolo.clock.1", clock);
  world.submit(0, "a");
  world.deliver_all();
  EXPECT_THAT(in_words(world.stalls(at(10))), ElementsAre(testing::HasSubstr("allreduce of 'a'")));
}

TEST(Stalls, AreToldAtOnceAndWhenTheyHaveLastedTwiceAsLong) {
  const Stall old{"old", OpKind::kAllreduce, 0, at(0), {1}};
  const Stall young{"young", OpKind::kAllreduce, 0, at(50), {2}};
  ToldStalls told;
  EXPECT_FALSE(told.is_time({}, at(9)));
  EXPECT_TRUE(told.is_time({old}, at(10)));
  told.told({old}, at(10));
  EXPECT_FALSE(told.is_time({old}, at(19)));
  EXPECT_TRUE(told.is_time({old}, at(20)));
  told.told({old}, at(40));
  EXPECT_TRUE(told.is_time({old, young}, at(60))) << "an older one hides none";
  told.told({old, young}, at(60));
  EXPECT_FALSE(told.is_time({old, young}, at(69)));
  EXPECT_TRUE(told.is_time({young}, at(70))) << "the older one's end puts it off no longer";
  const Stall again{"old", OpKind::kAllreduce, 0, at(80), {1}};
  EXPECT_TRUE(told.is_time({again}, at(90))) << "another one of the same name";
}

TEST(Stalls, CountFromTheNextSubmission) {
  World world(2);
  for (const int now : {0, 20}) {
    world.set_now(at(now));
    world.submit(0, "a");
    world.deliver_all();
    EXPECT_THAT(in_words(world.stalls(at(now))).size(), 1U);
    EXPECT_THAT(world.stalls(at(now - 1)), IsEmpty());
    world.submit(1, "a");
    world.deliver_all();
  }
}

// While all of a bucket's members come together the bucket is what is counted.
TEST(Stalls, KnowBuckets) {
  World world(2);
  const auto submit = [&](int rank) {
    for (const char* name : {"a", "b", "c"}) world.submit(rank, name);
    world.wait_begins(rank, "a");
  };
  for (int step = 0; step < 5; ++step) {
    for (const int rank : {0, 1}) submit(rank);
    world.deliver_all();
  }
  world.set_now(at(0));
  submit(0);
  world.deliver_all();
  EXPECT_THAT(in_words(world.stalls(at(0))),
              ElementsAre("rank 1 has not submitted allreduce of 'a' and 2 more, which another "
                          "rank submitted 70 s ago"));
  // Once the bucket is given up it is known what of it is missing, and still since when.
  world.set_now(at(30));
  world.submit(1, "a");
  world.submit(1, "c");
  world.wait_begins(1, "a");
  world.deliver_all();
  EXPECT_THAT(
      in_words(world.stalls(at(0))),
      ElementsAre(
          "rank 1 has not submitted allreduce of 'b', which another rank submitted 70 s ago"));
}

TEST(Stalls, WhoHasJoinedIsNotMissing) {
  World world(3);
  world.set_now(at(0));
  world.join(2);
  world.submit(0, "a");
  world.deliver_all();
  EXPECT_THAT(
      in_words(world.stalls(at(0))),
      ElementsAre(
          "rank 1 has not submitted allreduce of 'a', which another rank submitted 70 s ago"));
}

TEST(Stalls, OfASendOnlyItsTwoRanksCount) {
  World world(3);
  world.set_now(at(0));
  world.submit(1, "s", send_between(0, 1));
  world.deliver_all();
  EXPECT_THAT(
      in_words(world.stalls(at(0))),
      ElementsAre("rank 0 has not submitted send of 's', which another rank submitted 70 s ago"));
}

TEST(Stalls, AreToldTogetherByWhoIsMissing) {
  std::vector<Stall> stalls;
  for (int i = 0; i < 8; ++i)
    stalls.push_back({"t" + std::to_string(i), OpKind::kAllreduce, 0, at(i), {2}});
  stalls.push_back({"x", OpKind::kBroadcast, 5, at(1), {0, 1}});
  EXPECT_EQ(describe(stalls, at(10)),
            "ranks 0, 1 have not submitted broadcast of 'x' and 5 more, which another rank "
            "submitted 9 s ago; "
            "rank 2 has not submitted allreduce of 't0', allreduce of 't1', allreduce of 't2', "
            "allreduce of 't3', allreduce of 't4', allreduce of 't5' and 2 more, which another "
            "rank submitted "
            "10 s ago");
}

}  // namespace
}  // namespace kolo
