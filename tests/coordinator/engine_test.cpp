// The whole engine, with its thread, over the local backend: ranks are threads of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <numeric>
#include <random>

#include "coordinator/engine_fixture.hpp"

namespace kolo {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(Engine, Allreduce) {
  for (const int size : {1, 2, 3, 4}) {
    on_all_ranks(size, [](Engine& engine, Transport&) {
      for (const std::size_t count : {1, 10, 5000}) {
        std::vector<float> data(count, static_cast<float>(engine.rank() + 1));
        const Status status = submit_and_wait(
            engine, allreduce("a" + std::to_string(count), data, ReduceOp::Average));
        ASSERT_TRUE(status.is_ok()) << status.message();
        const float mean = static_cast<float>(engine.size() + 1) / 2.0F;
        EXPECT_EQ(data, std::vector<float>(count, mean));
      }
    });
  }
}

TEST(Engine, PrescaleAndPostscale) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    for (int repeat = 0; repeat < 5; ++repeat) {  // alone at first, then in a bucket
      std::vector<std::vector<float>> data(2, std::vector<float>(10, 1.0F));
      std::vector<std::shared_ptr<Operation>> operations;
      for (int i = 0; i < 2; ++i) {
        operations.push_back(allreduce("t" + std::to_string(i), data[i]));
        operations.back()->descriptor.prescale = 2;
        operations.back()->descriptor.postscale = 0.25;
        ASSERT_TRUE(engine.submit(operations.back()).is_ok());
      }
      for (const auto& operation : operations)
        ASSERT_TRUE(engine.wait(operation, std::nullopt).is_ok());
      for (const auto& values : data) EXPECT_EQ(values, std::vector<float>(10, 1.5F));
    }
  });
}

// Steps of many tensors, small and large, each rank in an order of its own. Sums must be right in
// every step: alone, while buckets form, and in buckets.
TEST(Engine, ManyTensorsInDifferentOrders) {
  for (const int size : {1, 2, 3, 4}) {
    on_all_ranks(size, [](Engine& engine, Transport&) {
      constexpr int kTensors = 40;
      std::mt19937 random(static_cast<unsigned>(engine.rank()));
      std::vector<int> order(kTensors);
      std::iota(order.begin(), order.end(), 0);
      for (int step = 0; step < 6; ++step) {
        std::vector<std::vector<float>> data;
        std::vector<std::shared_ptr<Operation>> operations;
        for (int i = 0; i < kTensors; ++i) {
          const std::size_t count = i % 10 == 0 ? 50000 : 1 + static_cast<std::size_t>(i) * 13;
          data.emplace_back(count, static_cast<float>(engine.rank() + i + step));
          operations.push_back(allreduce("tensor" + std::to_string(i), data.back()));
        }
        std::shuffle(order.begin(), order.end(), random);
        for (const int i : order) ASSERT_TRUE(engine.submit(operations[i]).is_ok());
        for (const int i : order) {
          const Status status = engine.wait(operations[i], std::chrono::seconds(30));
          ASSERT_TRUE(status.is_ok()) << status.message();
          const auto n = static_cast<float>(engine.size());
          const float sum = n * (n - 1) / 2 + n * static_cast<float>(i + step);
          ASSERT_EQ(data[i], std::vector<float>(data[i].size(), sum))
              << "step " << step << " tensor " << i;
        }
      }
    });
  }
}

