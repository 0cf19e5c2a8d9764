// kolo's optimizers against values that Python's torch computed (optimizers_reference.hpp), and as
// LibTorch's optimizers: schedulers, parameter groups, saving and loading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/error.h>
#include <kolo/optim/adadelta.h>
#include <kolo/optim/adamax.h>
#include <kolo/optim/asgd.h>
#include <kolo/optim/fused.h>
#include <kolo/optim/lamb.h>
#include <kolo/optim/lars.h>
#include <kolo/optim/nadam.h>
#include <kolo/optim/radam.h>
#include <kolo/optim/rprop.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <type_traits>

#include "torch_ops/optimizers_reference.hpp"

namespace kolo::optim {
namespace {

using test::OptimizerReference;
using torch::Tensor;
using torch::optim::OptimizerParamGroup;

constexpr int kSteps = 20;
constexpr int kStepsARate = 5;

// --- an optimizer, with its options and state ---

template <class Base, class OptionsType, class StateType>
struct Kind {
  using Optimizer = Base;
  using Options = OptionsType;
  using State = StateType;
};
using Kinds = testing::Types<
    Kind<Adadelta, AdadeltaOptions, AdadeltaParamState>,
    Kind<Adamax, AdamaxOptions, AdamaxParamState>, Kind<ASGD, ASGDOptions, ASGDParamState>,
    Kind<LAMB, LAMBOptions, LAMBParamState>, Kind<LARS, LARSOptions, LARSParamState>,
    Kind<NAdam, NAdamOptions, NAdamParamState>, Kind<RAdam, RAdamOptions, RAdamParamState>,
    Kind<Rprop, RpropOptions, RpropParamState>>;

// Options other than the defaults, in every field that may be.
template <class Options>
Options other_options() {
  Options options(0.3);
  Options::visit_fields(options, [](const std::string& name, auto& field) {
    using Field = std::decay_t<decltype(field)>;
    // Half of what keeps a part; t0 so early that ASGD averages; LARS' nesterov needs no dampening.
    if constexpr (std::is_same_v<Field, double>) {
      if (name == "eps" || name == "weight_decay" || name == "dampening" || name == "lambd")
        field = field * 2 + 0.125;
      if (name == "rho" || name == "momentum" || name == "momentum_decay" || name == "alpha" ||
          name == "trust_coefficient") {
        field = field * 0.5 + 0.01;
      }
      if (name == "t0") field = 4;
    }
    if constexpr (std::is_same_v<Field, detail::Pair>) {
      if (name == "betas") field = {0.6, 0.7};
      if (name == "etas") field = {0.4, 1.3};
      if (name == "step_sizes") field = {1e-3, 20};
    }
    if constexpr (std::is_same_v<Field, bool>) field = name != "nesterov";
  });
  return options;
}

// Sets options by their names in the reference.
template <class Options>
Options options_of(const OptimizerReference& reference) {
  Options options = [] {
    if constexpr (std::is_default_constructible_v<Options>) {
      return Options();
    } else {
      return Options(0.0);
    }
  }();
  std::map<std::string, double> given(reference.options.begin(), reference.options.end());
  const auto take = [&](const std::string& name, auto& field) {
    const auto found = given.find(name);
    if (found == given.end()) return;
    field = static_cast<std::decay_t<decltype(field)>>(found->second);
    given.erase(found);
  };
  Options::visit_fields(options, [&](const std::string& name, auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, detail::Pair>) {
      take(name + "_1", std::get<0>(field));
      take(name + "_2", std::get<1>(field));
    } else {
      take(name, field);
    }
  });
  EXPECT_TRUE(given.empty()) << given.begin()->first << " is no option";
  return options;
}

// --- training as make_optimizers_reference.py does it ---

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

void train(torch::optim::Optimizer& optimizer, const std::vector<Tensor>& parameters, int first,
           int last) {
  for (int step = first; step <= last; ++step) {
    optimizer.zero_grad();
    loss_of(parameters, step).backward();
    optimizer.step();
  }
}

void expect_near(const std::vector<Tensor>& tensors, const std::vector<double>& expected,
                 const OptimizerReference& reference, const std::string& what) {
  std::vector<Tensor> flat;
  flat.reserve(tensors.size());
  for (const Tensor& tensor : tensors)
    flat.push_back(tensor.detach().to(torch::kFloat64).flatten());
  const Tensor values = torch::cat(flat);
  const Tensor right = torch::tensor(expected, torch::kFloat64);
  const double largest = right.abs().max().item<double>();
  const double difference = (values - right).abs().max().item<double>();
  // Another CPU's kernels may round differently.
  EXPECT_LE(difference, (reference.is_float64 ? 1e-13 : 5e-6) * largest)
      << what << ": " << values << right;
}

// --- FusedSGD, FusedAdam and FusedAdamW, which have LibTorch's options ---

using Given = std::map<std::string, double>;

double get(const Given& given, const char* name, double otherwise) {
  const auto found = given.find(name);
  return found == given.end() ? otherwise : found->second;
}

std::unique_ptr<torch::optim::Optimizer> make_sgd(const std::vector<Tensor>& parameters,
                                                  const Given& given) {
  return std::make_unique<FusedSGD>(parameters, torch::optim::SGDOptions(given.at("lr"))
                                                    .momentum(get(given, "momentum", 0))
                                                    .dampening(get(given, "dampening", 0))
                                                    .weight_decay(get(given, "weight_decay", 0))
                                                    .nesterov(get(given, "nesterov", 0) != 0));
}

template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> make_adam(const std::vector<Tensor>& parameters,
                                                   const Given& given) {
  Options options(given.at("lr"));
  options.betas({get(given, "betas_1", 0.9), get(given, "betas_2", 0.999)})
      .eps(get(given, "eps", 1e-8))
      .weight_decay(get(given, "weight_decay", options.weight_decay()))
      .amsgrad(get(given, "amsgrad", 0) != 0);
  return std::make_unique<Optimizer>(parameters, options);
}

TEST(FusedOptimizers, ComputeWhatPythonComputes) {
  using Make =
      std::unique_ptr<torch::optim::Optimizer> (*)(const std::vector<Tensor>&, const Given&);
  const std::map<std::string, Make> makers = {
      {"SGD", make_sgd},
      {"Adam", make_adam<FusedAdam, torch::optim::AdamOptions>},
      {"AdamW", make_adam<FusedAdamW, torch::optim::AdamWOptions>}};
  int cases = 0;
  for (const OptimizerReference& reference : test::optimizer_references()) {
    const auto maker = makers.find(reference.optimizer);
    if (maker == makers.end()) continue;
    SCOPED_TRACE(reference.optimizer + ", case " + std::to_string(++cases));
    const auto parameters =
        make_parameters(reference.is_float64 ? torch::kFloat64 : torch::kFloat32);
    const auto optimizer =
        maker->second(parameters, Given(reference.options.begin(), reference.options.end()));
    std::size_t shown = 0;
    for (int step = 1; step <= kSteps; ++step) {
      train(*optimizer, parameters, step, step);
      if (step == test::kShownSteps.at(shown)) {
        expect_near(parameters, reference.parameters.at(shown++), reference,
                    "parameters after step " + std::to_string(step));
      }
      auto& options = optimizer->param_groups()[0].options();
      if (step % kStepsARate == 0) options.set_lr(options.get_lr() * 0.7);
    }
  }
  EXPECT_EQ(cases, 16);
}

// --- all others ---

template <class K>
class OptimizerTest : public testing::Test {
 protected:
  using Optimizer = typename K::Optimizer;
  using Options = typename K::Options;
  using State = typename K::State;

