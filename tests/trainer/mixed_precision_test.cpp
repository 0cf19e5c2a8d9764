// GradScaler and AutocastGuard: on one process and, with ranks, that all of them decide alike.
#include <limits>
#include <sstream>

#include "torch_ops/fixture.hpp"
#include "trainer/training_reference.hpp"

namespace kolo {
namespace {

using testing_support::WithKolo;
using MixedPrecision = WithKolo;
using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_F(MixedPrecision, TheFactorIsPythons) {
  for (const test::TrainingReference& reference : test::scaler_references()) {
    GradScalerOptions options;
    for (const auto& [name, value] : reference.options) {
      if (name == "init_scale") options.init_scale(value);
      if (name == "growth_factor") options.growth_factor(value);
      if (name == "backoff_factor") options.backoff_factor(value);
      if (name == "growth_interval") options.growth_interval(static_cast<std::int64_t>(value));
    }
    const at::Tensor p = torch::ones({3}).requires_grad_();
    DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
    GradScaler scaler(options);
    for (std::size_t step = 0; step < test::kOverflows.size(); ++step) {
      optimizer.zero_grad();
      const bool overflows = test::kOverflows[step] != 0;
      scaler.scale(p.sum() * (overflows ? kInfinity : 1)).backward();
      EXPECT_EQ(scaler.step(optimizer), !overflows);
      scaler.update();
      EXPECT_NEAR(scaler.get_scale(), reference.values[step], 1e-6 * reference.values[step])
          << "step " << step;
    }
  }
}

TEST_F(MixedPrecision, StepsAreThoseWithoutScaling) {
  const at::Tensor scaled = torch::ones({3}).requires_grad_();
  const at::Tensor plain = torch::ones({3}).requires_grad_();
  DistributedSgd with(std::vector<at::Tensor>{scaled}, torch::optim::SGDOptions(0.5));
  DistributedSgd without(std::vector<at::Tensor>{plain}, torch::optim::SGDOptions(0.5));
  GradScaler scaler;
  for (int step = 0; step < 3; ++step) {
    with.zero_grad();
    without.zero_grad();
    scaler.scale(scaled.pow(2).sum() * (rank() + 1)).backward();
    (plain.pow(2).sum() * (rank() + 1)).backward();
    if (step == 1) {
      scaler.unscale_(with);
      EXPECT_TRUE(scaled.grad().equal(plain.grad()));
    }
    EXPECT_TRUE(scaler.step(with));
    without.step();
    scaler.update();
    EXPECT_TRUE(scaled.detach().equal(plain.detach()));
  }
}

// Two optimizers, and the overflow of one rank alone: its gradients are not averaged.
TEST_F(MixedPrecision, AllRanksSkipAStepThatOverflowsOnOne) {
  const at::Tensor p = torch::ones({3}).requires_grad_();
  const at::Tensor q = torch::ones({3}).requires_grad_();
  torch::optim::SGD first(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  torch::optim::SGD second(std::vector<at::Tensor>{q}, torch::optim::SGDOptions(1.0));
  GradScaler scaler(GradScalerOptions().init_scale(8).growth_interval(2));
  const auto advance = [&](float gradient) {
    p.mutable_grad() = torch::full({3}, gradient * 8);
    q.mutable_grad() = torch::full({3}, 8.0F);
    const bool stepped = scaler.step(first);
    EXPECT_TRUE(scaler.step(second)) << "whose gradients are finite";
    scaler.update();
    return stepped;
  };
  EXPECT_FALSE(advance(rank() == size() - 1 ? kInfinity : 1));
  EXPECT_TRUE(p.detach().equal(torch::ones({3})));
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_FALSE(advance(rank() == 0 ? std::numeric_limits<float>::quiet_NaN() : 1));
  EXPECT_EQ(scaler.get_scale(), 2);
  EXPECT_TRUE(advance(1));
  EXPECT_EQ(scaler.get_scale(), 2);
  EXPECT_TRUE(advance(1));
  EXPECT_EQ(scaler.get_scale(), 4) << "after two steps in a row";
}

TEST_F(MixedPrecision, ScalersAreSaved) {
  const at::Tensor p = torch::ones({3}).requires_grad_();
  torch::optim::SGD optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  GradScaler scaler(GradScalerOptions().growth_interval(2));
  const auto advance = [&](GradScaler& one) {
    p.mutable_grad() = torch::ones({3});
    one.step(optimizer);
    one.update();
  };
  advance(scaler);
  torch::serialize::OutputArchive out;
  scaler.save(out);
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  GradScaler restored(GradScalerOptions().init_scale(1).growth_interval(2));
  restored.load(in);
  EXPECT_EQ(restored.get_scale(), 65536);
  advance(restored);
  EXPECT_EQ(restored.get_scale(), 131072) << "the first step counts";
  GradScaler sooner(GradScalerOptions().growth_interval(1));
  sooner.load(in);
  advance(sooner);
  EXPECT_EQ(sooner.get_scale(), 131072) << "it had to grow before";
}

// backward() has reduced the gradients already: the infinity is everywhere.
TEST_F(MixedPrecision, DistributedOptimizersSkipTogether) {
  const at::Tensor p = torch::ones({3}).requires_grad_();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  GradScaler scaler(GradScalerOptions().init_scale(8));
  for (const float slope : {rank() == size() - 1 ? kInfinity : 1, 1.0F}) {
    optimizer.zero_grad();
    scaler.scale((p * slope).sum()).backward();
    EXPECT_EQ(scaler.step(optimizer), scaler.get_scale() == 4);
    scaler.update();
  }
  EXPECT_TRUE(p.detach().equal(torch::zeros({3})));
}

TEST_F(MixedPrecision, LoadRefusesNonsense) {
  for (const double scale : {0.0, -1.0, static_cast<double>(kInfinity)}) {
    torch::serialize::OutputArchive out;
    out.write("scale", c10::IValue(scale));
    out.write("steps_without_overflow", c10::IValue(std::int64_t{0}));
    std::stringstream stream;
    out.save_to(stream);
    torch::serialize::InputArchive in;
    in.load_from(stream);
    GradScaler scaler;
    EXPECT_THROW(scaler.load(in), InvalidArgumentError);
    EXPECT_EQ(scaler.get_scale(), 65536);
  }
}

TEST_F(MixedPrecision, WrongUse) {
  EXPECT_THROW(GradScaler(GradScalerOptions().init_scale(0)), InvalidArgumentError);
  EXPECT_THROW(GradScaler(GradScalerOptions().growth_factor(1)), InvalidArgumentError);
  EXPECT_THROW(GradScaler(GradScalerOptions().backoff_factor(1)), InvalidArgumentError);
  EXPECT_THROW(GradScaler(GradScalerOptions().growth_interval(0)), InvalidArgumentError);
  const at::Tensor p = torch::ones({3}).requires_grad_();
  torch::optim::SGD optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  GradScaler scaler;
  EXPECT_THROW(scaler.update(), InvalidArgumentError) << "before a step";
  p.mutable_grad() = torch::ones({3});
  scaler.unscale_(optimizer);
  EXPECT_THROW(scaler.unscale_(optimizer), InvalidArgumentError) << "twice";
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_THROW(scaler.step(optimizer), InvalidArgumentError) << "without update()";
  EXPECT_THROW(scaler.unscale_(optimizer), InvalidArgumentError) << "after the step";
  scaler.update();
  const at::Tensor half = torch::ones({3}, torch::kHalf).requires_grad_();
  half.mutable_grad() = torch::ones({3}, torch::kHalf);
  torch::optim::SGD of_half(std::vector<at::Tensor>{half}, torch::optim::SGDOptions(1.0));
  EXPECT_THROW(scaler.unscale_(of_half), InvalidArgumentError);
  GradScaler off(GradScalerOptions().enabled(false));
  EXPECT_EQ(off.get_scale(), 1);
  EXPECT_TRUE(off.scale(p.sum()).equal(p.sum()));
  EXPECT_TRUE(off.step(optimizer));
  off.update();
}

// A parameter that is listed twice, a gradient of two parameters, and gradients that are sparse.
TEST_F(MixedPrecision, EachGradientIsDividedOnce) {
  const at::Tensor p = torch::ones({3}).requires_grad_();
  const at::Tensor q = torch::ones({3}).requires_grad_();
  const at::Tensor rows = torch::ones({4, 2}).requires_grad_();
  torch::optim::SGD optimizer(std::vector<at::Tensor>{p, q, rows, p},
                              torch::optim::SGDOptions(1.0));
  GradScaler scaler(GradScalerOptions().init_scale(4));
  p.mutable_grad() = torch::full({3}, 4.0F);
  q.mutable_grad() = p.grad();
  rows.mutable_grad() =
      torch::sparse_coo_tensor(torch::tensor({{1, 1}}), torch::full({2, 2}, 4.0F), {4, 2});
  scaler.unscale_(optimizer);
  EXPECT_TRUE(p.grad().equal(torch::ones({3})));
  EXPECT_TRUE(q.grad().equal(torch::ones({3})));
  EXPECT_TRUE(rows.grad().to_dense()[1].equal(torch::full({2}, 2.0F)));
}

TEST_F(MixedPrecision, AutocastIsRestored) {
  const at::Tensor a = torch::ones({4, 4});
  EXPECT_EQ(a.matmul(a).scalar_type(), torch::kFloat);
  {
    const AutocastGuard outer(at::kCPU, at::kBFloat16);
    EXPECT_EQ(a.matmul(a).scalar_type(), torch::kBFloat16);
    {
      const AutocastGuard off(at::kCPU, at::kBFloat16, false);
      EXPECT_EQ(a.matmul(a).scalar_type(), torch::kFloat);
    }
    {
      const AutocastGuard inner(at::kCPU, at::kHalf);
      EXPECT_EQ(a.matmul(a).scalar_type(), torch::kHalf);
    }
    EXPECT_EQ(a.matmul(a).scalar_type(), torch::kBFloat16);
    EXPECT_THROW(AutocastGuard(at::kCPU, at::kFloat), InvalidArgumentError);
  }
  EXPECT_EQ(a.matmul(a).scalar_type(), torch::kFloat);
}

}  // namespace
}  // namespace kolo