// Inexact sums of three ranks: in which bucket and at which place a tensor is reduced changes its
// last bits. Two runs, with other timing, must give the same.
TEST(Engine, TwoRunsGiveTheSameBits) {
  const auto run = [](unsigned seed) {
    std::vector<std::vector<float>> result;
    on_all_ranks(3, [&](Engine& engine, Transport&) {
      std::mt19937 random(seed + static_cast<unsigned>(engine.rank()));
      std::vector<std::vector<float>> data;
      for (int i = 0; i < 12; ++i) {
        data.emplace_back(300 + i * 50);
        for (std::size_t k = 0; k < data.back().size(); ++k) {
          data.back()[k] = 1.0F / static_cast<float>(
                                      1 + k * 7 + static_cast<std::size_t>(i + engine.rank() * 3));
        }
      }
      for (int step = 0; step < 8; ++step) {
        std::vector<std::shared_ptr<Operation>> operations;
        for (int i = 0; i < 12; ++i) {
          operations.push_back(allreduce("t" + std::to_string(i), data[i], ReduceOp::Average));
          ASSERT_TRUE(engine.submit(operations.back()).is_ok());
          if (random() % 3 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
        }
        for (const auto& operation : operations)
          ASSERT_TRUE(engine.wait(operation, std::nullopt).is_ok());
        for (auto& values : data) {
          for (float& value : values)
            value = value * 1.3F + 0.1F * static_cast<float>(engine.rank());
        }
      }
      if (engine.rank() == 0) result = data;
    });
    return result;
  };
  const auto first = run(1);
  for (unsigned seed = 2; seed < 6; ++seed) EXPECT_EQ(run(seed * 100), first);
}

TEST(Engine, Broadcast) {
  on_all_ranks(4, [](Engine& engine, Transport&) {
    for (int root = 0; root < engine.size(); ++root) {
      std::vector<float> data(3000, static_cast<float>(engine.rank()));
      const auto operation = allreduce("b", data);
      operation->descriptor.kind = OpKind::kBroadcast;
      operation->descriptor.root = root;
      const Status status = submit_and_wait(engine, operation);
      ASSERT_TRUE(status.is_ok()) << status.message();
      EXPECT_EQ(data, std::vector<float>(3000, static_cast<float>(root)));
    }
  });
}

TEST(Engine, AMismatchFailsOneTensorOnEveryRank) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<float> data(engine.rank() == 2 ? 5 : 4, 1.0F);
      const Status status = submit_and_wait(engine, allreduce("w", data));
      EXPECT_EQ(status.code(), StatusCode::kMismatch);
      EXPECT_THAT(status.message(), HasSubstr("'w': shape: [4] on ranks 0, 1; [5] on rank 2"));
      std::vector<float> fine(4, 1.0F);
      EXPECT_TRUE(submit_and_wait(engine, allreduce("w", fine)).is_ok());
      EXPECT_EQ(fine, std::vector<float>(4, 3.0F));
    }
  });
}

TEST(Engine, ANameInFlightIsRefused) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    std::vector<float> other(4, 1.0F);
    std::vector<float> go(1, 0.0F);
    // Rank 1 comes only after rank 0 has tried twice.
    if (engine.rank() == 1) {
      ASSERT_TRUE(submit_and_wait(engine, allreduce("go", go)).is_ok());
    }
    const auto first = allreduce("twice", data);
    ASSERT_TRUE(engine.submit(first).is_ok());
    if (engine.rank() == 0) {
      const Status status = engine.submit(allreduce("twice", other));
      EXPECT_EQ(status.code(), StatusCode::kDuplicateName);
      EXPECT_THAT(status.message(), HasSubstr("'twice'"));
      ASSERT_TRUE(submit_and_wait(engine, allreduce("go", go)).is_ok());
    }
    ASSERT_TRUE(engine.wait(first, std::nullopt).is_ok());
    EXPECT_EQ(data, std::vector<float>(4, 2.0F));
    ASSERT_TRUE(submit_and_wait(engine, allreduce("twice", other)).is_ok());
  });
}

TEST(Engine, AWaitCanTimeOutAndGoOn) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    const auto operation = allreduce("late", data);
    if (engine.rank() == 1) std::this_thread::sleep_for(milliseconds(300));
    ASSERT_TRUE(engine.submit(operation).is_ok());
    if (engine.rank() == 0) {
      const Status status = engine.wait(operation, milliseconds(20));
      EXPECT_EQ(status.code(), StatusCode::kTimeout);
      EXPECT_THAT(status.message(), HasSubstr("'late'"));
      EXPECT_FALSE(engine.ready(operation));
    }
    ASSERT_TRUE(engine.wait(operation, std::nullopt).is_ok());
    EXPECT_TRUE(engine.ready(operation));
    EXPECT_EQ(data, std::vector<float>(4, 2.0F));
  });
}

