// backward() through operations: gradients of the sum of all ranks' losses.
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Autograd = WithKolo;

at::Tensor input(at::IntArrayRef shape) {
  return torch::full(shape, static_cast<double>(rank() + 1), at::kDouble).requires_grad_();
}

// The factor of this rank's loss.
double weight() {
  return rank() + 1;
}
double sum_of_weights() {
  return size() * (size() + 1) / 2.0;
}

TEST_F(Autograd, Allreduce) {
  for (const bool named : {false, true}) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
      const at::Tensor x = input({3, 4});
      AllreduceOptions options = op;
      options.prescale_factor(2);
      if (named) options.name("x");
      (allreduce(x, options).sum() * weight()).backward();
      const double expected = 2 * sum_of_weights() / (op == ReduceOp::Sum ? 1 : size());
      EXPECT_TRUE(x.grad().allclose(at::full({3, 4}, expected, at::kDouble)));
    }
  }
  EXPECT_FALSE(allreduce(at::ones({2})).requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(allreduce(input({2})).requires_grad());
}

TEST_F(Autograd, OperatorsWithoutGradientSaySo) {
  const at::Tensor x = input({2});
  const at::Tensor largest = allreduce(x, ReduceOp::Max);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { largest.sum().backward(); }),
              HasSubstr("Max has no gradient"));
}

// Otherwise the penalty would lack what came from the other ranks.
TEST_F(Autograd, ThereAreNoSecondDerivatives) {
  const at::Tensor x = at::full({2}, 3.0).requires_grad_();
  const at::Tensor y = (kolo::allreduce(x) + x).square().sum();
  EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true);
              }),
              HasSubstr("has no derivatives (create_graph)"));
  kolo::barrier();  // nothing is left in flight
}

TEST_F(Autograd, GroupedAllreduceAndUnusedOutputs) {
  const at::Tensor x = input({2});
  const at::Tensor y = input({3});
  const auto sums = grouped_allreduce({x, y}, ReduceOp::Sum);
  (sums[1].sum() * weight()).backward();  // nothing comes back for x
  EXPECT_TRUE(x.grad().equal(at::zeros({2}, at::kDouble)));
  EXPECT_TRUE(y.grad().equal(at::full({3}, sum_of_weights(), at::kDouble)));
}

TEST_F(Autograd, Broadcast) {
  const at::Tensor x = input({3});
  const int root = size() - 1;
  (broadcast(x, root).sum() * weight()).backward();
  EXPECT_TRUE(x.grad().equal(at::full({3}, rank() == root ? sum_of_weights() : 0, at::kDouble)));
}

// Only the root's loss depends on the result; the other ranks' gradients of it are ignored.
TEST_F(Autograd, Reduce) {
  for (int root = 0; root < size(); ++root) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
      for (const std::int64_t rows : {3, 5000}) {
        const at::Tensor x = input({rows, 2});
        const AllreduceOptions options = AllreduceOptions(op).prescale_factor(2);
        (reduce(x, root, options).sum() * weight()).backward();
        const double expected = 2.0 * (root + 1) / (op == ReduceOp::Sum ? 1 : size());
        EXPECT_TRUE(x.grad().allclose(at::full({rows, 2}, expected, at::kDouble)));
      }
    }
  }
  const at::Tensor mine = reduce(input({2, 3}), 0, ReduceOp::Sum);
  mine.add_(1);  // an ordinary tensor on every rank
  EXPECT_EQ(mine.sum().item<double>(), rank() == 0 ? 6 * (sum_of_weights() + 1) : 6);
  const at::Tensor largest = reduce(input({2}), 0, ReduceOp::Max);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { largest.sum().backward(); }),
              HasSubstr("Max has no gradient"));
}

TEST_F(Autograd, AllgatherOfDifferentSizes) {
  const at::Tensor x = input({rank() + 1, 2});
  const at::Tensor all = allgather(x);
  // Row i of the result counts i times.
  const at::Tensor rows = at::arange(all.size(0), at::kDouble).unsqueeze(1);
  ((all * rows).sum() * weight()).backward();
  const std::int64_t begin = rank() * (rank() + 1) / 2;
  const at::Tensor mine = rows.narrow(0, begin, rank() + 1).expand({rank() + 1, 2});
  EXPECT_TRUE(x.grad().allclose(mine * sum_of_weights()));
}

TEST_F(Autograd, Alltoall) {
  // Rank r gives rank p p rows.
  std::vector<std::int64_t> splits;
  for (int p = 0; p < size(); ++p) splits.push_back(p);
  const std::int64_t rows = size() * (size() - 1) / 2;
  const at::Tensor x = input({rows, 2});
  const AlltoallResult result = alltoall(x, splits);
  EXPECT_EQ(result.received_splits, std::vector<std::int64_t>(size(), rank()));
  (result.output.sum() * weight()).backward();
  std::int64_t at = 0;
  for (int p = 0; p < size(); ++p) {
    EXPECT_TRUE(x.grad().narrow(0, at, p).equal(at::full({p, 2}, p + 1, at::kDouble)));
    at += p;
  }
}

TEST_F(Autograd, Reducescatter) {
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
    const at::Tensor x = input({2 * size(), 2});
    (reducescatter(x, ReducescatterOptions(op).postscale_factor(4)).sum() * weight()).backward();
    for (int r = 0; r < size(); ++r) {
      const double expected = 4.0 * (r + 1) / (op == ReduceOp::Sum ? 1 : size());
      EXPECT_TRUE(x.grad().narrow(0, 2 * r, 2).allclose(at::full({2, 2}, expected, at::kDouble)));
    }
  }
}

// Numbers, not formulas: the gradient of a chain of operations against finite differences.
TEST_F(Autograd, AChainAgainstFiniteDifferences) {
  torch::manual_seed(static_cast<std::uint64_t>(rank()));
  const at::Tensor x = torch::randn({size(), 2}, at::kDouble).requires_grad_();
  const auto loss = [&](const at::Tensor& value) {
    const at::Tensor mixed = alltoall(value.tanh()).output;
    const at::Tensor sum = allreduce(mixed * (rank() + 1), ReduceOp::Average);
    return (allgather(sum.narrow(0, 0, 1)).pow(2).sum() + reducescatter(sum.exp()).sum()) *
           (rank() + 1);
  };
  loss(x).backward();
  constexpr double kStep = 1e-6;
  for (int r = 0; r < size(); ++r) {  // every rank evaluates for each rank's value that is changed
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      at::Tensor low = x.detach().clone();
      at::Tensor high = x.detach().clone();
      if (rank() == r) {
        low.view(-1)[i] -= kStep;
        high.view(-1)[i] += kStep;
      }
      const at::Tensor difference = allreduce((loss(high) - loss(low)).detach(), ReduceOp::Sum);
      if (rank() != r) continue;
      EXPECT_NEAR(x.grad().view(-1)[i].item<double>(), difference.item<double>() / (2 * kStep),
                  1e-6);
    }
  }
}

}  // namespace
}  // namespace kolo
