#include "coordinator/plan.hpp"

#include <gtest/gtest.h>

namespace kolo {
namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

Descriptor tensor(std::int64_t elements, DType dtype = DType::kFloat32,
                  ReduceOp op = ReduceOp::Sum) {
  Descriptor d;
  d.tensors = {{dtype, {elements}}};
  d.op = op;
  return d;
}

Buckets plan(const std::vector<Descriptor>& tensors, const PlanLimits& limits) {
  std::vector<const Descriptor*> pointers;
  for (const Descriptor& t : tensors) pointers.push_back(&t);
  return plan_buckets(pointers, limits);
}

TEST(Plan, SmallTensorsShareABucketInOrder) {
  EXPECT_EQ(plan({tensor(1), tensor(100), tensor(7)}, {}), (Buckets{{0, 1, 2}}));
}

TEST(Plan, ALargeTensorStaysAloneAndTheOthersMeetAcrossIt) {
  EXPECT_EQ(plan({tensor(1), tensor(1 << 20), tensor(7)}, {}), (Buckets{{0, 2}}));
}

TEST(Plan, ABucketIsNotFilledBeyondItsSize) {
  // 64 bytes each, padded
  EXPECT_EQ(plan(std::vector<Descriptor>(5, tensor(1)), {128, 1000}), (Buckets{{0, 1}, {2, 3}}));
}

TEST(Plan, DtypesAndOperatorsDoNotMix) {
  EXPECT_EQ(plan({tensor(1), tensor(1, DType::kFloat64), tensor(2), tensor(2, DType::kFloat64),
                  tensor(1, DType::kFloat32, ReduceOp::Max)},
                 {}),
            (Buckets{{0, 2}, {1, 3}}));
}

TEST(Plan, NothingToFuse) {
  EXPECT_EQ(plan({}, {}), Buckets{});
  EXPECT_EQ(plan({tensor(4)}, {}), Buckets{});
  EXPECT_EQ(plan({tensor(0), tensor(0)}, {}), Buckets{});
  EXPECT_EQ(plan({tensor(4), tensor(4)}, {0, 1000}), Buckets{}) << "fusion is off";
  Descriptor broadcast = tensor(4);
  broadcast.kind = OpKind::kBroadcast;
  EXPECT_EQ(plan({broadcast, broadcast}, {}), Buckets{});
}

}  // namespace
}  // namespace kolo
