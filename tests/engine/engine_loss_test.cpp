// Ranks that leave, die or stop, and what the others see of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <latch>

#include "core/launched.hpp"
#include "engine/engine_fixture.hpp"
#include "engine/holding.hpp"

namespace kolo {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(EngineLoss, ARankThatLeavesEarlyFailsTheOthers) {
  for (const int leaver : {0, 1, 2}) {
    on_all_ranks(3, [&](Engine& engine, Transport&) {
      std::vector<float> data(4, 1.0F);
      ASSERT_TRUE(submit_and_wait(engine, allreduce("step 1", data)).is_ok());
      if (engine.rank() == leaver) return;  // ~Engine shuts down
      const Clock::time_point begin = Clock::now();
      const Status status = submit_and_wait(engine, allreduce("step 2", data));
      EXPECT_EQ(status.code(), StatusCode::kPeerLost);
      // The one that left first is blamed, not the other survivor, which leaves after its error.
      EXPECT_THAT(status.message(),
                  HasSubstr("rank " + std::to_string(leaver) +
                            " shut kolo down or exited before submitting tensor 'step 2'"));
      EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
      EXPECT_EQ(submit_and_wait(engine, allreduce("step 3", data)).code(), StatusCode::kPeerLost);
    });
  }
}

// kolo-rank learns of a lost peer before the program does, so that kolo run blames the lost rank.
// It learns nothing of an operation that fails for another reason.
TEST(EngineLoss, KoloRankIsToldBeforeTheProgram) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, kLostPeerSignal);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  ASSERT_EQ(::setenv(kRankProcessVariable, std::to_string(::getpid()).c_str(), 1), 0);
  const auto is_told = [&] {
    const timespec no_time{};
    return ::sigtimedwait(&set, nullptr, &no_time) == kLostPeerSignal;
  };
  on_all_ranks(2, [&](Engine& engine, Transport&) {
    std::vector<float> data(engine.rank() == 0 ? 4 : 5, 1.0F);
    EXPECT_EQ(submit_and_wait(engine, allreduce("of two sizes", data)).code(),
              StatusCode::kMismatch);
    if (engine.rank() == 1) return;
    EXPECT_FALSE(is_told());
    EXPECT_EQ(submit_and_wait(engine, allreduce("of one rank", data)).code(),
              StatusCode::kPeerLost);
    EXPECT_TRUE(is_told());
  });
  EXPECT_EQ(::unsetenv(kRankProcessVariable), 0);
}

// A process that dies says nothing. The others notice when they next need it.
TEST(EngineLoss, ALostPeerEndsEverythingInFlight) {
  for (const int victim : {0, 1, 2}) {
    Engine::Options options = test_options();
    options.group.collective_timeout = milliseconds(500);
    options.shutdown_timeout = milliseconds(500);
    std::latch step_1_is_over(3);  // the victim's end of it may come before the others'
    on_all_ranks(
        3,
        [&](Engine& engine, Transport& transport) {
          std::vector<float> data(20000, 1.0F);
          const Status first = submit_and_wait(engine, allreduce("step 1", data));
          step_1_is_over.arrive_and_wait();
          ASSERT_TRUE(first.is_ok()) << first.message();
          if (engine.rank() == victim) {
            kill_local_rank(transport, victim);
            return;
          }
          std::this_thread::sleep_for(milliseconds(50));
          const auto operation = allreduce("step 2", data);
          const Clock::time_point begin = Clock::now();
          const Status submitted = engine.submit(operation);
          if (submitted.is_ok()) {
            const Status status = engine.wait(operation, std::chrono::seconds(20));
            EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
          }
          EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
        },
        options);
  }
}

// Submissions that the engine accepts in the very moment in which it breaks must end, too.
TEST(EngineLoss, NothingIsForgottenWhenAPeerIsLostAmidSubmissions) {
  Engine::Options options = test_options();
  options.shutdown_timeout = milliseconds(500);
  for (int round = 0; round < 5; ++round) {
    std::latch step_1_is_over(2);  // the victim's end of it may come before the other's
    on_all_ranks(
        2,
        [&](Engine& engine, Transport& transport) {
          std::vector<float> data(20000, 1.0F);
          const Status first = submit_and_wait(engine, allreduce("step 1", data));
          step_1_is_over.arrive_and_wait();
          ASSERT_TRUE(first.is_ok()) << first.message();
          if (engine.rank() == 1) {
            kill_local_rank(transport, 1);
            return;
          }
          std::vector<std::shared_ptr<Operation>> accepted;
          std::vector<std::vector<float>> buffers(3000, std::vector<float>(8, 1.0F));
          for (std::size_t i = 0; i < buffers.size(); ++i) {
            accepted.push_back(allreduce("t" + std::to_string(i), buffers[i]));
            if (!engine.submit(accepted.back()).is_ok()) {
              accepted.pop_back();
              break;
            }
          }
          for (const auto& operation : accepted) {
            const Status status = engine.wait(operation, std::chrono::seconds(20));
            ASSERT_EQ(status.code(), StatusCode::kPeerLost)
                << operation->name << ": " << status.message();
          }
        },
        options);
  }
}