  static State& state_of(Optimizer& optimizer, const Tensor& parameter) {
    return static_cast<State&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
  }
  static std::string saved(const Optimizer& optimizer) {
    std::ostringstream stream;
    torch::save(optimizer, stream);
    return stream.str();
  }
  static void load(Optimizer& optimizer, const std::string& bytes) {
    std::istringstream stream(bytes);
    torch::load(optimizer, stream);
  }
};
TYPED_TEST_SUITE(OptimizerTest, Kinds);

TYPED_TEST(OptimizerTest, ComputesWhatPythonComputes) {
  int cases = 0;
  for (const OptimizerReference& reference : test::optimizer_references()) {
    if (reference.optimizer != TestFixture::Options::kOptimizer) continue;
    SCOPED_TRACE("case " + std::to_string(++cases));
    const auto parameters =
        make_parameters(reference.is_float64 ? torch::kFloat64 : torch::kFloat32);
    typename TestFixture::Optimizer optimizer(parameters,
                                              options_of<typename TestFixture::Options>(reference));
    std::size_t shown = 0;
    for (int step = 1; step <= kSteps; ++step) {
      train(optimizer, parameters, step, step);
      if (step == test::kShownSteps.at(shown)) {
        expect_near(parameters, reference.parameters.at(shown++), reference,
                    "parameters after step " + std::to_string(step));
      }
      auto& options = optimizer.param_groups()[0].options();
      if (step % kStepsARate == 0) options.set_lr(options.get_lr() * 0.7);
    }
    std::map<std::string, std::vector<Tensor>> kept;
    for (const Tensor& parameter : parameters) {
      auto& state = this->state_of(optimizer, parameter);
      EXPECT_EQ(state.step(), kSteps);
      TestFixture::State::visit_fields(state, [&](const std::string& name, auto& field) {
        if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Tensor>)
          if (field.defined()) kept[name].push_back(field);
      });
    }
    EXPECT_EQ(kept.size(), reference.state.size());
    for (const auto& [name, values] : reference.state)
      expect_near(kept.at(name), values, reference, name);
  }
  EXPECT_GE(cases, 4);
}

