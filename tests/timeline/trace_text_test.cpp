#include "timeline/trace_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kolo::timeline {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

// Of rank 3; times are microseconds since 1,000.
constexpr Nanoseconds kUs = 1000;
constexpr Nanoseconds at(int microseconds) {
  return (1000 + microseconds) * kUs;
}

Origin origin() {
  Origin origin;
  origin.rank = 3;
  origin.size = 4;
  origin.host = "node \"1\"";
  origin.process = 77;
  origin.run = 42;
  origin.start = at(0);
  origin.shift = -at(0);
  origin.bucket_bytes = 1000;
  return origin;
}

// What a reader finds in the file.
class Trace {
 public:
  void add(const Event& event) { lines_.add(text_, event); }
  void drop(std::uint64_t events, Nanoseconds when) { lines_.dropped(text_, events, when); }

  json all() const {
    std::string whole;
    TraceText(origin()).head(whole);
    whole += text_;
    lines_.end(whole);
    return json::parse(whole);
  }

  // Of a phase.
  std::vector<json> events(const std::string& phase) const {
    std::vector<json> found;
    for (const json& event : all()) {
      if (event["ph"] == phase) found.push_back(event);
    }
    return found;
  }

  // "row: NAME begin-end".
  std::vector<std::string> spans() const {
    std::vector<std::string> found;
    for (const json& event : events("X")) {
      const double begin = event["ts"];
      found.push_back(row(event["tid"]) + ": " + event["name"].get<std::string>() + " " +
                      number(begin) + "-" + number(begin + event["dur"].get<double>()));
    }
    return found;
  }

  // "name series=value@time"
  std::vector<std::string> counters(const std::string& name) const {
    std::vector<std::string> found;
    for (const json& event : events("C")) {
      if (event["name"] != name) continue;
      for (const auto& [series, value] : event["args"].items())
        found.push_back(series + "=" + number(value) + "@" + number(event["ts"]));
    }
    return found;
  }

  std::string row(int number) const {
    for (const json& event : events("M")) {
      if (event["name"] == "thread_name" && event["tid"] == number) return event["args"]["name"];
    }
    return "?";
  }