// Messages may still be under way when an engine has failed: what they read and write outlives it.
TEST(EngineLoss, AfterAFailureNothingIsFreedThatAMessageMayUse) {
  Engine::Options options = test_options();
  options.group.collective_timeout = milliseconds(300);
  options.shutdown_timeout = milliseconds(500);
  options.submitters_drive = false;  // which might end the large one before it is stopped
  std::weak_ptr<std::vector<float>> data_of_rank_0;
  on_all_ranks(
      2,
      [&](Engine& engine, Transport&) {
        // Large enough that a thread may lose its core between the two submissions.
        auto data = std::make_shared<std::vector<float>>(1 << 24, 1.0F);
        std::vector<float> small(1, 1.0F);
        const auto large = allreduce("large", *data);
        const auto stopper = allreduce("stopper", small);
        if (engine.rank() == 0) {
          data_of_rank_0 = data;
        } else {  // stops this rank's engine amid the large one
          stopper->finish = [] { std::this_thread::sleep_for(milliseconds(1500)); };
        }
        large->holder = std::make_unique<Holding<std::vector<float>>>(std::move(data));
        ASSERT_TRUE(engine.submit(large).is_ok());
        ASSERT_TRUE(engine.submit(stopper).is_ok());
        EXPECT_TRUE(engine.wait(stopper, std::chrono::seconds(20)).is_ok());
        const Status status = engine.wait(large, std::chrono::seconds(20));
        EXPECT_EQ(status.code(), StatusCode::kPeerLost);
        EXPECT_FALSE(engine.shut_down()) << "says that it failed";
      },
      options);
  EXPECT_FALSE(data_of_rank_0.expired());
}

// The lifelines of one of three ranks. `peers` holds the reading end for each rank, or -1.
std::shared_ptr<Lifelines> lifelines_to(const std::vector<int>& peers) {
  std::vector<Lifelines::Peer> all;
  for (int rank = 0; rank < 3; ++rank) all.push_back({rank, peers[static_cast<std::size_t>(rank)]});
  return std::make_shared<Lifelines>(std::move(all), -1);
}

// A lifeline shows that a peer is dead, whether or not the ranks share memory. The end of a rank
// that takes no part in the operation has no effect.
class EngineLifelines : public testing::TestWithParam<bool> {
 protected:
  static constexpr int kRanks = 3;
  static std::vector<std::shared_ptr<shm::Node>> nodes() {
    if (GetParam()) return shm::make_local_nodes(kRanks, 1 << 30);
    return std::vector<std::shared_ptr<shm::Node>>(kRanks);
  }
};
INSTANTIATE_TEST_SUITE_P(, EngineLifelines, testing::Bool(), [](const auto& tested) {
  return tested.param ? "SharedMemory" : "Messages";
});

