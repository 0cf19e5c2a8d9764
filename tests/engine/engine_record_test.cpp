// What the flight recorder and the timeline hear of an engine's operations.
#include <gmock/gmock.h>

#include <atomic>
#include <map>

#include "collectives/algorithms/algorithms.hpp"
#include "engine_fixture.hpp"

namespace kolo {
namespace {

using timeline::OperationEvent;
using timeline::State;

// The last one of each name; buckets as "bucket".
std::map<std::string, OperationEvent> recorded(Engine& engine) {
  std::map<std::string, OperationEvent> last;
  for (const OperationEvent& event : engine.tracing().recorder().copy())
    last[event.members > 0 ? "bucket" : std::string(event.name.view())] = event;
  return last;
}

TEST(EngineRecord, FollowsAnOperationToItsEnd) {
  std::atomic<bool> seen{false};
  on_all_ranks(2, [&](Engine& engine, Transport&) {
    std::vector<float> data(300, 1.0F);
    const auto operation = allreduce("x", data);
    if (engine.rank() == 1) {
      while (!seen) std::this_thread::yield();
    }
    const Clock::time_point before = Clock::now();
    ASSERT_TRUE(engine.submit(operation).is_ok());
    if (engine.rank() == 0) {
      EXPECT_EQ(engine.wait(operation, std::chrono::milliseconds(20)).code(), StatusCode::kTimeout);
      const OperationEvent waits = recorded(engine).at("x");
      EXPECT_EQ(waits.state, State::kSubmitted);
      EXPECT_TRUE(waits.wanted);
      EXPECT_EQ(waits.agreed, timeline::kNever);
      seen = true;
    }
    ASSERT_TRUE(engine.wait(operation, std::chrono::seconds(30)).is_ok());
    const OperationEvent event = recorded(engine).at("x");
    EXPECT_EQ(event.state, State::kDone);
    EXPECT_EQ(event.bytes, 1200U);
    EXPECT_EQ(event.dtype, DType::kFloat32);
    EXPECT_LE(nanoseconds(before), event.submitted);
    EXPECT_LE(event.submitted, event.agreed);
    EXPECT_LE(event.agreed, event.started);
    EXPECT_LE(event.started, event.ended);
    EXPECT_LE(event.ended, nanoseconds(Clock::now()));
    EXPECT_EQ(engine.tracing().load.running, 0U);
    EXPECT_EQ(engine.tracing().load.bytes, 0U);
  });
}

TEST(EngineRecord, KnowsBucketsAndTheirMembers) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<std::vector<float>> data(3, std::vector<float>(8, 1.0F));
    for (int step = 0; step < 5; ++step) {
      std::vector<std::shared_ptr<Operation>> operations;
      for (std::size_t i = 0; i < data.size(); ++i)
        operations.push_back(allreduce(std::string(1, static_cast<char>('a' + i)), data[i]));
      for (const auto& operation : operations) ASSERT_TRUE(engine.submit(operation).is_ok());
      for (const auto& operation : operations)
        ASSERT_TRUE(engine.wait(operation, std::chrono::seconds(30)).is_ok());
    }
    const auto last = recorded(engine);
    const OperationEvent& bucket = last.at("bucket");
    EXPECT_EQ(bucket.members, 3U);
    EXPECT_EQ(bucket.state, State::kDone);
    EXPECT_NE(bucket.packed, timeline::kNever);
    EXPECT_LE(bucket.packed, bucket.reduced);
    EXPECT_LE(bucket.reduced, bucket.ended);
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_EQ(last.at(name).bucket, bucket.bucket);
      EXPECT_EQ(last.at(name).sequence, bucket.sequence);
      EXPECT_EQ(last.at(name).state, State::kDone);
      EXPECT_LE(last.at(name).submitted, bucket.submitted);
    }
  });
}

TEST(EngineRecord, OfAFailureItSaysSo) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(static_cast<std::size_t>(4 + engine.rank()), 1.0F);
    EXPECT_EQ(submit_and_wait(engine, allreduce("x", data)).code(), StatusCode::kMismatch);
    EXPECT_EQ(recorded(engine).at("x").state, State::kFailed);
    EXPECT_EQ(recorded(engine).at("x").agreed, timeline::kNever);
  });
}

// In one process the ranks have one clock; and what the timeline does is none of the program's
// doing.
TEST(EngineRecord, ReadsClocks) {
  for (const int size : {1, 2, 5}) {
    on_all_ranks(size, [](Engine& engine, Transport&) {
      ClockReading reading;
      if (engine.rank() == 0) reading.run = 77;
      auto operation = plain(OpKind::kClock, "clock");
      operation->transient = true;
      operation->descriptor.tensors = {{DType::kInt64, {sizeof reading / sizeof(std::int64_t)}}};
      operation->tensors = {{&reading, 0}};
      ASSERT_TRUE(submit_and_wait(engine, operation).is_ok());
      EXPECT_EQ(reading.run, 77);
      EXPECT_LE(std::abs(reading.offset), reading.error);
      EXPECT_EQ(engine.tracing().last_submission(), timeline::kNever);
      std::vector<float> data(4, 1.0F);
      ASSERT_TRUE(submit_and_wait(engine, allreduce("x", data)).is_ok());
      EXPECT_NE(engine.tracing().last_submission(), timeline::kNever);
      EXPECT_FALSE(engine.tracing().is_waited_for());
    });
  }
}

// Also while programs do nothing.
TEST(EngineRecord, RanksTellRankZeroWhatTheyCount) {
  Engine::Options options = test_options();
  options.group.metrics_every = std::chrono::milliseconds(20);
  std::atomic<bool> seen{false};
  on_all_ranks(
      3,
      [&](Engine& engine, Transport&) {
        std::vector<float> data(5, 1.0F);
        for (int i = 0; i < 2; ++i)
          ASSERT_TRUE(submit_and_wait(engine, allreduce("x", data)).is_ok());
        const auto deadline = Clock::now() + std::chrono::seconds(20);
        while (!seen && Clock::now() < deadline) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          if (engine.rank() != 0) continue;
          const std::string text = engine.tracing().board().text();
          const auto has = [&](const char* line) { return text.find(line) != std::string::npos; };
          seen = has("kolo_operations_total{rank=\"1\",operation=\"allreduce\"} 2\n") &&
                 has("kolo_bytes_total{rank=\"2\",operation=\"allreduce\"} 40\n");
        }
        EXPECT_TRUE(seen) << engine.tracing().board().text();
        const Measures here = engine.tracing().measures();
        EXPECT_EQ(here.known, 1U);
        EXPECT_EQ(here.announced, 1U);
      },
      options);
}

TEST(EngineRecord, RanksTellNothingUnasked) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(5, 1.0F);
    ASSERT_TRUE(submit_and_wait(engine, allreduce("x", data)).is_ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(engine.tracing().board().text().find("rank="), std::string::npos);
  });
}

}  // namespace
}  // namespace kolo
