// A parameter whose gradient is sparse on some ranks, dense on others, and not there on the rest.
#include "fixture.hpp"

namespace kolo {
namespace {

using testing_support::WithKolo;

using MixedGradients = WithKolo;
using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;
using Tensors = std::vector<at::Tensor>;

enum class Kind { kNone, kDense, kSparse };

// What rank 0 has in a step, and what the others have.
struct Step {
  Kind first;
  Kind others;
  Kind of(int r) const { return r == 0 ? first : others; }
};
constexpr Step kSteps[] = {
    {Kind::kSparse, Kind::kSparse}, {Kind::kSparse, Kind::kNone},  {Kind::kNone, Kind::kSparse},
    {Kind::kDense, Kind::kSparse},  {Kind::kSparse, Kind::kDense}, {Kind::kDense, Kind::kNone},
    {Kind::kNone, Kind::kDense},    {Kind::kNone, Kind::kNone},    {Kind::kDense, Kind::kDense}};
constexpr std::size_t kCount = std::size(kSteps);

// Of rank r; in the sparse one a row comes twice.
at::Tensor loss(const at::Tensor& p, Kind kind, int r) {
  if (kind == Kind::kDense) return (p * torch::arange(12).reshape({6, 2})).sum() * (r + 1);
  const at::Tensor rows = torch::tensor({r, 4, 4}, at::kLong);
  return at::embedding(p, rows, -1, false, /*sparse=*/true).sum() * (r + 2);
}

// The sum of all ranks' gradients; undefined if none has one.
at::Tensor sum_of_all(const Step& step) {
  at::Tensor sum;
  for (int r = 0; r < size(); ++r) {
    if (step.of(r) == Kind::kNone) continue;
    const at::Tensor p = torch::zeros({6, 2}).requires_grad_();
    loss(p, step.of(r), r).backward();
    const at::Tensor gradient = p.grad().is_sparse() ? p.grad().to_dense() : p.grad();
    sum = sum.defined() ? sum + gradient : gradient;
  }
  return sum;
}

void train(std::size_t first_step, const DistributedOptimizerOptions& options) {
  const at::Tensor p = torch::zeros({6, 2}).requires_grad_();
  const at::Tensor dense = torch::zeros({3}).requires_grad_();
  DistributedSgd optimizer(Tensors{p, dense}, torch::optim::SGDOptions(1.0), options);
  for (std::size_t i = 0; i < 2 * kCount; ++i) {
    const Step& step = kSteps[(first_step + i) % kCount];
    SCOPED_TRACE("begun with kind of step " + std::to_string(first_step) + ", step " +
                 std::to_string(i));
    const at::Tensor before = p.detach().clone();
    optimizer.zero_grad();
    at::Tensor total = dense.sum();
    if (step.of(rank()) != Kind::kNone) total = total + loss(p, step.of(rank()), rank());
    total.backward();
    optimizer.step();
    EXPECT_TRUE(dense.grad().allclose(torch::ones({3})));
    const at::Tensor sum = sum_of_all(step);
    const at::Tensor wanted = sum.defined() ? sum / size() : torch::zeros({6, 2});
    EXPECT_TRUE((before - p.detach()).allclose(wanted, 1e-5, 1e-4)) << before - p << wanted;
  }
}

TEST_F(MixedGradients, AreReducedAsIfDense) {
  for (std::size_t first_step = 0; first_step < kCount; ++first_step)
    train(first_step, DistributedOptimizerOptions());
}

TEST_F(MixedGradients, WithOtherOptions) {
  for (const std::size_t first_step : {1, 2, 3, 4}) {
    train(first_step, DistributedOptimizerOptions().num_groups(1));
    train(first_step, DistributedOptimizerOptions().sparse_as_dense(true));
    train(first_step, DistributedOptimizerOptions().gradient_predivide_factor(size()));
  }
}

// With momentum a gradient of zeros moves the parameter, and one that is undefined does not.
TEST_F(MixedGradients, OneThatNoRankHasStaysUndefined) {
  const at::Tensor p = torch::zeros({6, 2}).requires_grad_();
  const at::Tensor dense = torch::zeros({3}).requires_grad_();
  DistributedSgd optimizer(Tensors{p, dense}, torch::optim::SGDOptions(1.0));
  const auto rows = [&](at::IntArrayRef indices) {
    return at::embedding(p, torch::tensor(indices, at::kLong), -1, false, /*sparse=*/true).sum();
  };
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    (dense.sum() + rows({1})).backward();
    optimizer.step();
    optimizer.zero_grad();
    dense.sum().backward();
    optimizer.step();
    EXPECT_FALSE(p.grad().defined());
    // A gradient without rows is one.
    optimizer.zero_grad();
    (rank() == 0 ? dense.sum() + rows({}) : dense.sum()).backward();
    optimizer.step();
    ASSERT_TRUE(p.grad().defined());
    EXPECT_TRUE(p.grad().to_dense().equal(torch::zeros({6, 2})));
  }
}

}  // namespace
}  // namespace kolo