TEST_P(EngineLifelines, ADeadPeerIsNoticed) {
  auto transports = make_local_transports(kRanks);
  const auto nodes = EngineLifelines::nodes();
  int of_1[2];
  int of_2[2];
  ASSERT_EQ(pipe(of_1), 0);
  ASSERT_EQ(pipe(of_2), 0);
  const auto lifelines_of_0 = lifelines_to({-1, of_1[0], of_2[0]});
  close(of_2[1]);
  Engine::Options options = test_options();
  options.shutdown_timeout = milliseconds(500);
  options.submitters_drive = false;  // which might end the large one before it is stopped
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Engine::Options own = options;
      if (rank == 0) own.group.lifelines = lifelines_of_0;
      Engine engine(std::move(transports[rank]), nodes[rank], own);
      const auto add = plain(OpKind::kAddProcessSet, "add");
      add->descriptor.tensors = {{DType::kInt64, {0, 1}}};
      add->tensors.emplace_back();
      ASSERT_TRUE(submit_and_wait(engine, add).is_ok());
      if (rank == 2) return;
      // Takes longer than a thread may be kept from submitting the next one.
      std::vector<float> data(1 << 25, 1.0F);
      std::vector<float> small(1, 1.0F);
      const auto large = allreduce("large", data);
      const auto stopper = allreduce("stopper", small);
      large->process_set = stopper->process_set = add->number;
      if (rank == 1) {
        stopper->finish = [&] {
          std::this_thread::sleep_for(milliseconds(1500));
          close(of_1[1]);
          std::this_thread::sleep_for(milliseconds(2500));
        };
      }
      const Clock::time_point begin = Clock::now();
      ASSERT_TRUE(engine.submit(large).is_ok());
      ASSERT_TRUE(engine.submit(stopper).is_ok());
      const Status status = engine.wait(large, std::chrono::seconds(20));
      EXPECT_EQ(status.code(), StatusCode::kPeerLost);
      if (rank == 1) return;
      EXPECT_THAT(status.message(), testing::HasSubstr("the process of rank 1 has ended"));
      EXPECT_GT(Clock::now() - begin, milliseconds(1400)) << "not while only rank 2 had ended";
      EXPECT_LT(Clock::now() - begin, milliseconds(3500));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Rank 2 dies before it has submitted what the others wait for.
TEST_P(EngineLifelines, ARankThatDiesBeforeItSubmitsIsNoticed) {
  auto transports = make_local_transports(kRanks);
  const auto nodes = EngineLifelines::nodes();
  int lifeline[2];
  ASSERT_EQ(pipe(lifeline), 0);
  const auto lifelines_of_1 = lifelines_to({-1, -1, lifeline[0]});
  Engine::Options options = test_options();
  options.shutdown_timeout = milliseconds(200);
  std::atomic<int> waiting = kRanks - 1;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Engine::Options own = options;
      if (rank == 1) own.group.lifelines = lifelines_of_1;
      Engine engine(std::move(transports[rank]), nodes[rank], own);
      std::vector<float> data(4, 1.0F);
      ASSERT_TRUE(submit_and_wait(engine, allreduce("step 1", data)).is_ok());
      if (rank == 2) {
        close(lifeline[1]);
        while (waiting > 0) std::this_thread::sleep_for(milliseconds(10));
        return;
      }
      const Clock::time_point begin = Clock::now();
      const Status status = submit_and_wait(engine, allreduce("step 2", data));
      EXPECT_EQ(status.code(), StatusCode::kPeerLost);
      EXPECT_THAT(status.message(), testing::HasSubstr("the process of rank 2 has ended"));
      EXPECT_LT(Clock::now() - begin, milliseconds(3500));
      --waiting;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Rank 0, which coordinates, computes for long and submits nothing.
TEST(EngineLoss, OthersLearnThatARankHasLeftWhileRank0IsBusy) {
  std::atomic<bool> rank_2_is_done = false;
  on_all_ranks(3, [&](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    ASSERT_TRUE(submit_and_wait(engine, allreduce("step 1", data)).is_ok());
    if (engine.rank() == 1) return;
    if (engine.rank() == 2) {
      const auto operation = allreduce("step 2", data);
      ASSERT_TRUE(engine.submit(operation).is_ok());
      EXPECT_EQ(engine.wait(operation, std::chrono::seconds(10)).code(), StatusCode::kPeerLost);
      rank_2_is_done = true;
      return;
    }
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(15);
    while (!rank_2_is_done && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_TRUE(rank_2_is_done);
  });
}

// Rank 0 is there, but reads nothing: what is to be told to it finds no room.
TEST(EngineLoss, APeerThatReadsNothingHoldsNoShutdownUp) {
  auto transports = make_local_transports(2);
  std::vector<int> numbers;
  const auto nodes = make_nodes(2, numbers);
  Engine::Options options = test_options();
  options.shutdown_timeout = milliseconds(200);
  std::vector<std::vector<float>> data(3000, std::vector<float>(4, 1.0F));
  const Clock::time_point begin = Clock::now();
  std::vector<std::shared_ptr<Operation>> operations;
  {
    Engine engine(std::move(transports[1]), nodes[1], options);
    for (std::size_t i = 0; i < data.size(); ++i) {
      operations.push_back(allreduce("a tensor with number " + std::to_string(i), data[i]));
      ASSERT_TRUE(engine.submit(operations.back()).is_ok());
    }
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  for (const auto& operation : operations) {
    ASSERT_TRUE(operation->done()) << operation->name;
    ASSERT_FALSE(operation->status().is_ok());
  }
}

}  // namespace
}  // namespace kolo
