// DistributedOptimizer with Adasum: the steps of the ranks are reduced, not their gradients.
#include <cmath>

#include "adasum_reference.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::adasum_of_all;
using testing_support::message_of;
using testing_support::WithKolo;

using AdasumOptimizer = WithKolo;
using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;
using Tensors = std::vector<at::Tensor>;

DistributedOptimizerOptions adasum() {
  return DistributedOptimizerOptions().op(ReduceOp::Adasum);
}

Tensors parameters() {
  torch::manual_seed(5);
  Tensors all;
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{4}, {3, 5}, {2, 3, 4}, {70000}}) {
    all.push_back(torch::randn(shape).requires_grad_());
  }
  return all;
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors)
    copies.push_back(tensor.detach().clone().requires_grad_());
  return copies;
}

// Another gradient on every rank and in every pass.
void backward(const Tensors& all, int pass) {
  at::Tensor loss = torch::zeros({});
  for (std::size_t i = 0; i < all.size(); ++i) {
    torch::manual_seed(static_cast<std::uint64_t>(100 * pass + 10 * rank()) + i);
    loss = loss + (all[i] * torch::randn(all[i].sizes())).sum() + all[i].pow(2).sum() / 8;
  }
  loss.backward();
}

// What the parameters must be after a step that made `stepped` of `before` on this rank.
Tensors expected(const Tensors& before, const Tensors& stepped) {
  Tensors result;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor mine = (stepped[i] - before[i]).detach().to(at::kDouble).unsqueeze(0);
    result.push_back(before[i].detach() + adasum_of_all(allgather(mine)).to(at::kFloat));
  }
  return result;
}

void expect_close(const Tensors& found, const Tensors& wanted, double tolerance) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i].detach().allclose(wanted[i], tolerance, tolerance))
        << "parameter " << i << ", largest difference " << (found[i] - wanted[i]).abs().max();
  }
}

template <class Base, class BaseOptions>
void equals_the_reference(const BaseOptions& base_options,
                          const DistributedOptimizerOptions& options, double tolerance,
                          int passes = 1) {
  const Tensors mine = parameters();
  DistributedOptimizer<Base> optimizer(mine, base_options, options);
  const Tensors twin = parameters();  // keeps the state that this rank's own steps make
  Base alone(twin, base_options);
  for (int step = 0; step < 4; ++step) {
    const Tensors before = copies_of(mine);
    for (int pass = 0; pass < passes; ++pass) {
      backward(mine, passes * step + pass);
      backward(twin, passes * step + pass);
    }
    alone.step();
    const Tensors wanted = expected(before, twin);
    optimizer.step();
    expect_close(mine, wanted, tolerance);
    optimizer.zero_grad();
    alone.zero_grad();
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < mine.size(); ++i) twin[i].copy_(mine[i]);
  }
}

TEST_F(AdasumOptimizer, Sgd) {
  equals_the_reference<torch::optim::SGD>(
      torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01), adasum(), 1e-5);
}

TEST_F(AdasumOptimizer, Adam) {
  equals_the_reference<torch::optim::Adam>(torch::optim::AdamOptions(0.01), adasum(), 1e-5);
}

TEST_F(AdasumOptimizer, WithTheOtherOptions) {
  const torch::optim::SGDOptions sgd = torch::optim::SGDOptions(0.1).momentum(0.9);
  equals_the_reference<torch::optim::SGD>(sgd, adasum().num_groups(2), 1e-5);
  equals_the_reference<torch::optim::SGD>(sgd, adasum().backward_passes_per_step(3), 1e-5, 3);
  equals_the_reference<torch::optim::SGD>(sgd, adasum().compression(Compression::Fp16), 3e-3);
  equals_the_reference<torch::optim::SGD>(
      sgd, adasum().compression(Compression::Bf16).num_groups(3).name("bf16"), 3e-2);
}

TEST_F(AdasumOptimizer, InAProcessSet) {
  if (size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const ProcessSet set = add_process_set({size() - 1, 0});
  if (!set.included()) return;
  const at::Tensor p = torch::zeros({2}).requires_grad_();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(1.0), adasum().process_set(set));
  p[set.rank()].backward();  // orthogonal: they add up
  optimizer.step();
  EXPECT_TRUE(p.detach().equal(torch::full({2}, -1.0)));
}

TEST_F(AdasumOptimizer, RanksThatHaveNoGradient) {
  const at::Tensor used = torch::zeros({3}).requires_grad_();
  const at::Tensor sometimes = torch::zeros({3}).requires_grad_();
  const at::Tensor never = torch::ones({3}).requires_grad_();
  DistributedSgd optimizer(Tensors{never, sometimes, used}, torch::optim::SGDOptions(1.0),
                           adasum());
  for (int step = 1; step <= 4; ++step) {
    optimizer.zero_grad();
    at::Tensor loss = used.sum();
    if (rank() == size() - 1) loss = loss + sometimes.sum();
    loss.backward();
    optimizer.step();
    EXPECT_TRUE(used.detach().allclose(torch::full({3}, -1.0 * step)));  // parallel: the mean
    EXPECT_TRUE(sometimes.detach().allclose(torch::full({3}, -1.0 * step)));
    EXPECT_TRUE(never.detach().equal(torch::ones({3})));
  }
}

