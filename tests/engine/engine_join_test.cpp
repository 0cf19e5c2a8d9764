// Joins through the whole engine, where work is still in flight.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "engine/engine_fixture.hpp"

namespace kolo {
namespace {

// A rank that has joined waits for as long as the others work, and takes nobody for stopped.
TEST(EngineJoin, ALongJoinIsNoStall) {
  Engine::Options options = test_options();
  options.group.stall_check = std::chrono::milliseconds(40);
  options.group.stall_shutdown = std::chrono::milliseconds(300);
  on_all_ranks(
      2,
      [](Engine& engine, Transport&) {
        if (engine.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(800));
        const Status status = submit_and_wait(engine, plain(OpKind::kJoin, "join"));
        EXPECT_TRUE(status.is_ok()) << status.message();
      },
      options);
}

// As another thread could do while one waits in join().
TEST(EngineJoin, NothingCanBeSubmittedMeanwhile) {
  std::atomic<int> rounds_refused{0};
  on_all_ranks(2, [&](Engine& engine, Transport&) {
    std::vector<float> values(3, 1);
    for (int round = 0; round < 3; ++round) {
      const auto before = allreduce("before", values);
      EXPECT_TRUE(engine.submit(before).is_ok());
      const auto join = plain(OpKind::kJoin, "join");
      if (engine.rank() == 1) rounds_refused.wait(round);  // or the join would end at once
      EXPECT_TRUE(engine.submit(join).is_ok());
      if (engine.rank() == 0) {
        for (const auto& other : {allreduce("other", values), plain(OpKind::kJoin, "again")}) {
          const Status refused = engine.submit(other);
          EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
          EXPECT_NE(refused.message().find("another thread of this rank is in join()"),
                    std::string::npos)
              << refused.message();
        }
        ++rounds_refused;
        rounds_refused.notify_one();
      }
      EXPECT_TRUE(engine.wait(before, std::chrono::seconds(30)).is_ok());
      EXPECT_TRUE(engine.wait(join, std::chrono::seconds(30)).is_ok());
      EXPECT_EQ(values, std::vector<float>(3, 2.0F));
      values.assign(3, 1);
    }
  });
}

// Rank 0 joins while its last step is in flight, so the join ends on rank 1 while that one still
// stands in for it. What rank 1 submits then must not touch the memory of the bucket.
TEST(EngineJoin, WhatIsSubmittedAfterwardsIsNotMixedWithAStandIn) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> a;
    std::vector<float> b;
    const auto submit = [&](float value) {
      a.assign(16384, value);
      b.assign(16384, value);
      std::vector operations = {allreduce("a", a), allreduce("b", b)};
      for (const auto& operation : operations) EXPECT_TRUE(engine.submit(operation).is_ok());
      return operations;
    };
    const auto wait = [&](const auto& operations, float sum) {
      for (const auto& operation : operations)
        ASSERT_TRUE(engine.wait(operation, std::chrono::seconds(30)).is_ok());
      EXPECT_EQ(a, std::vector<float>(a.size(), sum)) << "on rank " << engine.rank();
      EXPECT_EQ(b, std::vector<float>(b.size(), sum)) << "on rank " << engine.rank();
    };
    for (int step = 0; step < 3; ++step) wait(submit(1), 2);  // makes the bucket
    for (int round = 0; round < 10 && !testing::Test::HasFailure(); ++round) {
      const auto join = plain(OpKind::kJoin, "join");
      if (engine.rank() == 0) {
        const auto alone = submit(1);
        EXPECT_TRUE(submit_and_wait(engine, join).is_ok());
        wait(alone, 1);
      } else {
        EXPECT_TRUE(submit_and_wait(engine, join).is_ok());
      }
      wait(submit(5), 10);
    }
  });
}

}  // namespace
}  // namespace kolo
