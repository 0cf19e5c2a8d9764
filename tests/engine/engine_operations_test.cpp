// Every kind of operation through the whole engine.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>

#include "engine/engine_fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;

// A gather of rows of two ints, whose results go to `results`.
std::shared_ptr<Operation> gather(OpKind kind, const std::string& name,
                                  std::vector<std::vector<std::int32_t>>& inputs,
                                  std::vector<std::vector<std::int32_t>>& results,
                                  std::vector<std::vector<std::int64_t>>& rows_of_ranks) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  operation->descriptor.kind = kind;
  for (auto& input : inputs) {
    operation->descriptor.tensors.push_back({DType::kInt32, {2}});
    operation->tensors.push_back({input.data(), static_cast<std::int64_t>(input.size() / 2)});
  }
  results.resize(inputs.size());
  rows_of_ranks.resize(inputs.size());
  operation->make_result = [&results, &rows_of_ranks](std::size_t index,
                                                      const std::vector<std::int64_t>& rows) {
    const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    results[index].assign(static_cast<std::size_t>(all) * 2, -1);
    rows_of_ranks[index] = rows;
    return static_cast<void*>(results[index].data());
  };
  return operation;
}

// Rows that tell where they come from.
std::vector<std::int32_t> rows_of_rank(int rank, std::int64_t rows, int mark) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < rows; ++i) {
    values.push_back(rank * 1000 + mark);
    values.push_back(static_cast<std::int32_t>(i));
  }
  return values;
}

TEST(EngineOperations, AllgatherOfDifferentSizes) {
  for (const int size : {1, 2, 3, 4}) {
    on_all_ranks(size, [](Engine& engine, Transport&) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        // The sizes change from time to time, and nobody tells the others.
        const auto rows_here = [&](int rank, int tensor) {
          return (rank * 3 + tensor + repeat) % 5;
        };
        std::vector<std::vector<std::int32_t>> inputs;
        std::vector<std::vector<std::int32_t>> wanted(2);
        for (int tensor = 0; tensor < 2; ++tensor) {
          inputs.push_back(rows_of_rank(engine.rank(), rows_here(engine.rank(), tensor), tensor));
          for (int rank = 0; rank < engine.size(); ++rank) {
            const auto rows = rows_of_rank(rank, rows_here(rank, tensor), tensor);
            wanted[tensor].insert(wanted[tensor].end(), rows.begin(), rows.end());
          }
        }
        std::vector<std::vector<std::int32_t>> results;
        std::vector<std::vector<std::int64_t>> rows;
        const auto operation = gather(OpKind::kAllgather, "gather", inputs, results, rows);
        const Status status = submit_and_wait(engine, operation);
        ASSERT_TRUE(status.is_ok()) << status.message();
        EXPECT_EQ(results, wanted);
        EXPECT_EQ(rows[1].at(0), rows_here(0, 1));
      }
    });
  }
}

TEST(EngineOperations, Alltoall) {
  for (const int size : {1, 2, 3, 4}) {
    on_all_ranks(size, [](Engine& engine, Transport&) {
      const auto share = [](int from, int to) { return (from * 2 + to) % 4; };
      std::vector<std::vector<std::int32_t>> inputs(1);
      std::vector<std::int32_t> wanted;
      std::vector<std::int64_t> splits;
      std::vector<std::int64_t> wanted_rows;
      for (int peer = 0; peer < engine.size(); ++peer) {
        splits.push_back(share(engine.rank(), peer));
        const auto out = rows_of_rank(engine.rank(), splits.back(), peer);
        inputs[0].insert(inputs[0].end(), out.begin(), out.end());
        wanted_rows.push_back(share(peer, engine.rank()));
        const auto in = rows_of_rank(peer, wanted_rows.back(), engine.rank());
        wanted.insert(wanted.end(), in.begin(), in.end());
      }
      std::vector<std::vector<std::int32_t>> results;
      std::vector<std::vector<std::int64_t>> rows;
      for (int repeat = 0; repeat < 3; ++repeat) {
        const auto operation = gather(OpKind::kAlltoall, "a2a", inputs, results, rows);
        operation->splits = splits;
        const Status status = submit_and_wait(engine, operation);
        ASSERT_TRUE(status.is_ok()) << status.message();
        EXPECT_EQ(results[0], wanted);
        EXPECT_EQ(rows[0], wanted_rows);
      }
    });
  }
}

