// kolo::optim::Adadelta against values that Python's torch computed (adadelta_reference.hpp), and
// as a LibTorch optimizer: schedulers, parameter groups, saving and loading.
#include "kolo/optim/adadelta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <cmath>
#include <ostream>
#include <sstream>

#include "kolo/error.h"
#include "torch_ops/adadelta_reference.hpp"

namespace kolo::test {

void PrintTo(const AdadeltaReference& reference, std::ostream* out) {
  *out << reference.name;
}

}  // namespace kolo::test

namespace kolo::optim {
namespace {

using test::AdadeltaReference;
using torch::Tensor;
using torch::optim::OptimizerParamGroup;

constexpr int kSteps = 20;
constexpr int kStepsAnEpoch = 5;

// These two are those of make_adadelta_reference.py.
std::vector<Tensor> make_parameters(torch::ScalarType dtype) {
  Tensor values = torch::arange(8, torch::kFloat64).mul(5).remainder(8).sub(4).div(4).to(dtype);
  std::vector<Tensor> parameters = {values.slice(0, 0, 6).view({2, 3}).clone(),
                                    values.slice(0, 6, 8).clone()};
  for (Tensor& parameter : parameters) parameter.requires_grad_();
  return parameters;
}

Tensor loss_of(const std::vector<Tensor>& parameters, int step) {
  const double slope = (7 * step % 17 - 8) / 8.0;
  Tensor loss = torch::zeros({}, parameters[0].scalar_type());
  for (const Tensor& parameter : parameters) {
    // One after the other as in Python: the order decides the order in which gradients are added.
    const Tensor square = 0.5 * parameter * parameter;
    const Tensor linear = slope * parameter;
    loss = loss + (square + linear).sum();
  }
  return loss;
}

void train(Adadelta& optimizer, const std::vector<Tensor>& parameters, int first, int last) {
  for (int step = first; step <= last; ++step) {
    optimizer.zero_grad();
    loss_of(parameters, step).backward();
    optimizer.step();
  }
}

AdadeltaParamState& state_of(Adadelta& optimizer, const Tensor& parameter) {
  return static_cast<AdadeltaParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
}

void expect_near(const std::vector<Tensor>& tensors, const std::array<double, 8>& expected,
                 const AdadeltaReference& reference, const std::string& what) {
  std::vector<Tensor> flat;
  flat.reserve(tensors.size());
  for (const Tensor& tensor : tensors)
    flat.push_back(tensor.detach().to(torch::kFloat64).flatten());
  const Tensor values = torch::cat(flat);
  const Tensor right =
      torch::tensor(std::vector<double>(expected.begin(), expected.end()), torch::kFloat64);
  const double difference =
      (values - right).abs().max().item<double>() / right.abs().max().item<double>();
  // Another CPU's kernels may round differently, so some units in the last place are allowed.
  EXPECT_LE(difference, reference.is_float64 ? 1e-14 : 1e-6) << what << ": " << values << right;
}

class AdadeltaAsPython : public ::testing::TestWithParam<AdadeltaReference> {};

TEST_P(AdadeltaAsPython, TwentySteps) {
  const AdadeltaReference& reference = GetParam();
  const auto parameters = make_parameters(reference.is_float64 ? torch::kFloat64 : torch::kFloat32);
  Adadelta optimizer(parameters, AdadeltaOptions(reference.lr)
                                     .rho(reference.rho)
                                     .eps(reference.eps)
                                     .weight_decay(reference.weight_decay));
  torch::optim::StepLR scheduler(optimizer, 1, 0.7);
  scheduler.step();  // changes nothing yet; Python's scheduler makes this step in its constructor
  std::size_t shown = 0;
  for (int step = 1; step <= kSteps; ++step) {
    train(optimizer, parameters, step, step);
    if (step == test::kAdadeltaShownSteps.at(shown)) {
      const std::string what = "parameters after step " + std::to_string(step);
      expect_near(parameters, reference.parameters.at(shown++), reference, what);
    }
    if (step % kStepsAnEpoch == 0) {
      scheduler.step();
      const double rate =
          reference.learning_rates.at(static_cast<std::size_t>(step / kStepsAnEpoch) - 1);
      EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), rate);
    }
  }
  std::vector<Tensor> square_avg;
  std::vector<Tensor> acc_delta;
  for (const Tensor& parameter : parameters) {
    const AdadeltaParamState& state = state_of(optimizer, parameter);
    EXPECT_EQ(state.step(), kSteps);
    square_avg.push_back(state.square_avg());
    acc_delta.push_back(state.acc_delta());
  }
  expect_near(square_avg, reference.square_avg, reference, "square_avg");
  expect_near(acc_delta, reference.acc_delta, reference, "acc_delta");
}