// Complex parameters are pairs of real ones.
TYPED_TEST(OptimizerTest, Complex) {
  const auto options = other_options<typename TestFixture::Options>();
  const Tensor real = torch::arange(6, torch::kFloat64).view({3, 2}).requires_grad_();
  const Tensor complex = torch::view_as_complex(real.detach().clone()).clone().requires_grad_();
  typename TestFixture::Optimizer of_real(std::vector<Tensor>{real}, options);
  typename TestFixture::Optimizer of_complex(std::vector<Tensor>{complex}, options);
  for (int step = 0; step < 3; ++step) {
    const Tensor gradient = torch::arange(6, torch::kFloat64).view({3, 2}).sub(step);
    real.mutable_grad() = gradient;
    complex.mutable_grad() = torch::view_as_complex(gradient.clone());
    of_real.step();
    of_complex.step();
  }
  EXPECT_TRUE(torch::view_as_real(complex.detach()).equal(real.detach()));
}

TYPED_TEST(OptimizerTest, ParametersWithoutGradientStayAsTheyAre) {
  const auto parameters = make_parameters(torch::kFloat32);
  const Tensor before = parameters[1].detach().clone();
  typename TestFixture::Optimizer optimizer(parameters,
                                            other_options<typename TestFixture::Options>());
  parameters[0].mutable_grad() = torch::ones({2, 3});
  optimizer.step();
  EXPECT_TRUE(parameters[1].detach().equal(before));
  EXPECT_EQ(optimizer.state().size(), 1U);
}

TYPED_TEST(OptimizerTest, ClosureRunsWithGradients) {
  const auto parameters = make_parameters(torch::kFloat32);
  typename TestFixture::Optimizer optimizer(parameters, typename TestFixture::Options(0.1));
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

TYPED_TEST(OptimizerTest, GroupsHaveTheirOwnOptions) {
  using OptionsType = typename TestFixture::Options;
  const auto parameters = make_parameters(torch::kFloat32);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{parameters[0]});
  groups.emplace_back(std::vector<Tensor>{parameters[1]}, std::make_unique<OptionsType>(0.01));
  typename TestFixture::Optimizer optimizer(groups, other_options<OptionsType>());
  EXPECT_EQ(static_cast<OptionsType&>(optimizer.param_groups()[0].options()),
            other_options<OptionsType>());
  EXPECT_EQ(static_cast<OptionsType&>(optimizer.param_groups()[1].options()), OptionsType(0.01));
  EXPECT_FALSE(other_options<OptionsType>() == OptionsType(0.3));
  const Tensor added = torch::ones({2}).requires_grad_();
  const std::vector<Tensor> more = {added};
  optimizer.add_param_group({more, std::make_unique<OptionsType>(0.02)});
  EXPECT_EQ(static_cast<OptionsType&>(optimizer.param_groups()[2].options()), OptionsType(0.02));
  EXPECT_THROW(optimizer.add_param_group({std::vector<Tensor>{torch::ones({2}).requires_grad_()},
                                          std::make_unique<OptionsType>(-1.0)}),
               InvalidArgumentError);
  EXPECT_EQ(optimizer.param_groups().size(), 3U);
  torch::optim::StepLR scheduler(optimizer, 1, 0.5);
  scheduler.step();  // changes nothing yet; Python's scheduler makes this step in its constructor
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.15);
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[1].options().get_lr(), 0.005);
}