TEST(EngineOperations, ReducescatterGivesTheRestToTheFirstRanks) {
  EXPECT_EQ(rows_of(5, 0, 3), 2);
  EXPECT_EQ(rows_of(5, 1, 3), 2);
  EXPECT_EQ(rows_of(5, 2, 3), 1);
  EXPECT_EQ(rows_of(1, 2, 3), 0);
  for (const int size : {1, 2, 3, 4}) {
    on_all_ranks(size, [](Engine& engine, Transport&) {
      for (const std::int64_t rows : {0, 1, 5, 700}) {
        std::vector<float> data(static_cast<std::size_t>(rows) * 3);
        for (std::size_t i = 0; i < data.size(); ++i)
          data[i] = static_cast<float>(i) + static_cast<float>(engine.rank());
        const auto operation = allreduce("rs" + std::to_string(rows), data, ReduceOp::Average);
        operation->descriptor.kind = OpKind::kReducescatter;
        operation->descriptor.tensors[0].shape = {rows, 3};
        operation->descriptor.prescale = 2;
        const Status status = submit_and_wait(engine, operation);
        ASSERT_TRUE(status.is_ok()) << status.message();
        std::int64_t begin = 0;
        for (int rank = 0; rank < engine.rank(); ++rank)
          begin += rows_of(rows, rank, engine.size());
        const std::int64_t end = begin + rows_of(rows, engine.rank(), engine.size());
        for (std::int64_t i = begin * 3; i < end * 3; ++i) {
          const float mean = static_cast<float>(engine.size() - 1) / 2.0F;
          ASSERT_FLOAT_EQ(data[static_cast<std::size_t>(i)], 2 * (static_cast<float>(i) + mean));
        }
      }
    });
  }
}

// A group of small and large tensors of several dtypes.
std::shared_ptr<Operation> group(OpKind kind, std::vector<std::vector<float>>& floats,
                                 std::vector<std::vector<std::int64_t>>& integers) {
  auto operation = std::make_shared<Operation>();
  operation->name = "group";
  operation->descriptor.kind = kind;
  for (auto& data : floats) {
    operation->descriptor.tensors.push_back(
        {DType::kFloat32, {static_cast<std::int64_t>(data.size())}});
    operation->tensors.push_back({data.data(), 0});
  }
  for (auto& data : integers) {
    operation->descriptor.tensors.push_back(
        {DType::kInt64, {static_cast<std::int64_t>(data.size())}});
    operation->tensors.push_back({data.data(), 0});
  }
  return operation;
}

TEST(EngineOperations, GroupsOfEverything) {
  for (const std::size_t fusion : {0, 1000}) {
    Engine::Options options = test_options();
    options.group.fusion_tensor_bytes = fusion;
    for (const OpKind kind : {OpKind::kAllreduce, OpKind::kBroadcast}) {
      for (const int size : {1, 2, 3}) {
        on_all_ranks(
            size,
            [kind](Engine& engine, Transport&) {
              for (int repeat = 0; repeat < 3; ++repeat) {
                std::vector<std::vector<float>> floats;
                std::vector<std::vector<std::int64_t>> integers;
                for (const std::size_t count : {1, 0, 5000, 13, 7}) {
                  floats.emplace_back(count, static_cast<float>(engine.rank() + 1));
                  integers.emplace_back(count, engine.rank() + 10);
                }
                const auto operation = group(kind, floats, integers);
                operation->descriptor.root = engine.size() - 1;
                const Status status = submit_and_wait(engine, operation);
                ASSERT_TRUE(status.is_ok()) << status.message();
                const int n = engine.size();
                const bool sum = kind == OpKind::kAllreduce;
                const int ones = sum ? n * (n + 1) / 2 : n;
                const int tens = sum ? n * 10 + n * (n - 1) / 2 : n + 9;
                for (const auto& data : floats)
                  EXPECT_EQ(data, std::vector<float>(data.size(), static_cast<float>(ones)));
                for (const auto& data : integers)
                  EXPECT_EQ(data, std::vector<std::int64_t>(data.size(), tens));
              }
            },
            options);
      }
    }
  }
}