INSTANTIATE_TEST_SUITE_P(, AdadeltaAsPython, ::testing::ValuesIn(test::kAdadeltaReferences),
                         [](const auto& reference) { return std::string(reference.param.name); });

// Complex parameters are pairs of real ones.
TEST(Adadelta, Complex) {
  const Tensor real = torch::arange(6, torch::kFloat64).view({3, 2}).requires_grad_();
  const Tensor complex = torch::view_as_complex(real.detach().clone()).clone().requires_grad_();
  Adadelta real_optimizer(std::vector<Tensor>{real}, AdadeltaOptions().weight_decay(0.5));
  Adadelta complex_optimizer(std::vector<Tensor>{complex}, AdadeltaOptions().weight_decay(0.5));
  for (int step = 0; step < 3; ++step) {
    const Tensor gradient = torch::arange(6, torch::kFloat64).view({3, 2}).sub(step);
    real.mutable_grad() = gradient;
    complex.mutable_grad() = torch::view_as_complex(gradient);
    real_optimizer.step();
    complex_optimizer.step();
  }
  EXPECT_TRUE(torch::view_as_real(complex.detach()).equal(real.detach()));
}

TEST(Adadelta, ParametersWithoutGradientStayAsTheyAre) {
  const auto parameters = make_parameters(torch::kFloat32);
  const Tensor before = parameters[1].detach().clone();
  Adadelta optimizer(parameters, AdadeltaOptions().weight_decay(0.5));
  parameters[0].mutable_grad() = torch::ones({2, 3});
  optimizer.step();
  EXPECT_TRUE(parameters[1].detach().equal(before));
  EXPECT_EQ(optimizer.state().size(), 1U);
}

TEST(Adadelta, ClosureRunsWithGradients) {
  const auto parameters = make_parameters(torch::kFloat32);
  Adadelta optimizer(parameters);
  const Tensor before = parameters[0].detach().clone();
  const Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    Tensor value = loss_of(parameters, 1);
    value.backward();
    return value;
  });
  EXPECT_TRUE(loss.defined());
  EXPECT_FALSE(parameters[0].detach().equal(before));
  EXPECT_FALSE(optimizer.step().defined());
}

TEST(Adadelta, GroupsHaveTheirOwnOptions) {
  const auto parameters = make_parameters(torch::kFloat32);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{parameters[0]});
  groups.emplace_back(std::vector<Tensor>{parameters[1]}, std::make_unique<AdadeltaOptions>(0.0));
  Adadelta optimizer(groups, AdadeltaOptions(0.5).rho(0.75));
  EXPECT_EQ(static_cast<AdadeltaOptions&>(optimizer.param_groups()[0].options()),
            AdadeltaOptions(0.5).rho(0.75));
  const Tensor first = parameters[0].detach().clone();
  const Tensor second = parameters[1].detach().clone();
  train(optimizer, parameters, 1, 3);
  EXPECT_FALSE(parameters[0].detach().equal(first));
  EXPECT_TRUE(parameters[1].detach().equal(second)) << "its learning rate is 0";
}

TEST(Adadelta, WrongArguments) {
  const auto parameters = make_parameters(torch::kFloat32);
  const std::vector<AdadeltaOptions> wrong = {AdadeltaOptions(-1.0),
                                              AdadeltaOptions().rho(1.5),
                                              AdadeltaOptions().rho(-0.1),
                                              AdadeltaOptions().eps(-1e-6),
                                              AdadeltaOptions().weight_decay(-0.1),
                                              AdadeltaOptions(std::nan("")),
                                              AdadeltaOptions().rho(std::nan(""))};
  for (const AdadeltaOptions& options : wrong) {
    EXPECT_THROW(Adadelta(parameters, options), InvalidArgumentError);
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(parameters, std::make_unique<AdadeltaOptions>(options));
    EXPECT_THROW(Adadelta{groups}, InvalidArgumentError);
  }
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(parameters, std::make_unique<torch::optim::SGDOptions>(0.1));
  EXPECT_THROW(Adadelta{groups}, InvalidArgumentError);
}

