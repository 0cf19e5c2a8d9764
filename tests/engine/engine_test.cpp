// The whole engine, with its thread, over the local backend: ranks are threads of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <numeric>
#include <random>
#include <thread>

#include "engine/engine_fixture.hpp"
#include "engine/holding.hpp"

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

// The thread that waits holds the seat while it rests, too. A visitor must not wait for its
// operation, which may need what the visitor's own thread does next.
TEST(Engine, AVisitorDoesNotWaitForAnOperationThatAnotherThreadWaitsFor) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    const auto operation = allreduce("w", data);
    std::thread waits;
    if (engine.rank() == 0) {
      ASSERT_TRUE(engine.submit(operation).is_ok());
      waits = std::thread([&] { EXPECT_TRUE(engine.wait(operation, std::nullopt).is_ok()); });
      std::this_thread::sleep_for(milliseconds(20));
    }
    for (int i = 0; i < 20; ++i) engine.visit([] {});
    std::vector<float> go(1, 0.0F);
    EXPECT_TRUE(submit_and_wait(engine, allreduce("go", go)).is_ok());
    if (engine.rank() == 1) {
      EXPECT_TRUE(submit_and_wait(engine, operation).is_ok());
    } else {
      waits.join();
    }
  });
}

TEST(Engine, HandlesMayBeDropped) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    // The data must outlive the operations: kept alive by them.
    for (int i = 0; i < 50; ++i) {
      auto data = std::make_shared<std::vector<float>>(100, 1.0F);
      const auto operation = allreduce("dropped" + std::to_string(i), *data);
      operation->holder = std::make_unique<Holding<std::vector<float>>>(data);
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

TEST(Engine, AMemberOfABucketThatCannotBeFinishedFailsAlone) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> a(4);
    std::vector<float> b(4);
    for (int step = 0; step < 8; ++step) {
      const bool throws = step % 2 == 1;
      const auto first = allreduce("a", a);
      const auto second = allreduce("b", b);
      bool finished = false;
      first->finish = [&] {
        finished = true;
        if (throws) throw std::runtime_error("no memory");
      };
      ASSERT_TRUE(engine.submit(first).is_ok());
      ASSERT_TRUE(engine.submit(second).is_ok());
      const Status status = engine.wait(first, std::chrono::seconds(20));
      EXPECT_EQ(status.is_ok(), !throws);
      if (throws) {
        EXPECT_THAT(status.message(), HasSubstr("'a': no memory"));
      }
      EXPECT_TRUE(finished);
      EXPECT_TRUE(engine.wait(second, std::chrono::seconds(20)).is_ok());
    }
  });
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

// Rank 1's program submits and then waits in a way that the engine knows nothing of. (Rank 0's
// would not do: over messages a coordinator looks around at times in any case.)
TEST(Engine, WhatWasSubmittedGoesOnWithoutItsThread) {
  constexpr int kRounds = 3000;
  std::atomic<int> ended = 0;
  on_all_ranks(2, [&](Engine& engine, Transport&) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float> data(4, 1.0F);
      const auto operation = allreduce("step", data);
      ASSERT_TRUE(engine.submit(operation).is_ok());
      if (engine.rank() == 0) {
        ASSERT_TRUE(engine.wait(operation, std::chrono::seconds(20)).is_ok()) << round;
        ended = round + 1;
        continue;
      }
      const Clock::time_point deadline = Clock::now() + std::chrono::seconds(15);
      while (ended <= round && Clock::now() < deadline) std::this_thread::yield();
      ASSERT_GT(ended, round) << "nobody has looked after what was submitted";
      ASSERT_TRUE(engine.wait(operation, std::chrono::seconds(20)).is_ok());
    }
  });
}

// The thread sanitizer has a thread of its own, which looks ten times a second.
#ifdef __SANITIZE_THREAD__
constexpr long kSleepsOfOthers = 12;
#else
constexpr long kSleepsOfOthers = 0;
#endif

long sleeps_of_this_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

// Afterwards the engine's thread goes on, or another thread of the program that has waited
// meanwhile.
TEST(Engine, AThreadThatWaitsForSeveralLeavesNothingBehind) {
  for (const bool another_waits : {false, true}) {
    on_all_ranks(2, [&](Engine& engine, Transport&) {
      std::vector<std::vector<float>> data(3, std::vector<float>(10, 1.0F));
      std::vector<std::shared_ptr<Operation>> operations;
      for (int i = 0; i < 3; ++i) operations.push_back(allreduce("t" + std::to_string(i), data[i]));
      const bool is_late = engine.rank() == 1;
      for (int i = 0; i < (is_late ? 2 : 3); ++i) ASSERT_TRUE(engine.submit(operations[i]).is_ok());
      std::thread another;
      {
        const Engine::WaitsForSeveral waits(engine);
        ASSERT_TRUE(engine.wait(operations[0], std::nullopt).is_ok());
        if (!is_late && another_waits) {
          another = std::thread([&] { EXPECT_TRUE(engine.wait(operations[2], {}).is_ok()); });
        }
        ASSERT_TRUE(engine.wait(operations[1], std::nullopt).is_ok());
      }
      std::this_thread::sleep_for(milliseconds(50));
      if (is_late) {
        ASSERT_TRUE(engine.submit(operations[2]).is_ok());
      }
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!operations[2]->done() && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(milliseconds(1));
      EXPECT_TRUE(operations[2]->done());
      if (another.joinable()) another.join();
      for (const auto& values : data) EXPECT_EQ(values, std::vector<float>(10, 2.0F));
    });
  }
}

TEST(Engine, IdleItUsesNoCpu) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    ASSERT_TRUE(submit_and_wait(engine, allreduce("before", data)).is_ok());
    if (engine.rank() != 0) {
      std::this_thread::sleep_for(milliseconds(1350));
      return;
    }
    std::this_thread::sleep_for(milliseconds(200));  // till its threads sleep
    const std::clock_t begin = std::clock();         // of the whole process: both engines
    const long begin_sleeps = sleeps_of_this_process();
    std::this_thread::sleep_for(milliseconds(1000));
    const double used = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(used, 0.01);
    // Over messages a coordinator looks ten times.
    EXPECT_LE(sleeps_of_this_process() - begin_sleeps,
              kSleepsOfOthers + (ranks_per_node() > 1 ? 5 : 25));
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