TEST(EngineOperations, AGroupFailsAsAWhole) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<std::vector<float>> floats(2, std::vector<float>(4, 1.0F));
      if (engine.rank() == 1) floats[1].resize(5, 1.0F);
      std::vector<std::vector<std::int64_t>> none;
      const auto operation = group(OpKind::kAllreduce, floats, none);
      const Status status = submit_and_wait(engine, operation);
      EXPECT_EQ(status.code(), StatusCode::kMismatch);
      EXPECT_THAT(status.message(),
                  HasSubstr("shape of tensor 1: [4] on ranks 0, 2; [5] on rank 1"));
      EXPECT_EQ(floats[0], std::vector<float>(4, 1.0F)) << "untouched";
      std::vector<float> fine(4, 1.0F);
      EXPECT_TRUE(submit_and_wait(engine, allreduce("fine", fine)).is_ok());
    }
  });
}

TEST(EngineOperations, AdasumTakesTensorsOneByOne) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    std::vector<std::vector<float>> floats(2, std::vector<float>(3, 0.0F));
    floats[0][engine.rank()] = 2.0F;          // orthogonal
    floats[1] = std::vector<float>(3, 1.0F);  // parallel
    std::vector<std::vector<std::int64_t>> none;
    const auto operation = group(OpKind::kAllreduce, floats, none);
    operation->descriptor.op = ReduceOp::Adasum;
    const Status status = submit_and_wait(engine, operation);
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(floats[0], std::vector<float>(3, 2.0F));
    EXPECT_EQ(floats[1], std::vector<float>(3, 1.0F));
  });
}

TEST(EngineOperations, NobodyPassesABarrierAlone) {
  std::atomic<int> arrived = 0;
  on_all_ranks(4, [&](Engine& engine, Transport&) {
    for (int round = 1; round <= 5; ++round) {
      if (engine.rank() == round % 4) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++arrived;
      ASSERT_TRUE(submit_and_wait(engine, plain(OpKind::kBarrier, "barrier")).is_ok());
      EXPECT_GE(arrived, 4 * round);
    }
  });
}

// Ranks have 1, 2, ... steps of work; those that have joined give what changes nothing.
TEST(EngineOperations, JoinedRanksGiveNeutralValues) {
  for (const int size : {1, 2, 3}) {
    on_all_ranks(size, [](Engine& engine, Transport&) {
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int step = 0; step <= engine.rank(); ++step) {
          const int first = step;  // ranks from this one on still take part
          int product = 1;
          int sum = 0;
          for (int rank = first; rank < engine.size(); ++rank) {
            product *= rank + 2;
            sum += rank + 2;
          }
          const std::string suffix = std::to_string(step);
          const auto check = [&](ReduceOp op, int wanted) {
            std::vector<float> data(3, static_cast<float>(engine.rank() + 2));
            const auto operation = allreduce("x" + std::to_string(static_cast<int>(op)), data, op);
            operation->descriptor.prescale = op == ReduceOp::Product ? 1 : 3;
            ASSERT_TRUE(submit_and_wait(engine, operation).is_ok());
            EXPECT_EQ(data, std::vector<float>(3, static_cast<float>(wanted)))
                << "step " << step << " rank " << engine.rank() << " op " << name_of(op);
          };
          check(ReduceOp::Sum, 3 * sum);
          check(ReduceOp::Product, product);
          check(ReduceOp::Min, 3 * (first + 2));
          check(ReduceOp::Max, 3 * (engine.size() + 1));

          std::vector<std::vector<std::int32_t>> inputs = {rows_of_rank(engine.rank(), 2, 5)};
          std::vector<std::vector<std::int32_t>> results;
          std::vector<std::vector<std::int64_t>> rows;
          ASSERT_TRUE(submit_and_wait(
                          engine, gather(OpKind::kAllgather, "g" + suffix, inputs, results, rows))
                          .is_ok());
          std::vector<std::int32_t> wanted;
          for (int rank = first; rank < engine.size(); ++rank) {
            const auto part = rows_of_rank(rank, 2, 5);
            wanted.insert(wanted.end(), part.begin(), part.end());
          }
          EXPECT_EQ(results[0], wanted);

          const auto a2a = gather(OpKind::kAlltoall, "a" + suffix, inputs, results, rows);
          a2a->splits.assign(static_cast<std::size_t>(engine.size()), 0);
          a2a->splits[0] = 2;  // may have joined
          ASSERT_TRUE(submit_and_wait(engine, a2a).is_ok());
          EXPECT_EQ(results[0].size(),
                    engine.rank() == 0 ? 4 * static_cast<std::size_t>(engine.size()) : 0U);

          std::vector<float> scattered(static_cast<std::size_t>(engine.size()), 1.0F);
          const auto reducescatter = allreduce("r" + suffix, scattered);
          reducescatter->descriptor.kind = OpKind::kReducescatter;
          ASSERT_TRUE(submit_and_wait(engine, reducescatter).is_ok());
          EXPECT_EQ(scattered[static_cast<std::size_t>(engine.rank())],
                    static_cast<float>(engine.size() - first));

          ASSERT_TRUE(submit_and_wait(engine, plain(OpKind::kBarrier, "b" + suffix)).is_ok());
        }
        const auto join = plain(OpKind::kJoin, "join");
        ASSERT_TRUE(submit_and_wait(engine, join).is_ok());
        EXPECT_EQ(join->number, engine.size() - 1);
      }
    });
  }
}

