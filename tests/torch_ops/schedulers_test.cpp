// kolo's learning rate schedules against the rates of Python's (schedulers_reference.hpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/error.h>
#include <kolo/optim/schedulers.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <functional>

#include "torch_ops/schedulers_reference.hpp"

namespace kolo::optim {
namespace {

using torch::optim::OptimizerParamGroup;
using torch::optim::SGD;
using torch::optim::SGDOptions;

const std::map<std::string, Schedule>& schedules() {
  const auto one_cycle = [](double pct_start, bool linear, double div, double final_div,
                            bool three) {
    OneCycleOptions options;
    options.pct_start = pct_start;
    options.linear = linear;
    options.div_factor = div;
    options.final_div_factor = final_div;
    options.three_phase = three;
    return OneCycleLR(0.75, 30, options);
  };
  const auto cycle = [](double pct_start, bool linear, bool three) {
    OneCycleOptions options;
    options.pct_start = pct_start;
    options.linear = linear;
    options.three_phase = three;
    return options;
  };
  static const std::map<std::string, Schedule> all = {
      {"LambdaLR",
       LambdaLR([](std::int64_t epoch) { return 1 / (1 + static_cast<double>(epoch)); })},
      {"MultiStepLR", MultiStepLR({3, 6, 6, 20})},
      {"ExponentialLR", ExponentialLR(0.875)},
      {"ConstantLR", ConstantLR()},
      {"LinearLR", LinearLR()},
      {"LinearLR_down", LinearLR(1.0, 0.125, 12)},
      {"PolynomialLR", PolynomialLR()},
      {"PolynomialLR_square", PolynomialLR(20, 2.0)},
      {"CosineAnnealingLR", CosineAnnealingLR(12)},
      {"CosineAnnealingLR_min", CosineAnnealingLR(29, 0.0625)},
      {"WarmRestarts", CosineAnnealingWarmRestarts(7)},
      {"WarmRestarts_longer", CosineAnnealingWarmRestarts(3, 2, 0.0625)},
      {"OneCycleLR", OneCycleLR(0.75, 30)},
      {"OneCycleLR_linear", one_cycle(0.4, true, 10, 100, false)},
      {"OneCycleLR_three", one_cycle(0.3, false, 25, 1e4, true)},
      {"OneCycleMomentum", OneCycleMomentum(30)},
      {"OneCycleMomentum_linear", OneCycleMomentum(30, cycle(0.4, true, false), 0.5, 0.875)},
      {"OneCycleMomentum_three", OneCycleMomentum(30, cycle(0.3, false, true))},
      {"SequentialLR",
       SequentialLR({LinearLR(0.25, 1.0, 4), ExponentialLR(0.9), CosineAnnealingLR(10, 0.01)},
                    {4, 12})},
      {"warm_up", warm_up(5, CosineAnnealingLR(25))},
  };
  return all;
}

// With two groups, of which the second one begins with half of the rate.
struct TwoGroups {
  TwoGroups() {
    std::vector<OptimizerParamGroup> groups;
    for (const double rate : {test::kBaseRate, test::kBaseRate / 2}) {
      groups.emplace_back(std::vector<torch::Tensor>{torch::zeros({1}).requires_grad_()},
                          std::make_unique<SGDOptions>(rate));
    }
    optimizer = std::make_unique<SGD>(groups, SGDOptions(1.0));
  }
  double rate(std::size_t group) const {
    return optimizer->param_groups()[group].options().get_lr();
  }
  std::unique_ptr<SGD> optimizer;
};

TEST(Schedulers, HavePythonsRates) {
  ASSERT_EQ(schedules().size(), test::scheduler_references().size());
  for (const auto& [name, rates] : test::scheduler_references()) {
    SCOPED_TRACE(name);
    const TwoGroups two;
    Scheduler scheduler(*two.optimizer, schedules().at(name));
    const bool is_relative = name.rfind("OneCycle", 0) != 0 &&
                             name.find("_min") == std::string::npos &&
                             name != "WarmRestarts_longer" && name != "SequentialLR";
    for (std::size_t epoch = 0; epoch < rates.size(); ++epoch) {
      EXPECT_EQ(scheduler.epoch(), static_cast<std::int64_t>(epoch));
      EXPECT_NEAR(two.rate(0), rates[epoch], 1e-12) << "epoch " << epoch;
      if (is_relative) {
        EXPECT_NEAR(two.rate(1), rates[epoch] / 2, 1e-12) << "epoch " << epoch;
      }
      scheduler.step();
    }
  }
}

TEST(Schedulers, ThoseOfLibTorchAreTheSameInterface) {
  const TwoGroups two;
  Scheduler scheduler(*two.optimizer, ExponentialLR(0.5));
  torch::optim::LRScheduler& base = scheduler;
  base.step();
  EXPECT_DOUBLE_EQ(two.rate(0), test::kBaseRate / 2);
  Scheduler own(*two.optimizer,
                [](double rate, std::int64_t epoch) { return rate + static_cast<double>(epoch); });
  own.step();
  EXPECT_DOUBLE_EQ(two.rate(0), test::kBaseRate / 2 + 1) << "a schedule of the program's own";
}

TEST(Schedulers, SetMomenta) {
  const std::vector<torch::Tensor> parameters = {torch::zeros({1}).requires_grad_()};
  const Schedule halved = [](double base, std::int64_t epoch) {
    return base / static_cast<double>(epoch + 1);
  };
  SGD sgd(parameters, SGDOptions(1.0).momentum(0.8));
  torch::optim::AdamW adam(parameters, torch::optim::AdamWOptions(1.0).betas({0.6, 0.9}));
  Scheduler of_sgd(sgd, ConstantLR(), halved);
  Scheduler of_adam(adam, ConstantLR(), halved);
  of_sgd.step();
  of_adam.step();
  const auto& options = static_cast<const SGDOptions&>(sgd.param_groups()[0].options());
  EXPECT_DOUBLE_EQ(options.momentum(), 0.4);
  const auto& of_group =
      static_cast<const torch::optim::AdamWOptions&>(adam.param_groups()[0].options());
  EXPECT_EQ(of_group.betas(), std::make_tuple(0.3, 0.9));
  torch::optim::Adagrad none(parameters);
  EXPECT_THROW(Scheduler(none, ConstantLR(), halved), InvalidArgumentError);
}

TEST(Schedulers, StepLR) {
  const StepLR schedule(3, 0.5);
  const std::vector<double> wanted = {0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2};
  for (std::size_t epoch = 0; epoch < wanted.size(); ++epoch)
    EXPECT_DOUBLE_EQ(schedule(0.8, static_cast<std::int64_t>(epoch)), wanted[epoch]);
  EXPECT_THROW(StepLR(0), InvalidArgumentError);
  EXPECT_THROW(warm_up(5, nullptr), InvalidArgumentError);
}

TEST(Schedulers, WrongArguments) {
  const std::vector<std::function<void()>> wrong = {
      [] { LambdaLR(nullptr); },
      [] {
        MultiStepLR({3, 2});
      },
      [] { ConstantLR(1.5); },
      [] { LinearLR(0.0); },
      [] { LinearLR(1.0, -0.5); },
      [] { LinearLR(0.5, 1.0, 0); },
      [] { PolynomialLR(0); },
      [] { CosineAnnealingLR(0); },
      [] { CosineAnnealingWarmRestarts(0); },
      [] { CosineAnnealingWarmRestarts(3, 0); },
      [] { OneCycleLR(0.1, 0); },
      [] { OneCycleLR(0.1, 10, {1.5}); },
      [] { SequentialLR({ExponentialLR(0.5)}, {3}); },
      [] {
        SequentialLR({ExponentialLR(0.5), ExponentialLR(0.5), ExponentialLR(0.5)}, {3, 2});
      },
      [] { SequentialLR({}, {}); },
      [] {
        const TwoGroups two;
        Scheduler(*two.optimizer, nullptr);
      },
      [] {
        const TwoGroups two;
        Scheduler scheduler(*two.optimizer, OneCycleLR(0.1, 10));
        for (int step = 0; step < 10; ++step) scheduler.step();
        EXPECT_NEAR(two.rate(0), 0.1 / 25 / 1e4, 1e-12);
        scheduler.step();
      },
  };
  for (std::size_t i = 0; i < wrong.size(); ++i)
    EXPECT_THROW(wrong[i](), InvalidArgumentError) << "case " << i;
}

}  // namespace
}  // namespace kolo::optim
