// FusedSGD, FusedAdam and FusedAdamW against LibTorch's own classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/error.h>
#include <kolo/optim/fused.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <memory>
#include <sstream>
#include <utility>
#include <vector>

namespace kolo::optim {
namespace {

using torch::Tensor;
using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGD;
using torch::optim::SGDOptions;

constexpr int kSteps = 12;

// Contiguous, in another order, with gaps, of one element, of none, and of another dtype.
std::vector<Tensor> make_parameters(torch::ScalarType dtype) {
  torch::manual_seed(3);
  std::vector<Tensor> parameters = {
      torch::randn({3, 5}, torch::kDouble).to(dtype),
      torch::randn({2, 3, 4, 2}, torch::kDouble).to(dtype).to(at::MemoryFormat::ChannelsLast),
      torch::randn({4, 6}, torch::kDouble).to(dtype).narrow(1, 1, 3),
      torch::randn({}, torch::kDouble).to(dtype),
      torch::randn({0, 3}, torch::kDouble).to(dtype),
      torch::randn({7}, dtype == torch::kDouble ? torch::kFloat : torch::kDouble)};
  for (Tensor& parameter : parameters) parameter = parameter.detach().requires_grad_();
  return parameters;
}

// Of the second one none in some steps, of the first one in another order than the parameter.
void set_gradients(const std::vector<Tensor>& parameters, int step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters[i];
    const Tensor gradient =
        parameter.detach() * 0.5 + (step % 5 - 2) * 0.25 + 0.125 * static_cast<double>(i);
    parameter.mutable_grad() = i == 1 && step % 3 == 0 ? Tensor()
                               : i == 0                ? gradient.t().contiguous().t()
                                                       : gradient;
  }
}

void train(torch::optim::Optimizer& optimizer, const std::vector<Tensor>& parameters, int first,
           int last) {
  for (int step = first; step < last; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
}

void expect_near(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].numel() == 0) continue;
    const double tolerance = found[i].scalar_type() == torch::kDouble ? 1e-12 : 2e-6;
    EXPECT_LE((found[i] - wanted[i]).abs().max().item<double>(), tolerance) << "parameter " << i;
  }
}

template <class Fused, class Plain, class Options>
void expect_same_training(const Options& options) {
  for (const auto dtype : {torch::kDouble, torch::kFloat}) {
    const std::vector<Tensor> mine = make_parameters(dtype);
    const std::vector<Tensor> theirs = make_parameters(dtype);
    Fused fused(mine, options);
    Plain plain(theirs, options);
    train(fused, mine, 0, kSteps);
    train(plain, theirs, 0, kSteps);
    expect_near(mine, theirs);
  }
}

TEST(FusedOptimizers, SgdComputesWhatLibTorchComputes) {
  expect_same_training<FusedSGD, SGD>(SGDOptions(0.1));
  expect_same_training<FusedSGD, SGD>(SGDOptions(0.1).momentum(0.9));
  expect_same_training<FusedSGD, SGD>(
      SGDOptions(0.1).momentum(0.9).dampening(0.25).weight_decay(0.01));
  expect_same_training<FusedSGD, SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true));
}

TEST(FusedOptimizers, AdamComputesWhatLibTorchComputes) {
  expect_same_training<FusedAdam, Adam>(AdamOptions(0.05));
  expect_same_training<FusedAdam, Adam>(
      AdamOptions(0.05).betas({0.8, 0.95}).eps(1e-3).weight_decay(0.1));
  expect_same_training<FusedAdam, Adam>(AdamOptions(0.05).amsgrad(true));
}

TEST(FusedOptimizers, AdamWComputesWhatLibTorchComputes) {
  expect_same_training<FusedAdamW, AdamW>(AdamWOptions(0.05));
  expect_same_training<FusedAdamW, AdamW>(AdamWOptions(0.05).weight_decay(0.2).amsgrad(true));
}

TEST(FusedOptimizers, GroupsHaveTheirOwnOptions) {
  const auto groups = [](const std::vector<Tensor>& parameters) {
    std::vector<OptimizerParamGroup> made;
    made.emplace_back(std::vector<Tensor>(parameters.begin(), parameters.begin() + 2));
    made.emplace_back(std::vector<Tensor>(parameters.begin() + 2, parameters.end()),
                      std::make_unique<AdamOptions>(AdamOptions(0.5).amsgrad(true)));
    return made;
  };
  const std::vector<Tensor> mine = make_parameters(torch::kDouble);
  const std::vector<Tensor> theirs = make_parameters(torch::kDouble);
  FusedAdam fused(groups(mine), AdamOptions(0.01));
  Adam plain(groups(theirs), AdamOptions(0.01));
  train(fused, mine, 0, kSteps);
  train(plain, theirs, 0, kSteps);
  expect_near(mine, theirs);
}