TEST(Adadelta, SparseGradient) {
  const Tensor parameter = torch::ones({3}).requires_grad_();
  Adadelta optimizer(std::vector<Tensor>{parameter});
  parameter.mutable_grad() = torch::ones({3}).to_sparse();
  EXPECT_THROW(optimizer.step(), InvalidArgumentError);
  EXPECT_TRUE(parameter.detach().equal(torch::ones({3})));
}

std::string saved(const Adadelta& optimizer) {
  std::ostringstream stream;
  torch::save(optimizer, stream);
  return stream.str();
}

void load(Adadelta& optimizer, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::load(optimizer, stream);
}

std::vector<Tensor> copy_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> copies;
  copies.reserve(parameters.size());
  for (const Tensor& parameter : parameters) {
    copies.push_back(parameter.detach().clone().requires_grad_());
  }
  return copies;
}

class AdadeltaSaved : public ::testing::TestWithParam<torch::ScalarType> {};

TEST_P(AdadeltaSaved, ContinuesWithTheSameBits) {
  const auto options = AdadeltaOptions(0.8).rho(0.85).eps(1e-5).weight_decay(0.1);
  const auto whole = make_parameters(GetParam());
  Adadelta uninterrupted(whole, options);
  train(uninterrupted, whole, 1, 7);
  const auto continued = copy_of(whole);
  const std::string bytes = saved(uninterrupted);
  train(uninterrupted, whole, 8, kSteps);

  Adadelta loaded(continued);  // with other options: the archive's hold
  load(loaded, bytes);
  EXPECT_EQ(static_cast<AdadeltaOptions&>(loaded.param_groups()[0].options()), options);
  EXPECT_EQ(state_of(loaded, continued[0]).step(), 7);
  train(loaded, continued, 8, kSteps);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(continued[i].detach().equal(whole[i].detach())) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, AdadeltaSaved, ::testing::Values(torch::kFloat32, torch::kFloat64),
                         [](const auto& dtype) { return std::string(c10::toString(dtype.param)); });

TEST(Adadelta, LoadReplacesTheWholeState) {
  const auto parameters = make_parameters(torch::kFloat32);
  Adadelta fresh(parameters);
  const std::string bytes = saved(fresh);
  train(fresh, parameters, 1, 3);
  load(fresh, bytes);
  EXPECT_TRUE(fresh.state().empty());
}

TEST(Adadelta, FailedLoadKeepsTheState) {
  const auto parameters = make_parameters(torch::kFloat32);
  Adadelta optimizer(parameters);
  train(optimizer, parameters, 1, 3);
  const std::vector<Tensor> fewer = {parameters[0]};
  EXPECT_THROW(load(optimizer, saved(Adadelta(fewer))), c10::Error);
  ASSERT_EQ(optimizer.state().size(), 2U);
  EXPECT_EQ(state_of(optimizer, parameters[1]).step(), 3);
}

// As the distributed optimizer derives from it: from a class template that passes its arguments on.
template <typename Base>
class Derived : public Base {
 public:
  template <typename Options>
  Derived(std::vector<Tensor> parameters, const Options& options)
      : Base(std::move(parameters), options) {}
  template <typename Options>
  Derived(const std::vector<OptimizerParamGroup>& groups, const Options& options)
      : Base(groups, options) {}
};

TEST(Adadelta, CanBeABaseClass) {
  const auto parameters = make_parameters(torch::kFloat32);
  Derived<Adadelta> of_tensors(parameters, AdadeltaOptions(0.5));
  Derived<Adadelta> of_groups(std::vector<OptimizerParamGroup>{parameters}, AdadeltaOptions(0.5));
  train(of_tensors, parameters, 1, 1);
  EXPECT_EQ(of_tensors.state().size(), 2U);
  EXPECT_EQ(of_groups.param_groups()[0].params().size(), 2U);
}

}  // namespace
}  // namespace kolo::optim
