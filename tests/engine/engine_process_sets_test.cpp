// Process sets through the whole engine.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/engine_fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Operation> add_set(const std::vector<std::int64_t>& ranks,
                                   const std::string& name) {
  auto operation = plain(OpKind::kAddProcessSet, name);
  operation->descriptor.tensors = {{DType::kInt64, ranks}};
  operation->tensors.emplace_back();
  return operation;
}

std::shared_ptr<Operation> remove_set(int number) {
  auto operation = plain(OpKind::kRemoveProcessSet, "remove");
  operation->descriptor.tensors = {{DType::kInt64, {number}}};
  operation->tensors.emplace_back();
  return operation;
}

std::shared_ptr<Operation> in_set(int set, std::shared_ptr<Operation> operation) {
  operation->process_set = set;
  return operation;
}

TEST(EngineProcessSets, ProcessSetsOverlapAndHaveNamesOfTheirOwn) {
  on_all_ranks(4, [](Engine& engine, Transport&) {
    const std::vector<std::vector<std::int64_t>> sets = {{0, 1}, {3, 1, 2}, {2}};
    std::vector<int> numbers;
    for (const auto& ranks : sets) {
      const auto operation = add_set(ranks, "add");
      const Status status = submit_and_wait(engine, operation);
      ASSERT_TRUE(status.is_ok()) << status.message();
      numbers.push_back(operation->number);
    }
    EXPECT_EQ(numbers, (std::vector<int>{1, 2, 3}));
    for (int step = 0; step < 5; ++step) {
      for (std::size_t i = 0; i < sets.size(); ++i) {
        const auto& ranks = sets[i];
        if (std::find(ranks.begin(), ranks.end(), engine.rank()) == ranks.end()) continue;
        std::vector<float> a(100, static_cast<float>(engine.rank() + 1));
        std::vector<float> b(2000, 1.0F);
        const auto first = in_set(numbers[i], allreduce("x", a));
        const auto second = in_set(numbers[i], allreduce("y", b, ReduceOp::Average));
        ASSERT_TRUE(engine.submit(first).is_ok());
        ASSERT_TRUE(engine.submit(second).is_ok());
        ASSERT_TRUE(engine.wait(second, std::chrono::seconds(20)).is_ok());
        ASSERT_TRUE(engine.wait(first, std::chrono::seconds(20)).is_ok());
        float sum = 0;
        for (const std::int64_t rank : ranks) sum += static_cast<float>(rank + 1);
        EXPECT_EQ(a, std::vector<float>(100, sum));
        EXPECT_EQ(b, std::vector<float>(2000, 1.0F));
      }
      std::vector<float> all(10, 1.0F);
      ASSERT_TRUE(submit_and_wait(engine, allreduce("x", all)).is_ok());
      EXPECT_EQ(all, std::vector<float>(10, 4.0F));
    }
    ASSERT_TRUE(submit_and_wait(engine, remove_set(2)).is_ok());
    EXPECT_FALSE(submit_and_wait(engine, remove_set(2)).is_ok());
    std::vector<float> late(1, 1.0F);
    const Status status = submit_and_wait(engine, in_set(2, allreduce("x", late)));
    EXPECT_THAT(status.message(), HasSubstr("process set 2 does not exist any more"));
    const auto again = add_set({0, 1, 2, 3}, "add");
    ASSERT_TRUE(submit_and_wait(engine, again).is_ok());
    EXPECT_EQ(again->number, 4);
    ASSERT_TRUE(submit_and_wait(engine, in_set(4, allreduce("x", late))).is_ok());
    EXPECT_EQ(late[0], 4.0F);
  });
}

// Messages name the ranks of the world, and the root is one of these.
TEST(EngineProcessSets, AProcessSetSpeaksOfTheWorldsRanks) {
  on_all_ranks(4, [](Engine& engine, Transport&) {
    ASSERT_TRUE(submit_and_wait(engine, add_set({3, 1}, "add")).is_ok());
    if (engine.rank() % 2 == 0) return;
    std::vector<float> data(engine.rank() == 3 ? 4 : 5, 1.0F);
    const Status status = submit_and_wait(engine, in_set(1, allreduce("w", data)));
    EXPECT_THAT(status.message(), HasSubstr("shape: [4] on rank 3; [5] on rank 1"));
    std::vector<float> value(3, static_cast<float>(engine.rank()));
    const auto broadcast = in_set(1, allreduce("b", value));
    broadcast->descriptor.kind = OpKind::kBroadcast;
    broadcast->descriptor.root = 3;
    ASSERT_TRUE(submit_and_wait(engine, broadcast).is_ok());
    EXPECT_EQ(value, std::vector<float>(3, 3.0F));
    const auto join = in_set(1, plain(OpKind::kJoin, "join"));
    if (engine.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_TRUE(submit_and_wait(engine, join).is_ok());
    EXPECT_EQ(join->number, 1);
  });
}

TEST(EngineProcessSets, RanksMustAgreeOnAProcessSet) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    const Status status = submit_and_wait(engine, add_set({0, engine.rank() == 2 ? 2 : 1}, "add"));
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr("[0, 1] on ranks 0, 1; [0, 2] on rank 2"));
  });
}

// Two threads a rank, each busy in a set of its own; one set waits for a slow member all the time.
TEST(EngineProcessSets, ProcessSetsDoNotHoldEachOtherUp) {
  on_all_ranks(3, [](Engine& engine, Transport&) {
    ASSERT_TRUE(submit_and_wait(engine, add_set({0, 1, 2}, "add")).is_ok());
    ASSERT_TRUE(submit_and_wait(engine, add_set({2, 1, 0}, "add")).is_ok());
    const auto work = [&](int set, int steps, std::chrono::milliseconds pause) {
      for (int step = 0; step < steps; ++step) {
        if (engine.rank() == step % 3) std::this_thread::sleep_for(pause);
        std::vector<float> data(5000, 1.0F);
        const Status status = submit_and_wait(engine, in_set(set, allreduce("x", data)));
        ASSERT_TRUE(status.is_ok()) << status.message();
        ASSERT_EQ(data, std::vector<float>(5000, 3.0F));
      }
    };
    std::thread slow([&] { work(1, 3, std::chrono::milliseconds(60)); });
    work(2, 60, std::chrono::milliseconds(0));
    slow.join();
  });
}

}  // namespace
}  // namespace kolo