TYPED_TEST(OptimizerTest, WrongArguments) {
  using OptionsType = typename TestFixture::Options;
  using OptimizerType = typename TestFixture::Optimizer;
  const auto parameters = make_parameters(torch::kFloat32);
  std::vector<OptionsType> wrong = {OptionsType(-1.0), OptionsType(std::nan(""))};
  // Each number in turn, but for those that may be anything.
  const std::set<std::string> any = {"lambd", "alpha", "t0", "dampening", "step_sizes"};
  OptionsType::visit_fields(wrong[0], [&](const std::string& name, auto& /*field*/) {
    OptionsType options(0.1);
    OptionsType::visit_fields(options, [&](const std::string& other, auto& field) {
      if (other != name) return;
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>, double>) field = -0.1;
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>, detail::Pair>)
        std::get<1>(field) = -0.1;
    });
    if (!(options == OptionsType(0.1)) && any.count(name) == 0) wrong.push_back(options);
  });
  EXPECT_GE(wrong.size(), 3U);
  for (const OptionsType& options : wrong) {
    EXPECT_THROW(OptimizerType(parameters, options), InvalidArgumentError);
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(parameters, std::make_unique<OptionsType>(options));
    EXPECT_THROW(OptimizerType(groups, OptionsType(0.1)), InvalidArgumentError);
  }
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(parameters, std::make_unique<torch::optim::SGDOptions>(0.1));
  EXPECT_THROW(OptimizerType(groups, OptionsType(0.1)), InvalidArgumentError);
}

TYPED_TEST(OptimizerTest, SparseGradient) {
  const Tensor parameter = torch::ones({3}).requires_grad_();
  typename TestFixture::Optimizer optimizer(std::vector<Tensor>{parameter},
                                            typename TestFixture::Options(0.1));
  parameter.mutable_grad() = torch::ones({3}).to_sparse();
  EXPECT_THROW(optimizer.step(), InvalidArgumentError);
  EXPECT_TRUE(parameter.detach().equal(torch::ones({3})));
}

TYPED_TEST(OptimizerTest, ContinuesWithTheSameBits) {
  using OptionsType = typename TestFixture::Options;
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const auto whole = make_parameters(dtype);
    typename TestFixture::Optimizer unbroken(whole, other_options<OptionsType>());
    train(unbroken, whole, 1, 7);
    std::vector<Tensor> continued;
    for (const Tensor& parameter : whole)
      continued.push_back(parameter.detach().clone().requires_grad_());
    const std::string bytes = this->saved(unbroken);
    train(unbroken, whole, 8, kSteps);

    typename TestFixture::Optimizer loaded(continued,
                                           OptionsType(0.7));  // the archive's options hold
    this->load(loaded, bytes);
    EXPECT_EQ(static_cast<OptionsType&>(loaded.param_groups()[0].options()),
              other_options<OptionsType>());
    EXPECT_EQ(this->state_of(loaded, continued[0]).step(), 7);
    train(loaded, continued, 8, kSteps);
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_TRUE(continued[i].detach().equal(whole[i].detach())) << "parameter " << i;
  }
}

TYPED_TEST(OptimizerTest, LoadReplacesTheWholeState) {
  const auto parameters = make_parameters(torch::kFloat32);
  typename TestFixture::Optimizer fresh(parameters, typename TestFixture::Options(0.1));
  const std::string bytes = this->saved(fresh);
  train(fresh, parameters, 1, 3);
  this->load(fresh, bytes);
  EXPECT_TRUE(fresh.state().empty());
}