TEST_F(AdasumOptimizer, ClosuresHaveTheMeanLoss) {
  const at::Tensor p = torch::zeros({3}).requires_grad_();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(1.0), adasum());
  for (int step = 0; step < 2; ++step) {
    const at::Tensor loss = optimizer.step([&] {
      optimizer.zero_grad();
      p.sum().backward();
      return torch::full({}, rank() + 1.0);
    });
    EXPECT_TRUE(loss.allclose(torch::full({}, (size() + 1) / 2.0))) << loss;
    EXPECT_TRUE(p.detach().allclose(torch::full({3}, -1.0 - step))) << "equal steps are one";
  }
}

// Makes its step, and then throws on one rank.
struct Fails : torch::optim::SGD {
  using SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override {
    const at::Tensor loss = SGD::step(std::move(closure));
    if (now && rank() == kolo::size() - 1) throw std::runtime_error("a step that fails");
    return loss;
  }
  inline static bool now = false;
};

// The others do not wait for the rank, and no parameter has moved.
TEST_F(AdasumOptimizer, AStepThatFailsOnOneRank) {
  if (size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const Tensors all = parameters();
  DistributedOptimizer<Fails> optimizer(all, torch::optim::SGDOptions(0.1), adasum());
  const auto loss = [] { return torch::full({}, rank() + 1.0); };
  for (int step = 0; step < 3; ++step) {
    const Tensors before = copies_of(all);
    backward(all, step);
    Fails::now = true;
    for (const bool has_closure : {false, true, false}) {
      const auto run = [&] { has_closure ? optimizer.step(loss) : optimizer.step(); };
      if (rank() == size() - 1) {
        EXPECT_THAT(message_of<std::runtime_error>(run), HasSubstr("a step that fails"));
      } else {
        EXPECT_THAT(message_of<MismatchError>(run),
                    HasSubstr("step() ended with an error: a step that fails"));
      }
      expect_close(all, before, 0);
    }
    Fails::now = false;
    EXPECT_TRUE(optimizer.step(loss).allclose(torch::full({}, (size() + 1) / 2.0)));
    EXPECT_FALSE(all[0].detach().equal(before[0].detach()));
    for (const at::Tensor& p : all) check_in_sync("a parameter", p.detach());
    optimizer.zero_grad();
  }
}

// A frozen parameter may have a gradient of this rank alone, left over.
TEST_F(AdasumOptimizer, FrozenParametersStay) {
  if (size() < 2) GTEST_SKIP() << "with one rank it is SGD's step";
  const at::Tensor p = torch::zeros({3}).requires_grad_();
  const at::Tensor frozen = torch::zeros({3}).requires_grad_();
  DistributedSgd optimizer(Tensors{p, frozen}, torch::optim::SGDOptions(1.0), adasum());
  ((p.sum() + frozen.sum()) * (rank() + 1)).backward();
  frozen.set_requires_grad(false);
  optimizer.step();
  EXPECT_FALSE(p.detach().equal(torch::zeros({3})));
  EXPECT_TRUE(frozen.equal(torch::zeros({3}))) << frozen;
}

TEST_F(AdasumOptimizer, GradientsStayThisRanksOwn) {
  const at::Tensor p = torch::zeros({3}).requires_grad_();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(1.0), adasum());
  (p.sum() * (rank() + 1)).backward();
  (p.sum() * (rank() + 1)).backward();  // as often as you like
  optimizer.synchronize();
  EXPECT_TRUE(p.grad().equal(torch::full({3}, 2.0F * static_cast<float>(rank() + 1))));
  torch::nn::utils::clip_grad_norm_(Tensors{p}, 1.0);
  optimizer.step();
  // All ranks made the same step, after clipping.
  EXPECT_TRUE(p.detach().allclose(torch::full({3}, -1 / std::sqrt(3.0)), 1e-4)) << p;
  optimizer.zero_grad();
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { const auto guard = optimizer.skip_synchronize(); }),
      HasSubstr("skip_synchronize() with Adasum"));
  const auto guard = optimizer.no_sync();
  (p.sum() * (rank() + 1)).backward();
}

TEST_F(AdasumOptimizer, Closures) {
  const at::Tensor p = torch::ones({3}).requires_grad_();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(1.0), adasum());
  const at::Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    const at::Tensor l = p.sum() * (rank() + 1);
    l.backward();
    return l;
  });
  EXPECT_TRUE(loss.allclose(torch::tensor(1.5F * static_cast<float>(size() + 1))));
  EXPECT_FALSE(p.detach().equal(torch::ones({3})));
}

// A step that cannot be reduced is taken back, on every rank.
TEST_F(AdasumOptimizer, AfterAMismatchNoRankHasMovedAlone) {
  if (size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const at::Tensor same = torch::ones({3}).requires_grad_();
  const at::Tensor odd = torch::ones({rank() == 0 ? 2 : 4}).requires_grad_();
  DistributedSgd optimizer(Tensors{odd, same}, torch::optim::SGDOptions(1.0), adasum());
  (same.sum() + odd.sum()).backward();
  EXPECT_THAT(message_of<MismatchError>([&] { optimizer.step(); }), HasSubstr("shape"));
  EXPECT_TRUE(odd.detach().equal(torch::ones_like(odd)));
  EXPECT_TRUE(same.detach().allclose(torch::zeros({3}), 0, 1e-6)) << same;
  odd.set_requires_grad(false);
  optimizer.step();
  EXPECT_TRUE(same.detach().allclose(torch::full({3}, -1.0), 0, 1e-6)) << same;
}

}  // namespace
}  // namespace kolo