// Training goes on with the other class, from its archive.
template <class Before, class After, class Options>
void expect_continued(const Options& options) {
  const std::vector<Tensor> unbroken = make_parameters(torch::kDouble);
  Before whole(unbroken, options);
  train(whole, unbroken, 0, kSteps);
  const std::vector<Tensor> broken = make_parameters(torch::kDouble);
  Before before(broken, options);
  train(before, broken, 0, kSteps / 2);
  std::stringstream stream;
  torch::serialize::OutputArchive out;
  before.save(out);
  out.save_to(stream);
  After after(broken, options);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  after.load(in);
  train(after, broken, kSteps / 2, kSteps);
  expect_near(broken, unbroken);
}

TEST(FusedOptimizers, ArchivesAreLibTorchs) {
  expect_continued<FusedSGD, SGD>(SGDOptions(0.1).momentum(0.9));
  expect_continued<SGD, FusedSGD>(SGDOptions(0.1).momentum(0.9));
  expect_continued<FusedAdam, Adam>(AdamOptions(0.05).amsgrad(true));
  expect_continued<Adam, FusedAdam>(AdamOptions(0.05).amsgrad(true));
  expect_continued<FusedAdamW, AdamW>(AdamWOptions(0.05));
  expect_continued<AdamW, FusedAdamW>(AdamWOptions(0.05));
}

// As in Python: real and imaginary parts each by itself.
TEST(FusedOptimizers, Complex) {
  const Tensor pairs = torch::arange(6, torch::kDouble).view({3, 2}).requires_grad_();
  const Tensor complex = at::view_as_complex(pairs.detach().clone()).requires_grad_();
  FusedAdam of_pairs(std::vector<Tensor>{pairs}, AdamOptions(0.1));
  FusedAdam of_complex(std::vector<Tensor>{complex}, AdamOptions(0.1));
  for (int step = 0; step < kSteps; ++step) {
    pairs.mutable_grad() = pairs.detach() + step;
    complex.mutable_grad() = at::view_as_complex(pairs.grad()).clone();
    of_pairs.step();
    of_complex.step();
    EXPECT_TRUE(at::view_as_real(complex.detach()).equal(pairs.detach()));
  }
}

TEST(FusedOptimizers, HalfTypes) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    const Tensor parameter = torch::ones({5}, dtype).requires_grad_();
    FusedSGD optimizer(std::vector<Tensor>{parameter}, SGDOptions(0.5));
    parameter.mutable_grad() = torch::full({5}, 0.5, dtype);
    optimizer.step();
    EXPECT_TRUE(parameter.detach().equal(torch::full({5}, 0.75, dtype)));
  }
}

TEST(FusedOptimizers, ClosureRunsWithGradients) {
  const Tensor parameter = torch::ones({2}).requires_grad_();
  FusedSGD optimizer(std::vector<Tensor>{parameter}, SGDOptions(0.25));
  const Tensor loss = optimizer.step([&] {
    const Tensor sum = parameter.sum();
    sum.backward();
    return sum;
  });
  EXPECT_EQ(loss.item<float>(), 2);
  EXPECT_TRUE(parameter.detach().equal(torch::full({2}, 0.75)));
}

// Nor is another parameter updated.
TEST(FusedOptimizers, SparseGradient) {
  const Tensor dense = torch::ones({2}).requires_grad_();
  const Tensor rows = torch::ones({4, 2}).requires_grad_();
  FusedAdam optimizer(std::vector<Tensor>{dense, rows}, AdamOptions(0.1));
  dense.mutable_grad() = torch::ones({2});
  rows.mutable_grad() = torch::sparse_coo_tensor(torch::tensor({{1}}), torch::ones({1, 2}), {4, 2});
  EXPECT_THROW(optimizer.step(), InvalidArgumentError);
  EXPECT_TRUE(dense.detach().equal(torch::ones({2})));
  EXPECT_TRUE(optimizer.state().empty());
}

// A graph that has saved the parameter notices.
TEST(FusedOptimizers, VersionsCount) {
  const Tensor parameter = torch::ones({2}).requires_grad_();
  FusedAdamW optimizer(std::vector<Tensor>{parameter}, AdamWOptions(0.1));
  const Tensor loss = (parameter * parameter).sum();
  parameter.mutable_grad() = torch::ones({2});
  optimizer.step();
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace kolo::optim