TEST(Engine, HandlesMayBeDropped) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    // The data must outlive the operations: kept alive by them.
    for (int i = 0; i < 50; ++i) {
      auto data = std::make_shared<std::vector<float>>(100, 1.0F);
      const auto operation = allreduce("dropped" + std::to_string(i), *data);
      operation->keep_alive = data;
      ASSERT_TRUE(engine.submit(operation).is_ok());
    }
  });
}

TEST(Engine, SubmissionsAfterShutDownAreRefused) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    const auto before = allreduce("before", data);
    ASSERT_TRUE(engine.submit(before).is_ok());
    engine.shut_down();
    EXPECT_TRUE(engine.wait(before, std::nullopt).is_ok()) << "every rank had submitted it";
    EXPECT_EQ(data, std::vector<float>(4, 2.0F));
    const Status status = engine.submit(allreduce("after", data));
    EXPECT_EQ(status.code(), StatusCode::kNotInitialized);
    EXPECT_THAT(status.message(), HasSubstr("shut down"));
  });
}

TEST(Engine, ARankThatLeavesEarlyFailsTheOthers) {
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

// A process that dies says nothing. The others notice when they next need it.
TEST(Engine, ALostPeerEndsEverythingInFlight) {
  for (const int victim : {0, 1, 2}) {
    Engine::Options options = test_options();
    options.group.collective_timeout = milliseconds(500);
    options.shutdown_timeout = milliseconds(500);
    on_all_ranks(
        3,
        [&](Engine& engine, Transport& transport) {
          std::vector<float> data(20000, 1.0F);
          ASSERT_TRUE(submit_and_wait(engine, allreduce("step 1", data)).is_ok());
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
TEST(Engine, NothingIsForgottenWhenAPeerIsLostAmidSubmissions) {
  Engine::Options options = test_options();
  options.shutdown_timeout = milliseconds(500);
  for (int round = 0; round < 5; ++round) {
    on_all_ranks(
        2,
        [&](Engine& engine, Transport& transport) {
          std::vector<float> data(20000, 1.0F);
          ASSERT_TRUE(submit_and_wait(engine, allreduce("step 1", data)).is_ok());
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
            ASSERT_EQ(engine.wait(operation, std::chrono::seconds(20)).code(),
                      StatusCode::kPeerLost);
          }
        },
        options);
  }
}

TEST(Engine, AWaitInsideABucketLetsItGo) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> a(4, 1.0F);
    std::vector<float> b(4, 1.0F);
    for (int step = 0; step < 8; ++step) {
      std::fill(a.begin(), a.end(), 1.0F);
      const auto first = allreduce("a", a);
      const auto second = allreduce("b", b);
      ASSERT_TRUE(engine.submit(first).is_ok());
      // From step 4 on the program waits between them, though it did not before.
      if (step >= 4) {
        ASSERT_TRUE(engine.wait(first, std::chrono::seconds(20)).is_ok());
      }
      ASSERT_TRUE(engine.submit(second).is_ok());
      ASSERT_TRUE(engine.wait(second, std::chrono::seconds(20)).is_ok());
      ASSERT_TRUE(engine.wait(first, std::chrono::seconds(20)).is_ok());
      EXPECT_EQ(a, std::vector<float>(4, 2.0F));
    }
  });
}

// Messages may still be under way when an engine has failed: what they read and write outlives it.
TEST(Engine, AfterAFailureNothingIsFreedThatAMessageMayUse) {
  Engine::Options options = test_options();
  options.group.collective_timeout = milliseconds(300);
  options.shutdown_timeout = milliseconds(500);
  options.submitters_drive = false;  // which might end the large one before it is stopped
  std::weak_ptr<std::vector<float>> data_of_rank_0;
  on_all_ranks(
      2,
      [&](Engine& engine, Transport&) {
        auto data = std::make_shared<std::vector<float>>(1 << 22, 1.0F);
        std::vector<float> small(1, 1.0F);
        const auto large = allreduce("large", *data);
        large->keep_alive = std::move(data);
        const auto stopper = allreduce("stopper", small);
        if (engine.rank() == 0) {
          data_of_rank_0 = std::static_pointer_cast<std::vector<float>>(large->keep_alive);
        } else {  // stops this rank's engine amid the large one
          stopper->finish = [] { std::this_thread::sleep_for(milliseconds(1500)); };
        }
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

// More of them than there are channels in shared memory, while the large one has its own.
TEST(Engine, ManySmallOnesPassALargeOne) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    constexpr std::size_t kSmall = 600;
    std::vector<float> large(1 << 23, 1.0F);
    std::vector<std::vector<float>> small(kSmall);
    std::vector<std::shared_ptr<Operation>> operations = {allreduce("large", large)};
    for (std::size_t i = 0; i < kSmall; ++i) {
      small[i].assign(3, static_cast<float>(i));
      operations.push_back(allreduce("small" + std::to_string(i), small[i]));
    }
    for (const auto& operation : operations) ASSERT_TRUE(engine.submit(operation).is_ok());
    for (const auto& operation : operations)
      ASSERT_TRUE(engine.wait(operation, std::chrono::seconds(20)).is_ok()) << operation->name;
    for (std::size_t i = 0; i < kSmall; ++i)
      ASSERT_EQ(small[i], std::vector<float>(3, static_cast<float>(2 * i)));
    ASSERT_EQ(std::count(large.begin(), large.end(), 2.0F), std::ssize(large));
  });
}

// Where ranks share memory nobody but its lifeline tells that a peer is dead; that of a rank which
// takes no part means nothing.
TEST(Engine, ADeadPeerIsNoticedInSharedMemory) {
  constexpr int kRanks = 3;
  auto transports = make_local_transports(kRanks);
  const auto nodes = shm::make_local_nodes(kRanks, 1 << 30);
  int of_1[2];
  int of_2[2];
  ASSERT_EQ(pipe(of_1), 0);
  ASSERT_EQ(pipe(of_2), 0);
  nodes[0]->keep({}, {-1, of_1[0], of_2[0]}, -1);
  close(of_2[1]);
  EXPECT_EQ(nodes[0]->lost_rank({0, 1}), std::nullopt);
  EXPECT_EQ(nodes[0]->lost_rank({0, 1, 2}), 2);
  EXPECT_EQ(nodes[1]->lost_rank({0, 1, 2}), std::nullopt) << "has no lifelines";
  Engine::Options options = test_options();
  options.shutdown_timeout = milliseconds(500);
  options.submitters_drive = false;  // which might end the large one before it is stopped
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Engine engine(std::move(transports[rank]), nodes[rank], options);
      const auto add = plain(OpKind::kAddProcessSet, "add");
      add->descriptor.tensors = {{DType::kInt64, {0, 1}}};
      add->tensors.emplace_back();
      ASSERT_TRUE(submit_and_wait(engine, add).is_ok());
      if (rank == 2) return;
      std::vector<float> data(1 << 22, 1.0F);
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
TEST(Engine, ARankThatDiesBeforeItSubmitsIsNoticedInSharedMemory) {
  constexpr int kRanks = 3;
  auto transports = make_local_transports(kRanks);
  const auto nodes = shm::make_local_nodes(kRanks, 1 << 30);
  int lifeline[2];
  ASSERT_EQ(pipe(lifeline), 0);
  nodes[1]->keep({}, {-1, -1, lifeline[0]}, -1);
  Engine::Options options = test_options();
  options.shutdown_timeout = milliseconds(200);
  std::atomic<int> waiting = kRanks - 1;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Engine engine(std::move(transports[rank]), nodes[rank], options);
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
TEST(Engine, OthersLearnThatARankHasLeftWhileRank0IsBusy) {
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

// Nobody in this process waits for the tensor, so only the timer can let it go; also while the
// program goes on with others.
TEST(Engine, AHeldTensorIsLetGoAfterTheHoldTime) {
  Engine::Options options = test_options();
  options.group.fusion_hold = milliseconds(50);
  on_all_ranks(
      2,
      [](Engine& engine, Transport&) {
        std::vector<float> a(4, 1.0F);
        std::vector<float> b(4, 1.0F);
        for (int step = 0; step < 3; ++step) {
          const auto first = allreduce("a", a);
          const auto second = allreduce("b", b);
          ASSERT_TRUE(engine.submit(first).is_ok());
          ASSERT_TRUE(engine.submit(second).is_ok());
          ASSERT_TRUE(engine.wait(first, std::nullopt).is_ok());
          ASSERT_TRUE(engine.wait(second, std::nullopt).is_ok());
        }
        const auto alone = allreduce("a", a);
        ASSERT_TRUE(engine.submit(alone).is_ok());
        const Clock::time_point deadline = Clock::now() + std::chrono::seconds(10);
        bool done = false;
        for (int i = 0; !done && Clock::now() < deadline; ++i) {
          done = alone->done();
          std::vector<float> other(1, done ? 1.0F : 0.0F);
          ASSERT_TRUE(submit_and_wait(engine, allreduce("other", other, ReduceOp::Min)).is_ok());
          done = other[0] == 1.0F;  // on all ranks
          std::this_thread::sleep_for(milliseconds(5));
        }
        EXPECT_TRUE(done);
      },
      options);
}

TEST(Engine, ThreadsOfTheProgramMaySubmitAtTheSameTime) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&engine, t] {
        for (int i = 0; i < 30; ++i) {
          std::vector<float> data(100, static_cast<float>(t + i));
          const Status status =
              submit_and_wait(engine, allreduce("thread" + std::to_string(t), data));
          ASSERT_TRUE(status.is_ok()) << status.message();
          ASSERT_EQ(data, std::vector<float>(100, 2.0F * static_cast<float>(t + i)));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Engine, IdleItUsesNoCpu) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    ASSERT_TRUE(submit_and_wait(engine, allreduce("before", data)).is_ok());
    if (engine.rank() != 0) {
      std::this_thread::sleep_for(milliseconds(600));
      return;
    }
    std::this_thread::sleep_for(milliseconds(50));
    const std::clock_t begin = std::clock();  // of the whole process: both engines
    std::this_thread::sleep_for(milliseconds(400));
    const double used = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(used, 0.02);
    std::this_thread::sleep_for(milliseconds(150));
  });
}

TEST(Engine, AbsentTensorsGiveZerosOrNothing) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    for (int step = 0; step < 5; ++step) {
      std::vector<float> nobody(4, 7.0F);
      std::vector<float> one(4, engine.rank() == 0 ? 5.0F : 7.0F);
      const auto a = allreduce("nobody", nobody, ReduceOp::Average);
      const auto b = allreduce("one", one, ReduceOp::Average);
      a->absent = true;
      b->absent = engine.rank() == 1;
      ASSERT_TRUE(engine.submit(a).is_ok());
      ASSERT_TRUE(engine.submit(b).is_ok());
      ASSERT_TRUE(engine.wait(a, std::nullopt).is_ok());
      ASSERT_TRUE(engine.wait(b, std::nullopt).is_ok());
      EXPECT_TRUE(a->absent_everywhere());
      EXPECT_FALSE(b->absent_everywhere());
      EXPECT_EQ(nobody, std::vector<float>(4, 7.0F)) << "untouched";
      EXPECT_EQ(one, std::vector<float>(4, 2.5F)) << "step " << step;
    }
  });
}

}  // namespace
}  // namespace kolo
