#include "metrics/meters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "metrics/text.hpp"

namespace kolo {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TimeCounts, EachTimeHasItsPlace) {
  EXPECT_EQ(TimeCounts::place_of(-5), 0U);
  EXPECT_EQ(TimeCounts::place_of(0), 0U);
  for (std::size_t i = 0; i < TimeCounts::kBounds; ++i) {
    const auto bound = static_cast<Nanoseconds>(TimeCounts::bound(i) * 1e9 + 0.5);
    EXPECT_EQ(TimeCounts::place_of(bound), i) << bound;
    EXPECT_EQ(TimeCounts::place_of(bound + 1), i + 1) << bound;
  }
  EXPECT_EQ(TimeCounts::bound(0), 1e-6);
  EXPECT_DOUBLE_EQ(TimeCounts::bound(TimeCounts::kBounds - 1), 67.108864);
  EXPECT_EQ(TimeCounts::place_of(std::numeric_limits<Nanoseconds>::max()), TimeCounts::kBounds);
}

Meters& some_meters() {
  static Meters meters;
  static const bool filled = [] {
    meters.ended(OpKind::kAllreduce, 1, 100);
    meters.ended(OpKind::kAllreduce, 1, 20);
    meters.ended(OpKind::kBroadcast, 1, 3);
    meters.failed();
    meters.submitted(true);
    meters.submitted(true);
    meters.submitted(false);
    meters.stalled();
    meters.ran(true);
    meters.ran(false);
    meters.ran_in(2000, 5'000'000);
    meters.waited(900);
    meters.waited(500'000'000'000);
    meters.waited_for_data(3000);
    return true;
  }();
  static_cast<void>(filled);
  return meters;
}

TEST(Meters, Count) {
  const Measures now = some_meters().copy();
  EXPECT_EQ(now.operations[0], 2U);
  EXPECT_EQ(now.bytes[0], 120U);
  EXPECT_EQ(now.operations[1], 1U);
  EXPECT_EQ(now.failed, 1U);
  EXPECT_EQ(now.known, 2U);
  EXPECT_EQ(now.announced, 1U);
  EXPECT_EQ(now.stalls, 1U);
  EXPECT_EQ(now.collectives, 2U);
  EXPECT_EQ(now.buckets, 1U);
  EXPECT_EQ(now.negotiation.counts[1], 1U);
  EXPECT_EQ(now.negotiation.sum, 2000U);
  EXPECT_EQ(now.collective.counts[7], 1U);
  EXPECT_EQ(now.wait.counts[0], 1U);
  EXPECT_EQ(now.wait.counts[TimeCounts::kBounds], 1U);
  EXPECT_EQ(now.wait.sum, 500'000'000'900U);
  EXPECT_EQ(now.data_wait.sum, 3000U);
}

// Every number of the measures has its own place.
TEST(Measures, TravelAsNumbers) {
  std::vector<std::uint64_t> numbers = to_numbers(Measures());
  std::iota(numbers.begin(), numbers.end(), 100U);
  Measures measures;
  ASSERT_TRUE(from_numbers(numbers, measures));
  EXPECT_EQ(to_numbers(measures), numbers);
  EXPECT_EQ(measures.operations[0], 100U);
  EXPECT_EQ(measures.data_wait.sum, numbers.back());
  numbers.push_back(1);
  EXPECT_FALSE(from_numbers(numbers, measures));
  numbers.resize(numbers.size() - 2);
  EXPECT_FALSE(from_numbers(numbers, measures));
  EXPECT_FALSE(from_numbers({}, measures));
}

TEST(MetricsText, IsPrometheus) {
  const Clock::time_point now = Clock::now();
  Measures measures = some_meters().copy();
  measures.step = 7;
  const std::string text =
      metrics_text({{0, {measures, now}}, {3, {Measures(), now - std::chrono::seconds(2)}}}, now);
  for (const char* line : {"# TYPE kolo_operations_total counter\n",
                           "kolo_operations_total{rank=\"0\",operation=\"allreduce\"} 2\n",
                           "kolo_bytes_total{rank=\"0\",operation=\"allreduce\"} 120\n",
                           "kolo_operations_total{rank=\"0\",operation=\"broadcast\"} 1\n",
                           "kolo_age_seconds{rank=\"0\"} 0\n",
                           "kolo_age_seconds{rank=\"3\"} 2\n",
                           "# TYPE kolo_step gauge\n",
                           "kolo_step{rank=\"0\"} 7\n",
                           "kolo_failed_operations_total{rank=\"0\"} 1\n",
                           "kolo_collectives_total{rank=\"0\"} 2\n",
                           "kolo_buckets_total{rank=\"0\"} 1\n",
                           "kolo_known_names_total{rank=\"0\"} 2\n",
                           "kolo_announced_names_total{rank=\"0\"} 1\n",
                           "kolo_stalls_total{rank=\"0\"} 1\n",
                           "# TYPE kolo_wait_seconds histogram\n",
                           "kolo_wait_seconds_bucket{rank=\"0\",le=\"1e-06\"} 1\n",
                           "kolo_wait_seconds_bucket{rank=\"0\",le=\"67.108864\"} 1\n",
                           "kolo_wait_seconds_bucket{rank=\"0\",le=\"+Inf\"} 2\n",
                           "kolo_wait_seconds_sum{rank=\"0\"} 500.0000009\n",
                           "kolo_wait_seconds_count{rank=\"0\"} 2\n",
                           "kolo_negotiation_seconds_bucket{rank=\"0\",le=\"1e-06\"} 0\n",
                           "kolo_negotiation_seconds_bucket{rank=\"0\",le=\"4e-06\"} 1\n",
                           "kolo_collective_seconds_count{rank=\"3\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("operation=\"alltoall\"")));
}

TEST(MetricsBoard, KeepsTheLast) {
  MetricsBoard board;
  EXPECT_THAT(board.text(), Not(HasSubstr("rank=")));
  Measures measures;
  measures.step = 1;
  board.keep(5, measures);
  measures.step = 2;
  board.keep(5, measures);
  EXPECT_THAT(board.text(), HasSubstr("kolo_step{rank=\"5\"} 2\n"));
}

}  // namespace
}  // namespace kolo
