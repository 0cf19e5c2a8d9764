// sparse_allreduce() against the sum of dense tensors.
#include "even_and_odd.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::even_and_odd;
using testing_support::message_of;
using testing_support::own;
using testing_support::WithKolo;

using Sparse = WithKolo;

at::Tensor sparse(std::vector<std::int64_t> rows, double value, at::ScalarType dtype = at::kFloat) {
  const auto count = static_cast<std::int64_t>(rows.size());
  return at::sparse_coo_tensor(at::tensor(rows).unsqueeze(0), at::full({count, 2}, value, dtype),
                               {10, 2});
}

TEST_F(Sparse, SumAndAverage) {
  for (int repeat = 0; repeat < 3; ++repeat) {  // other indices each time, the same name
    // Row 1 of every rank, twice; a row of its own; and nothing on rank 0 in the last round.
    const bool none = repeat == 2 && rank() == 0;
    const at::Tensor mine =
        none ? sparse({}, 1) : sparse({1, 1, 2 + (rank() + repeat) % 8}, rank() + 1);
    at::Tensor wanted = allreduce(mine.to_dense(), ReduceOp::Sum);
    const at::Tensor sum = sparse_allreduce(mine, AllreduceOptions("s").op(ReduceOp::Sum));
    EXPECT_TRUE(sum.is_coalesced());
    EXPECT_TRUE(sum.to_dense().allclose(wanted));
    Handle handle = sparse_allreduce_async(mine, AllreduceOptions("a").prescale_factor(3));
    EXPECT_TRUE(handle.wait().to_dense().allclose(wanted * 3 / size()));
  }
}

TEST_F(Sparse, WaitingTwiceGivesTheSame) {
  const at::Tensor mine = sparse({1, 2 + rank()}, rank() + 1);
  Handle handle = sparse_allreduce_async(mine, AllreduceOptions().prescale_factor(5));
  const at::Tensor first = handle.wait().to_dense();
  EXPECT_TRUE(first.allclose(allreduce(mine.to_dense()) * 5));
  EXPECT_TRUE(handle.wait().to_dense().equal(first));
}

// What rank r has in reduction i: rows, elements of a matrix, or scalars; some of them twice, and
// at times nothing. Whole numbers, so that sums are exact.
at::Tensor of_rank(int r, int i) {
  torch::manual_seed(static_cast<std::uint64_t>(100 * i + r));
  const std::int64_t extent = std::vector<std::int64_t>{17, 32, 81, 12, 15, 23, 22}[i % 7];
  const at::ScalarType dtype = i % 2 == 0 ? at::kFloat : at::kDouble;
  const std::int64_t count = (i + r) % 4 * 5;
  const at::Tensor rows = at::randint(extent, {1, count});
  if (i % 3 == 0)
    return at::sparse_coo_tensor(rows, at::randint(-4, 5, {count, 10}).to(dtype), {extent, 10});
  const at::Tensor values = at::randint(-4, 5, {count}).to(dtype);
  if (i % 3 == 1) return at::sparse_coo_tensor(rows, values, {extent});
  return at::sparse_coo_tensor(at::cat({rows, at::randint(10, {1, count})}), values, {extent, 10});
}

TEST_F(Sparse, ManyAtOnceAmongAllAndInSets) {
  constexpr int kMany = 35;
  const std::vector<ProcessSet> sets = even_and_odd();
  for (const ReduceOp op : {ReduceOp::Average, ReduceOp::Sum}) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<Handle> handles[2];
      const ProcessSet in[2] = {ProcessSet(), own(sets)};
      for (int i = 0; i < kMany; ++i) {
        for (const int where : {0, 1}) {
          handles[where].push_back(sparse_allreduce_async(
              of_rank(rank(), i),
              AllreduceOptions("s" + std::to_string(i)).op(op).process_set(in[where])));
        }
      }
      for (int i = kMany - 1; i >= 0; --i) {
        for (const int where : {1, 0}) {
          const std::vector<int> ranks = in[where].ranks();
          at::Tensor wanted = at::zeros_like(of_rank(0, i).to_dense());
          for (const int r : ranks) wanted += of_rank(r, i).to_dense();
          if (op == ReduceOp::Average) wanted /= static_cast<double>(ranks.size());
          const at::Tensor result = handles[where][static_cast<std::size_t>(i)].wait();
          EXPECT_EQ(result.scalar_type(), wanted.scalar_type());
          EXPECT_TRUE(result.to_dense().allclose(wanted, 1e-6, 1e-6))
              << "reduction " << i << " of " << ranks.size() << " ranks";
        }
      }
    }
  }
}

// Integers are rounded towards zero, once, where dense ones are.
TEST_F(Sparse, Integers) {
  for (const at::ScalarType dtype : {at::kInt, at::kLong}) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
      const at::Tensor mine = sparse({1, 1, 2 + rank()}, -3 - 4 * rank(), dtype);
      at::Tensor wanted = at::zeros({10, 2}, at::kLong);
      for (int r = 0; r < size(); ++r)
        wanted += sparse({1, 1, 2 + r}, -3 - 4 * r, at::kLong).to_dense();
      if (op == ReduceOp::Average) wanted = at::div(wanted, size(), "trunc");
      const at::Tensor result = sparse_allreduce(mine, op);
      EXPECT_EQ(result.scalar_type(), dtype);
      EXPECT_TRUE(result.to_dense().to(at::kLong).equal(wanted)) << result.to_dense() << wanted;
      EXPECT_TRUE(result.to_dense().equal(allreduce(mine.to_dense(), op)));
    }
  }
}

TEST_F(Sparse, Errors) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { sparse_allreduce(at::ones({2}), "s"); }),
              HasSubstr("is not sparse"));
  EXPECT_THAT(
      message_of<InvalidArgumentError>([] { sparse_allreduce(sparse({1}, 1), ReduceOp::Max); }),
      HasSubstr("no Max"));
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const at::Tensor other =
      at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1, 2}), {11, 2});
  EXPECT_THAT(message_of<MismatchError>(
                  [&] { sparse_allreduce(rank() == 0 ? other : sparse({1}, 1), "size"); }),
              HasSubstr("content: a sparse tensor of float32 and size [11, 2] on rank 0"));
  const at::Tensor sum =
      sparse_allreduce(sparse({1}, 1), AllreduceOptions("size").op(ReduceOp::Sum));
  EXPECT_TRUE(sum.to_dense().equal(sparse({1}, size()).to_dense())) << "the next one works";
}

}  // namespace
}  // namespace kolo