 private:
  static std::string number(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  TraceText lines_{origin()};
  std::string text_;
};

OperationEvent tensor(const std::string& name) {
  OperationEvent event;
  event.name = Name(name);
  event.submitted = at(10);
  event.agreed = at(20);
  event.started = at(25);
  event.ended = at(45);
  event.bytes = 400;
  event.sequence = 9;
  event.step = 5;
  event.state = State::kDone;
  event.medium = Medium::kShm;
  return event;
}

TEST(TraceText, TellsWhoseItIs) {
  const json all = Trace().all();
  EXPECT_EQ(all[0]["args"]["name"], "rank 3 on node \"1\"");
  EXPECT_EQ(all[2]["name"], "kolo");
  const json& header = all[2]["args"];
  EXPECT_EQ(header["rank"], 3);
  EXPECT_EQ(header["size"], 4);
  EXPECT_EQ(header["run"], 42);
  EXPECT_EQ(header["start_ns"], at(0));
  EXPECT_EQ(header["shift_ns"], -at(0));
  EXPECT_EQ(all.back()["name"], "kolo_end");
  // Perfetto takes process 0 for another one.
  for (const json& event : all) EXPECT_EQ(event["pid"], 4);
}

TEST(TraceText, ATensorThatTravelsAloneHasAllItsPhases) {
  Trace trace;
  trace.add(tensor("layer1.weight"));
  EXPECT_THAT(
      trace.spans(),
      ElementsAre("layer1.weight: NEGOTIATE_ALLREDUCE 10-20", "layer1.weight: ALLREDUCE 20-45",
                  "layer1.weight: QUEUE 20-25", "layer1.weight: SHM_ALLREDUCE 25-45"));
  const json operation = trace.events("X")[1]["args"];
  EXPECT_EQ(operation["step"], 5);
  EXPECT_EQ(operation["bytes"], 400);
  EXPECT_EQ(operation["sequence"], 9);
  EXPECT_EQ(operation["dtype"], "float32");
  EXPECT_FALSE(operation.contains("failed"));
}

TEST(TraceText, ABucketHasThePhasesAndItsMembersWaitForIt) {
  Trace trace;
  OperationEvent member = tensor("bias");
  member.bucket = 12;
  trace.add(member);
  OperationEvent bucket = tensor("bias");
  bucket.bucket = 12;
  bucket.members = 7;
  bucket.packed = at(27);
  bucket.reduced = at(41);
  bucket.medium = Medium::kMpi;
  trace.add(bucket);
  EXPECT_THAT(
      trace.spans(),
      ElementsAre("bias: NEGOTIATE_ALLREDUCE 10-20", "bucket 12: NEGOTIATE_ALLREDUCE 10-20",
                  "bucket 12: ALLREDUCE 20-45", "bucket 12: QUEUE 20-25",
                  "bucket 12: MEMCPY_IN_FUSION_BUFFER 25-27", "bucket 12: MPI_ALLREDUCE 27-41",
                  "bucket 12: MEMCPY_OUT_FUSION_BUFFER 41-45"));
  EXPECT_EQ(trace.events("X")[0]["args"]["bucket"], 12);
  EXPECT_EQ(trace.events("X")[2]["args"]["members"], 7);
  EXPECT_THAT(trace.counters("bucket fill"), ElementsAre("percent=40@20"));
}

TEST(TraceText, ADeviceWaitsForDataAndForTheCollectiveBefore) {
  Trace trace;
  OperationEvent alone = tensor("alone");
  alone.data_ready = alone.begun = at(30);
  alone.medium = Medium::kNccl;
  trace.add(alone);
  OperationEvent bucket = tensor("bias");
  bucket.bucket = 12;
  bucket.members = 7;
  bucket.data_ready = at(28);
  bucket.packed = at(31);
  bucket.begun = at(35);
  bucket.reduced = at(41);
  bucket.medium = Medium::kNccl;
  trace.add(bucket);
  EXPECT_THAT(
      trace.spans(),
      ElementsAre("alone: NEGOTIATE_ALLREDUCE 10-20", "alone: ALLREDUCE 20-45",
                  "alone: QUEUE 20-25", "alone: WAIT_FOR_DATA 25-30", "alone: NCCL_ALLREDUCE 30-45",
                  "bucket 12: NEGOTIATE_ALLREDUCE 10-20", "bucket 12: ALLREDUCE 20-45",
                  "bucket 12: QUEUE 20-25", "bucket 12: WAIT_FOR_DATA 25-28",
                  "bucket 12: MEMCPY_IN_FUSION_BUFFER 28-31", "bucket 12: QUEUE 31-35",
                  "bucket 12: NCCL_ALLREDUCE 35-41", "bucket 12: MEMCPY_OUT_FUSION_BUFFER 41-45"));
}

TEST(TraceText, WhatFailedSaysSo) {
  Trace trace;
  OperationEvent refused = tensor("refused");
  refused.agreed = refused.started = kNever;
  refused.state = State::kFailed;
  trace.add(refused);
  OperationEvent broke = tensor("broke");
  broke.state = State::kFailed;
  trace.add(broke);
  EXPECT_THAT(
      trace.spans(),
      ElementsAre("refused: NEGOTIATE_ALLREDUCE 10-45", "broke: NEGOTIATE_ALLREDUCE 10-20",
                  "broke: ALLREDUCE 20-45", "broke: QUEUE 20-25", "broke: SHM_ALLREDUCE 25-45"));
  for (const std::size_t i : {0U, 1U, 2U}) EXPECT_EQ(trace.events("X")[i]["args"]["failed"], true);
}

TEST(TraceText, ABarrierMovesNothing) {
  Trace trace;
  OperationEvent barrier = tensor("b");
  barrier.kind = OpKind::kBarrier;
  barrier.started = kNever;
  trace.add(barrier);
  EXPECT_THAT(trace.spans(), ElementsAre("b: NEGOTIATE_BARRIER 10-20", "b: BARRIER 20-45"));
}

// Rows are few, and nothing in one overlaps.
TEST(TraceText, NamesThatDoNotComeAgainShareRows) {
  Trace trace;
  const auto add = [&](const char* name, int from, int to) {
    OperationEvent event = tensor(name);
    event.transient = true;
    event.submitted = at(from);
    event.agreed = event.started = kNever;
    event.ended = at(to);
    trace.add(event);
  };
  add("u.1", 0, 10);
  add("u.2", 5, 20);
  add("u.3", 10, 15);
  add("u.4", 15, 30);
  EXPECT_THAT(
      trace.spans(),
      ElementsAre("unnamed 1: NEGOTIATE_ALLREDUCE 0-10", "unnamed 2: NEGOTIATE_ALLREDUCE 5-20",
                  "unnamed 1: NEGOTIATE_ALLREDUCE 10-15", "unnamed 1: NEGOTIATE_ALLREDUCE 15-30"));
}

TEST(TraceText, ProcessSetsHaveRowsOfTheirOwn) {
  Trace trace;
  OperationEvent event = tensor("x");
  trace.add(event);
  event.process_set = 2;
  trace.add(event);
  EXPECT_EQ(trace.spans()[4], "set 2: x: NEGOTIATE_ALLREDUCE 10-20");
}

TEST(TraceText, ShowsThreadsWaitsAndSteps) {
  Trace trace;
  ScopeEvent scope;
  scope.begin = at(1);
  scope.end = at(4);
  scope.thread = 77;
  scope.step = 6;
  scope.name = Name("forward \"pass\"");
  trace.add(scope);
  scope.kind = ScopeEvent::Kind::kWait;
  scope.thread = 78;
  scope.name = Name("loss");
  trace.add(scope);
  scope.kind = ScopeEvent::Kind::kStep;
  trace.add(scope);
  EXPECT_THAT(trace.spans(), ElementsAre("program: forward \"pass\" 1-4",
                                         "program, thread 78: WAIT 1-4", "steps: STEP 6 1-4"));
  EXPECT_EQ(trace.events("X")[1]["args"]["for"], "loss");
  EXPECT_EQ(trace.events("X")[2]["args"]["step"], 6);
}

TEST(TraceText, ShowsWhenEachRankCame) {
  Trace trace;
  ArrivalEvent arrival;
  arrival.at = at(3);
  arrival.rank = 2;
  arrival.name = Name("x");
  trace.add(arrival);
  arrival.bucket = 5;
  trace.add(arrival);
  arrival.transient = true;
  trace.add(arrival);
  const std::vector<json> events = trace.events("i");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["name"], "2");
  EXPECT_EQ(events[0]["ts"], 3);
  EXPECT_EQ(trace.row(events[0]["tid"]), "x");
  EXPECT_EQ(trace.row(events[1]["tid"]), "bucket 5");
}