// Its fields are others, or its tensors have other shapes; all stays as it was.
TYPED_TEST(OptimizerTest, LoadRefusesOtherArchives) {
  using OptionsType = typename TestFixture::Options;
  const auto parameters = make_parameters(torch::kFloat32);
  typename TestFixture::Optimizer optimizer(parameters, other_options<OptionsType>());
  train(optimizer, parameters, 1, 3);
  const torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(0.1));
  torch::serialize::OutputArchive of_sgd;
  sgd.save(of_sgd);
  std::stringstream stream;
  of_sgd.save_to(stream);
  EXPECT_THROW(this->load(optimizer, stream.str()), c10::Error);
  std::vector<Tensor> larger;
  for (const Tensor& parameter : parameters)
    larger.push_back(torch::cat({parameter.detach(), parameter.detach()}).requires_grad_());
  typename TestFixture::Optimizer other(larger, OptionsType(0.1));
  train(other, larger, 1, 3);
  EXPECT_THROW(this->load(optimizer, this->saved(other)), c10::Error);
  EXPECT_EQ(static_cast<OptionsType&>(optimizer.param_groups()[0].options()),
            other_options<OptionsType>());
  ASSERT_EQ(optimizer.state().size(), 2U);
  EXPECT_EQ(this->state_of(optimizer, parameters[1]).step(), 3);
}

// Autograd may give a gradient that is the conjugate of another tensor.
TYPED_TEST(OptimizerTest, ConjugateGradient) {
  const Tensor one = torch::ones({3}, torch::kComplexDouble).requires_grad_();
  const Tensor other = one.detach().clone().requires_grad_();
  typename TestFixture::Optimizer optimizer(std::vector<Tensor>{one, other},
                                            typename TestFixture::Options(0.1));
  const Tensor gradient =
      torch::complex(torch::ones({3}, torch::kDouble), torch::arange(3, torch::kDouble));
  one.mutable_grad() = gradient.conj();
  other.mutable_grad() = gradient.conj().resolve_conj();
  optimizer.step();
  EXPECT_TRUE(one.detach().equal(other.detach()));
}

TYPED_TEST(OptimizerTest, FailedLoadKeepsTheState) {
  const typename TestFixture::Options options(0.1);
  const auto parameters = make_parameters(torch::kFloat32);
  typename TestFixture::Optimizer optimizer(parameters, options);
  train(optimizer, parameters, 1, 3);
  const std::vector<Tensor> fewer = {parameters[0]};
  const typename TestFixture::Optimizer smaller(fewer, options);
  EXPECT_THROW(this->load(optimizer, this->saved(smaller)), c10::Error);
  ASSERT_EQ(optimizer.state().size(), 2U);
  EXPECT_EQ(this->state_of(optimizer, parameters[1]).step(), 3);
}

// The norm of the update is beyond float16's largest number.
TEST(OptimizerHalf, LambMovesLargeParameters) {
  const Tensor parameter = torch::ones({100, 100}, torch::kHalf).requires_grad_();
  LAMB optimizer(std::vector<Tensor>{parameter}, LAMBOptions(0.1));
  for (int step = 0; step < 3; ++step) {
    parameter.mutable_grad() = torch::full({100, 100}, 1e-4, torch::kHalf);
    optimizer.step();
  }
  EXPECT_TRUE(parameter.isfinite().all().item<bool>());
  EXPECT_LT(parameter.max().item<float>(), 0.9F);
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

TYPED_TEST(OptimizerTest, CanBeABaseClass) {
  const typename TestFixture::Options options(0.5);
  const auto parameters = make_parameters(torch::kFloat32);
  Derived<typename TestFixture::Optimizer> of_tensors(parameters, options);
  Derived<typename TestFixture::Optimizer> of_groups(std::vector<OptimizerParamGroup>{parameters},
                                                     options);
  train(of_tensors, parameters, 1, 1);
  EXPECT_EQ(of_tensors.state().size(), 2U);
  EXPECT_EQ(of_groups.param_groups()[0].params().size(), 2U);
}

}  // namespace
}  // namespace kolo::optim