TEST(EngineOperations, AJoinEndsWhenARankLeavesInstead) {
  for (const int leaver : {0, 1, 2}) {
    for (const int late : {0, 100}) {  // it leaves before or after the others join
      on_all_ranks(3, [&](Engine& engine, Transport&) {
        std::vector<float> data(4, 1.0F);
        ASSERT_TRUE(submit_and_wait(engine, allreduce("step", data)).is_ok());
        const bool leaves = engine.rank() == leaver;
        std::this_thread::sleep_for(std::chrono::milliseconds(leaves ? late : 100 - late));
        if (leaves) return;
        const Status status = submit_and_wait(engine, plain(OpKind::kJoin, "join"));
        EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
        EXPECT_THAT(status.message(), HasSubstr("will not join"));
      });
    }
  }
}

// --- send ---

std::shared_ptr<Operation> send(const std::string& name, int from, int to,
                                std::vector<float>& data) {
  auto operation = allreduce(name, data);
  operation->descriptor.kind = OpKind::kSend;
  operation->descriptor.root = from;
  operation->descriptor.destination = to;
  return operation;
}

TEST(EngineOperations, SendsBetweenTwoRanksWhileOthersDoSomethingElse) {
  for (const int size : {2, 3, 4}) {
    on_all_ranks(size, [](Engine& engine, Transport&) {
      for (int step = 0; step < 5; ++step) {
        for (const std::size_t count : {0, 3, 9000}) {
          const std::string name = "x" + std::to_string(count);
          std::vector<float> data(count, static_cast<float>(engine.rank() + 1));
          if (engine.rank() < 2) {  // from 1 to 0
            const Status status = submit_and_wait(engine, send(name, 1, 0, data));
            ASSERT_TRUE(status.is_ok()) << status.message();
            EXPECT_EQ(data, std::vector<float>(count, 2.0F));
          }
        }
        // A ring of all, in flight at once.
        const int right = (engine.rank() + 1) % engine.size();
        const int left = (engine.rank() + engine.size() - 1) % engine.size();
        std::vector<float> out(500, static_cast<float>(engine.rank()));
        std::vector<float> in(500, -1.0F);
        const auto sending =
            send("ring" + std::to_string(engine.rank()), engine.rank(), right, out);
        const auto receiving = send("ring" + std::to_string(left), left, engine.rank(), in);
        ASSERT_TRUE(engine.submit(sending).is_ok());
        ASSERT_TRUE(engine.submit(receiving).is_ok());
        ASSERT_TRUE(engine.wait(sending, std::chrono::seconds(20)).is_ok());
        ASSERT_TRUE(engine.wait(receiving, std::chrono::seconds(20)).is_ok());
        EXPECT_EQ(in, std::vector<float>(500, static_cast<float>(left)));
        std::vector<float> all(3, 1.0F);
        ASSERT_TRUE(submit_and_wait(engine, allreduce("all", all)).is_ok());
      }
    });
  }
}