TEST(TraceText, CountsWhatIsUnderWay) {
  Trace trace;
  trace.add(LoadEvent{at(2), 4096, 3, 2, 1});
  EXPECT_THAT(trace.counters("bytes in flight"), ElementsAre("bytes=4096@2"));
  EXPECT_THAT(trace.counters("operations"),
              ElementsAre("negotiating=3@2", "queued=2@2", "running=1@2"));
}

// Bytes of each hundredth of a second, and zero where there were none.
TEST(TraceText, BandwidthIsWhatEndedInAWhile) {
  Trace trace;
  const auto end = [&](int when, std::uint64_t bytes) {
    OperationEvent event = tensor("x");
    event.ended = at(when);
    event.bytes = bytes;
    trace.add(event);
  };
  end(1000, 30'000'000);
  end(8000, 20'000'000);
  EXPECT_THAT(trace.counters("bandwidth"), IsEmpty());
  end(9000, 10'000'000);
  end(49000, 1);
  // Bins begin at multiples of 10 ms of the clock, which is 1 ms ahead.
  EXPECT_THAT(trace.counters("bandwidth"), ElementsAre("GB/s=5@0", "GB/s=1@9000", "GB/s=0@19000"));
}

TEST(TraceText, NothingIsBeforeTheBeginning) {
  Trace trace;
  OperationEvent early = tensor("x");
  early.submitted = at(-5);
  trace.add(early);
  EXPECT_EQ(trace.spans()[0], "x: NEGOTIATE_ALLREDUCE 0-20");
}

TEST(TraceText, ClocksAndLosses) {
  Trace trace;
  trace.add(ClockEvent{at(7), -12, 34});
  trace.drop(5, at(8));
  const std::vector<json> events = trace.events("i");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["name"], "clock");
  EXPECT_EQ(events[0]["args"]["at_ns"], at(7));
  EXPECT_EQ(events[0]["args"]["offset_ns"], -12);
  EXPECT_EQ(events[0]["args"]["error_ns"], 34);
  EXPECT_EQ(events[1]["name"], "events were lost");
  EXPECT_EQ(events[1]["args"]["events"], 5);
}

TEST(TraceText, KeepsNanoseconds) {
  Trace trace;
  ScopeEvent scope;
  scope.begin = at(1) + 7;
  scope.end = at(1) + 77;
  trace.add(scope);
  EXPECT_DOUBLE_EQ(trace.events("X")[0]["ts"].get<double>(), 1.007);
  EXPECT_DOUBLE_EQ(trace.events("X")[0]["dur"].get<double>(), 0.07);
}

}  // namespace
}  // namespace kolo::timeline
