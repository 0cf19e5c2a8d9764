// allreduce with Adasum.
#include "adasum_reference.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::adasum_of_all;
using testing_support::message_of;
using testing_support::WithKolo;

using Adasum = WithKolo;

// The same on every rank: one row a rank.
at::Tensor random_rows(std::int64_t elements) {
  torch::manual_seed(5);
  return torch::randn({size(), elements}, at::kDouble);
}

TEST_F(Adasum, OrthogonalTensorsAddUp) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    at::Tensor mine = at::zeros({8}, dtype);
    mine[rank()] = rank() + 1;
    const at::Tensor result = allreduce(mine, ReduceOp::Adasum);
    for (int r = 0; r < 8; ++r) EXPECT_EQ(result[r].item<float>(), r < size() ? r + 1 : 0);
  }
}

TEST_F(Adasum, ParallelTensorsAreAveraged) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    EXPECT_TRUE(
        allreduce(at::full({3}, 2, dtype), ReduceOp::Adasum).equal(at::full({3}, 2, dtype)));
  }
  const at::Tensor mine = at::full({2, 3}, rank() + 1.0, at::kDouble);
  const at::Tensor wanted = adasum_of_all(allgather(mine.unsqueeze(0)));
  EXPECT_TRUE(allreduce(mine, ReduceOp::Adasum).allclose(wanted, 1e-12, 1e-12));
}

TEST_F(Adasum, OfAnything) {
  for (const std::int64_t elements : {1, 7, 100, 100000}) {
    const at::Tensor rows = random_rows(elements);
    EXPECT_TRUE(
        allreduce(rows[rank()], ReduceOp::Adasum).allclose(adasum_of_all(rows), 1e-10, 1e-12))
        << elements;
  }
}

TEST_F(Adasum, InLowerPrecision) {
  const at::Tensor rows = random_rows(1000);
  const std::vector<std::pair<at::ScalarType, double>> cases = {
      {at::kFloat, 1e-5}, {at::kHalf, 5e-3}, {at::kBFloat16, 4e-2}};
  for (const auto& [dtype, tolerance] : cases) {
    const at::Tensor result = allreduce(rows[rank()].to(dtype), ReduceOp::Adasum);
    EXPECT_TRUE(result.to(at::kDouble).allclose(adasum_of_all(rows), tolerance, tolerance));
  }
}

// Squares of such values are outside of what float32 holds.
TEST_F(Adasum, OfVeryLargeAndVerySmallValues) {
  const at::Tensor rows = random_rows(100);
  for (const double scale : {1e-30, 1e30}) {
    const at::Tensor mine = (rows[rank()] * scale).to(at::kFloat);
    const at::Tensor result = allreduce(mine, ReduceOp::Adasum).to(at::kDouble) / scale;
    EXPECT_TRUE(result.allclose(adasum_of_all(rows), 1e-5, 1e-5)) << scale;
  }
}

// One rank's values are far larger than the others', whichever it is.
TEST_F(Adasum, OfValuesOfVeryDifferentSize) {
  for (int large = 0; large < size(); ++large) {
    at::Tensor rows = random_rows(100);
    rows[large] *= 1e12;
    const at::Tensor result =
        allreduce(rows[rank()].to(at::kFloat), ReduceOp::Adasum).to(at::kDouble);
    EXPECT_TRUE(result.allclose(adasum_of_all(rows), 1e-5, 1e6)) << large;
  }
}

TEST_F(Adasum, OfZeros) {
  EXPECT_TRUE(allreduce(at::zeros({5}), ReduceOp::Adasum).equal(at::zeros({5})));
  at::Tensor mine = at::zeros({5});
  if (rank() == size() - 1) mine = at::arange(5, at::kFloat);
  EXPECT_TRUE(allreduce(mine, ReduceOp::Adasum).equal(at::arange(5, at::kFloat)));
}

// Each tensor of a group has dot products of its own.
TEST_F(Adasum, TensorsOfAGroup) {
  at::Tensor orthogonal = at::zeros({8});
  orthogonal[rank()] = rank() + 1;
  const auto results = grouped_allreduce({orthogonal, at::full({3}, 2.0)}, ReduceOp::Adasum);
  for (int r = 0; r < size(); ++r) EXPECT_EQ(results[0][r].item<float>(), r + 1);
  EXPECT_TRUE(results[1].equal(at::full({3}, 2.0)));
}

TEST_F(Adasum, IsForFloatingPoint) {
  EXPECT_THAT(message_of<InvalidArgumentError>(
                  [] { allreduce(at::ones({2}, at::kInt), ReduceOp::Adasum); }),
              HasSubstr("floating point"));
}

}  // namespace
}  // namespace kolo