// Three ranks that know each other; what the program of `idle` does then has nothing to do with
// kolo until the other two have done their part.
void beside_an_idle_rank(int idle, const std::function<void(Engine&)>& part) {
  std::atomic<int> others{2};
  on_all_ranks(3, [&](Engine& engine, Transport&) {
    std::vector<float> all(3, 1.0F);
    ASSERT_TRUE(submit_and_wait(engine, allreduce("all", all)).is_ok());
    if (engine.rank() == idle) {
      while (others > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    part(engine);  // an assertion that fails returns
    --others;
  });
}

// Though it is rank 0, which coordinates, and its program does something else for long.
TEST(EngineOperations, SendsBetweenTwoRanksDoNotWaitForAThird) {
  if (ranks_per_node() < 3)
    GTEST_SKIP() << "over messages rank 0 looks ten times a second, for nothing wakes it";
  beside_an_idle_rank(0, [](Engine& engine) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const Clock::time_point begin = Clock::now();
    for (int step = 0; step < 40; ++step) {
      // Long enough for rank 0's thread to sleep again.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::vector<float> data(4, static_cast<float>(engine.rank()));
      ASSERT_TRUE(submit_and_wait(engine, send("x", 1, 2, data)).is_ok());
      EXPECT_EQ(data, std::vector<float>(4, 1.0F));
    }
    EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1500));
  });
}

// More than there is room for among what it has not read.
TEST(EngineOperations, ARankThatSubmitsNothingHoldsNoSendsUp) {
  if (ranks_per_node() < 3) GTEST_SKIP() << "is about the ring in shared memory";
  beside_an_idle_rank(2, [](Engine& engine) {
    for (int step = 0; step < 1500; ++step) {
      std::vector<float> data(4, static_cast<float>(engine.rank() + 1));
      ASSERT_TRUE(submit_and_wait(engine, send("x", 0, 1, data)).is_ok()) << "step " << step;
    }
  });
}

TEST(EngineOperations, SendsThatDoNotFitAreErrorsOnBoth) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    std::vector<float> data(engine.rank() == 0 ? 4 : 5, 1.0F);
    if (engine.rank() < 2) {
      const Status status = submit_and_wait(engine, send("w", 0, 1, data));
      EXPECT_EQ(status.code(), StatusCode::kMismatch);
      EXPECT_THAT(status.message(), HasSubstr("shape: [4] on rank 0; [5] on rank 1"));
    }
    // Rank 0 sends to 1, which waits for 2.
    if (engine.rank() < 2) {
      const Status status = submit_and_wait(engine, send("p", engine.rank() == 0 ? 0 : 2, 1, data));
      EXPECT_EQ(status.code(), StatusCode::kMismatch);
      EXPECT_THAT(status.message(), HasSubstr("root rank: 0 on rank 0; 2 on rank 1"));
    }
    std::vector<float> all(3, 1.0F);
    ASSERT_TRUE(submit_and_wait(engine, allreduce("all", all)).is_ok());
    // A rank that leaves fails those alone who wait for it.
    if (engine.rank() == 2) return;
    std::vector<float> fine(4, 1.0F);
    EXPECT_TRUE(submit_and_wait(engine, send("fine", 0, 1, fine)).is_ok());
    if (engine.rank() == 0) {
      const Status status = submit_and_wait(engine, send("gone", 0, 2, fine));
      EXPECT_EQ(status.code(), StatusCode::kPeerLost);
      EXPECT_THAT(status.message(), HasSubstr("rank 2 shut kolo down"));
    }
  });
}

TEST(EngineOperations, ASendToARankThatHasJoinedIsAnError) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(4, 1.0F);
    if (engine.rank() == 0) {
      const Status status = submit_and_wait(engine, send("w", 0, 1, data));
      EXPECT_THAT(status.message(), HasSubstr("one of them has joined"));
    }
    ASSERT_TRUE(submit_and_wait(engine, plain(OpKind::kJoin, "join")).is_ok());
  });
}

}  // namespace
}  // namespace kolo
