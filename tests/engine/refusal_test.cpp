// A rank cannot take part in an operation, since an argument is wrong there: the others learn why,
// and the name is free again for all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "coordinator/negotiation_world.hpp"
#include "engine/engine_fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;

Descriptor refusing(const std::string& why, Descriptor descriptor = {}) {
  descriptor.refusal = why;
  return descriptor;
}

std::shared_ptr<Operation> refusal(const std::string& name, const std::string& why) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  operation->descriptor = refusing(why);
  return operation;
}

TEST(Refusal, FailsTheOperationOnEveryRank) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    World world(3, seed);
    for (int rank = 0; rank < 3; ++rank) {
      world.submit(rank, "w", rank == 1 ? refusing("it is sparse") : shape({4}));
      world.submit(rank, "fine");
    }
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(world.failures(rank)["w"].code(), StatusCode::kMismatch);
      EXPECT_THAT(world.failures(rank)["w"].message(),
                  HasSubstr("'w': rank 1 could not take part: it is sparse"));
      EXPECT_EQ(world.launches(rank).size(), 1U);
    }
  }
}

TEST(Refusal, OfSeveralRanksForSeveralReasons) {
  World world(3);
  world.submit(0, "w", refusing("no"));
  world.submit(1, "w", shape({4}));
  world.submit(2, "w", refusing("never"));
  world.deliver_all();
  EXPECT_THAT(world.failures(1)["w"].message(),
              HasSubstr("rank 0 could not take part: no; rank 2 could not take part: never"));
}

// The name comes back as if nothing had been, also from a bucket.
TEST(Refusal, OfAMemberOfABucket) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    World world(2, seed);
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
    for (int rank = 0; rank < 2; ++rank) {
      world.submit(rank, "a");
      world.submit(rank, "b", rank == 0 ? refusing("no") : shape({4}));
      world.submit(rank, "c");
    }
    world.deliver_all();
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(world.idle(rank));
      ASSERT_EQ(world.failures(rank).size(), 1U);
    }
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
    EXPECT_EQ(world.launches(0).back().size(), 3U);
  }
}

TEST(Refusal, OfASendConcernsTheTwoAlone) {
  Descriptor send = shape({4});
  send.kind = OpKind::kSend;
  send.root = 1;
  send.destination = 2;
  World world(3);
  world.submit(1, "m", send);
  world.submit(2, "m", refusing("no memory of that shape", send));
  world.deliver_all();
  EXPECT_THAT(world.failures(1)["m"].message(), HasSubstr("rank 2 could not take part"));
  EXPECT_TRUE(world.failures(0).empty());
  EXPECT_TRUE(world.idle(1) && world.idle(2));
}

TEST(Refusal, TheNextOfTheNameWaitsItsTurn) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<float> data(4, 1.0F);
      if (engine.rank() == 2) {
        ASSERT_TRUE(engine.submit(refusal("w", "no")).is_ok());
      } else {
        const Status status = submit_and_wait(engine, allreduce("w", data));
        EXPECT_THAT(status.message(), HasSubstr("rank 2 could not take part: no"));
      }
      ASSERT_TRUE(submit_and_wait(engine, allreduce("w", data)).is_ok());
      EXPECT_EQ(data, std::vector<float>(4, 3.0F));
    }
  });
}

TEST(Refusal, SeveralInARow) {
  std::atomic<bool> tried{false};  // the fourth, while the third is in flight
  on_all_ranks(2, [&tried](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    if (engine.rank() == 0) {
      EXPECT_TRUE(engine.submit(refusal("w", "first")).is_ok());
      EXPECT_TRUE(engine.submit(refusal("w", "second")).is_ok());
      const auto third = allreduce("w", data);
      EXPECT_TRUE(engine.submit(third).is_ok());
      std::vector<float> other(4, 1.0F);
      EXPECT_EQ(engine.submit(allreduce("w", other)).code(), StatusCode::kDuplicateName);
      tried = true;
      ASSERT_TRUE(engine.wait(third, std::chrono::seconds(30)).is_ok());
    } else {
      for (const char* why : {"first", "second"}) {
        EXPECT_THAT(submit_and_wait(engine, allreduce("w", data)).message(), HasSubstr(why));
      }
      while (!tried) std::this_thread::yield();
      ASSERT_TRUE(submit_and_wait(engine, allreduce("w", data)).is_ok());
    }
    EXPECT_EQ(data, std::vector<float>(4, 2.0F));
  });
}

// Nobody else ever comes: who waits in line ends with the engine.
TEST(Refusal, WhoWaitsInLineEndsAtShutDown) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    if (engine.rank() == 1) return;
    std::vector<float> data(4, 1.0F);
    const auto behind = allreduce("w", data);
    ASSERT_TRUE(engine.submit(refusal("w", "no")).is_ok());
    ASSERT_TRUE(engine.submit(refusal("w", "no")).is_ok());
    ASSERT_TRUE(engine.submit(behind).is_ok());
    std::thread waiter([&] {
      EXPECT_FALSE(engine.wait(behind, std::chrono::seconds(30)).is_ok());
      EXPECT_TRUE(behind->done());
    });
    engine.shut_down();
    waiter.join();
  });
}

TEST(Refusal, WhoWaitsInLineEndsWithALostPeer) {
  Engine::Options options = test_options();
  options.group.collective_timeout = std::chrono::milliseconds(200);
  options.shutdown_timeout = std::chrono::milliseconds(200);
  // In shared memory the work goes on when the program has ended.
  std::vector<std::vector<float>> large(2, std::vector<float>(20000, 1.0F));
  std::latch in_line(1);  // an engine that knows of the loss takes nothing more
  on_all_ranks(
      2,
      [&](Engine& engine, Transport& transport) {
        std::vector<float> data(4, 1.0F);
        const auto step = allreduce("step", large[engine.rank()]);
        const auto behind = allreduce("w", data);
        if (engine.rank() == 1) {
          in_line.wait();
          EXPECT_TRUE(engine.submit(step).is_ok());
          return kill_local_rank(transport, 1);
        }
        EXPECT_TRUE(engine.submit(step).is_ok());
        EXPECT_TRUE(engine.submit(refusal("w", "no")).is_ok());
        EXPECT_TRUE(engine.submit(behind).is_ok());
        in_line.count_down();
        EXPECT_EQ(engine.wait(behind, std::chrono::seconds(30)).code(), StatusCode::kPeerLost);
      },
      options);
}

}  // namespace
}  // namespace kolo
