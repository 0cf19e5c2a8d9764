#include <kolo/metrics.h>

#include <chrono>
#include <thread>
#include <vector>

#include "fixture.hpp"

namespace kolo {
namespace {

using testing_support::message_of;
using testing_support::WithKolo;

class MetricsTest : public WithKolo {};

TEST_F(MetricsTest, CountWhatThisRankDid) {
  const Metrics before = metrics();
  for (int i = 0; i < 3; ++i) allreduce(torch::ones({10}), "x");
  broadcast(torch::ones({5}, torch::kInt64), 0, "y");
  barrier();
  const Metrics after = metrics();
  const auto counted = [&](const std::string& name) {
    const auto old = before.operations.find(name);
    const OperationMetrics base = old == before.operations.end() ? OperationMetrics() : old->second;
    const OperationMetrics& now = after.operations.at(name);
    return OperationMetrics{now.operations - base.operations, now.bytes - base.bytes};
  };
  EXPECT_EQ(counted("allreduce").operations, 3U);
  EXPECT_EQ(counted("allreduce").bytes, 120U);
  EXPECT_EQ(counted("broadcast").operations, 1U);
  EXPECT_EQ(counted("broadcast").bytes, 40U);
  EXPECT_EQ(counted("barrier").operations, 1U);
  // A barrier moves nothing: all have agreed, and that is it.
  EXPECT_EQ(after.collectives - before.collectives, 4U);
  EXPECT_EQ(after.known_names - before.known_names, 2U);
  EXPECT_EQ(after.announced_names - before.announced_names, 3U);
  EXPECT_EQ(after.failed, before.failed);
  EXPECT_EQ(after.negotiation.count() - before.negotiation.count(), 4U);
  EXPECT_EQ(after.collective.count() - before.collective.count(), 4U);
  EXPECT_LE(after.wait.count() - before.wait.count(), 5U);
  EXPECT_EQ(after.wait.counts.size(), after.wait.bounds.size() + 1);
  EXPECT_EQ(after.wait.bounds.front(), 1e-6);
}

TEST_F(MetricsTest, CountBuckets) {
  std::vector<torch::Tensor> tensors(4, torch::Tensor());
  for (torch::Tensor& tensor : tensors) tensor = torch::ones({8});
  const Metrics before = metrics();
  for (int step = 0; step < 6; ++step) {
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      handles.push_back(allreduce_async_(tensors[i], "bucketed." + std::to_string(i)));
    for (Handle& handle : handles) handle.wait();
  }
  const Metrics after = metrics();
  const std::uint64_t buckets = after.buckets - before.buckets;
  EXPECT_GE(buckets, 3U);
  EXPECT_EQ(after.collectives - before.collectives, 24 - 3 * buckets);
  EXPECT_EQ(
      after.operations.at("allreduce").operations -
          (before.operations.count("allreduce") > 0 ? before.operations.at("allreduce").operations
                                                    : 0),
      24U);
}

// This rank's own rows.
TEST_F(MetricsTest, CountTheBytesOfUnevenTensors) {
  const Metrics before = metrics();
  allgather(torch::ones({rank() + 2, 3}), "rows");
  grouped_allreduce({torch::ones({4}), torch::ones({6})}, "group");
  const Metrics after = metrics();
  const auto bytes = [](const Metrics& all, const char* name) {
    const auto found = all.operations.find(name);
    return found == all.operations.end() ? OperationMetrics() : found->second;
  };
  EXPECT_EQ(bytes(after, "allgather").bytes - bytes(before, "allgather").bytes,
            static_cast<std::uint64_t>(12 * (rank() + 2)));
  EXPECT_EQ(bytes(after, "allreduce").bytes - bytes(before, "allreduce").bytes, 40U);
  EXPECT_EQ(bytes(after, "allreduce").operations - bytes(before, "allreduce").operations, 2U);
}

TEST_F(MetricsTest, CountFailures) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const std::uint64_t before = metrics().failed;
  EXPECT_THROW(allreduce(torch::ones({1 + rank()}), "z"), MismatchError);
  EXPECT_EQ(metrics().failed - before, 1U);
}

TEST_F(MetricsTest, MeasureWaiting) {
  if (size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  barrier();
  const double before = metrics().wait.sum;
  if (rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  barrier();
  const double waited = metrics().wait.sum - before;
  if (rank() == 0) {
    EXPECT_LT(waited, 1.5);
  } else {
    EXPECT_GE(waited, 0.5);
  }
}

TEST(MetricsWithoutKolo, AreRefused) {
  EXPECT_THAT(message_of<NotInitializedError>([] { metrics(); }),
              ::testing::HasSubstr("kolo::metrics() needs kolo::init()"));
}

}  // namespace
}  // namespace kolo
