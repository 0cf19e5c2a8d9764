// Optimizers' state that does not fit: what is restored works, the rest stays as it was.
#include "checkpoint/trained.hpp"
#include "shared_folder.hpp"
#include "torch_ops/everywhere.hpp"

namespace kolo::testing_support {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CheckpointOptimizers : public WithKolo,
                             public testing::WithParamInterface<CheckpointWriters> {
 protected:
  CheckpointOptions options() { return CheckpointOptions().writers(GetParam()); }
  CheckpointOptions at_once() { return options().asynchronous(false); }
};

// A new head on an old net: what does not fit keeps its state in the optimizer, too, which goes on.
TEST_P(CheckpointOptimizers, OptimizerGoesOnWithWhatFits) {
  const SharedFolder folder;
  const auto stepped = [](std::int64_t outputs, int steps) {
    torch::manual_seed(static_cast<std::uint64_t>(outputs));
    torch::nn::Sequential net =
        torch::nn::Sequential(torch::nn::Linear(4, 3), torch::nn::Linear(3, outputs));
    auto optimizer =
        std::make_unique<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.1));
    for (int i = 0; i < steps; ++i) {
      optimizer->zero_grad();
      net->forward(torch::ones({2, 4})).pow(2).sum().backward();
      optimizer->step();
    }
    return std::make_pair(net, std::move(optimizer));
  };
  const auto moments = [](const auto& pair, std::size_t parameter) -> torch::Tensor {
    const auto& state =
        *pair.second->state().at(pair.first->parameters()[parameter].unsafeGetTensorImpl());
    return static_cast<const torch::optim::AdamParamState&>(state).exp_avg().clone();
  };
  auto saved = stepped(2, 3);
  {
    Checkpoint checkpoint(folder.path(), at_once());
    checkpoint.add("model", *saved.first).add("optimizer", *saved.second);
    checkpoint.save(1);
  }
  for (const int steps : {0, 1}) {
    auto other = stepped(5, steps);
    const torch::Tensor head = steps == 0 ? torch::Tensor() : moments(other, 2);
    Checkpoint checkpoint(folder.path(), options());
    checkpoint.add("model", *other.first).add("optimizer", *other.second);
    const auto restored = checkpoint.restore(RestoreOptions().strict(false));
    ASSERT_TRUE(restored);
    EXPECT_THAT(restored->mismatched, SizeIs(6));  // weight and bias, two moments of each
    EXPECT_TRUE(torch::equal(moments(other, 0), moments(saved, 0)));
    EXPECT_EQ(other.second->state().size(), steps == 0 ? 2U : 4U);
    if (steps > 0) {
      EXPECT_TRUE(torch::equal(moments(other, 2), head));
    }
    other.second->zero_grad();
    other.first->forward(torch::ones({2, 4})).sum().backward();
    other.second->step();
    EXPECT_TRUE(other.first->parameters()[2].isfinite().all().item<bool>());
  }
}

// Adagrad makes a parameter's state when the parameter is added, and fails without it.
TEST_P(CheckpointOptimizers, AParameterThatTheFileLacksKeepsItsState) {
  const SharedFolder folder;
  const torch::Tensor old = torch::ones({3}).requires_grad_();
  const torch::Tensor added = torch::ones({2}).requires_grad_();
  {
    torch::optim::Adagrad optimizer({old});
    Checkpoint checkpoint(folder.path(), at_once());
    checkpoint.add("optimizer", optimizer);
    checkpoint.save(1);
  }
  torch::optim::Adagrad optimizer({old, added});
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("optimizer", optimizer);
  EXPECT_THROW(checkpoint.restore(), MismatchError);
  const auto restored = checkpoint.restore(RestoreOptions().strict(false));
  ASSERT_TRUE(restored);
  EXPECT_THAT(restored->missing, ElementsAre("optimizer/state/1"));
  (old.sum() + added.sum()).backward();
  optimizer.step();
  EXPECT_TRUE(added.detach().allclose(torch::full({2}, 0.99)));
}

// State of another optimizer is not taken: names that both have may mean different things.
TEST_P(CheckpointOptimizers, StateOfAnotherOptimizerIsNotTaken) {
  const SharedFolder folder;
  torch::Tensor weight = torch::ones({3}).set_requires_grad(true);
  const std::vector<torch::Tensor> parameters = {weight};
  std::vector<std::function<std::unique_ptr<torch::optim::Optimizer>()>> makers = {
      [&] {
        return std::make_unique<torch::optim::SGD>(parameters,
                                                   torch::optim::SGDOptions(0.1).momentum(0.9));
      },
      [&] { return std::make_unique<torch::optim::Adam>(parameters); },
      [&] { return std::make_unique<torch::optim::RMSprop>(parameters); },
      [&] { return std::make_unique<optim::Adadelta>(parameters); },
      [&] { return std::make_unique<optim::Adamax>(parameters); },
      [&] { return std::make_unique<optim::ASGD>(parameters); },
      [&] { return std::make_unique<optim::LAMB>(parameters); },
      [&] { return std::make_unique<optim::LARS>(parameters, optim::LARSOptions(0.1)); },
      [&] { return std::make_unique<optim::NAdam>(parameters); },
      [&] { return std::make_unique<optim::RAdam>(parameters); },
      [&] { return std::make_unique<optim::Rprop>(parameters); }};
  const auto step = [&](torch::optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    (weight * weight).sum().backward();
    optimizer.step();
  };
  std::int64_t number = 0;
  for (const auto& make_saved : makers) {
    ++number;
    const auto saved = make_saved();
    step(*saved);
    Checkpoint to(folder.path(), at_once());
    to.add("optimizer", *saved);
    to.save(number);
    for (const auto& make_other : makers) {
      const auto other = make_other();
      Checkpoint from(folder.path(), options());
      from.add("optimizer", *other);
      const auto restored = from.restore(RestoreOptions().strict(false));
      ASSERT_TRUE(restored);
      EXPECT_THAT(restored->mismatched, SizeIs(&make_saved == &make_other ? 0 : 1));
      EXPECT_EQ(other->state().size(), &make_saved == &make_other ? 1U : 0U);
      EXPECT_THAT(restored->unexpected, IsEmpty());
      EXPECT_THAT(restored->missing, IsEmpty());
      step(*other);
      EXPECT_TRUE(weight.isfinite().all().item<bool>());
    }
  }
}

// Files of kolo's first version have a state for each place of a parameter that is listed twice, as
// an optimizer with two parameters has. The first one counts.
TEST_P(CheckpointOptimizers, AParameterListedTwiceWasSavedTwice) {
  const SharedFolder folder;
  const auto momentum_of = [](torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) {
    const auto& state = *optimizer.state().at(parameter.unsafeGetTensorImpl());
    return static_cast<const torch::optim::SGDParamState&>(state).momentum_buffer();
  };
  const auto options_of_sgd = torch::optim::SGDOptions(0.1).momentum(0.9);
  const torch::Tensor first = torch::ones({3}).set_requires_grad(true);
  const torch::Tensor second = torch::ones({3}).set_requires_grad(true);
  torch::optim::SGD saved({first, second}, options_of_sgd);
  (first * 2 + second * 3).sum().backward();
  saved.step();
  {
    Checkpoint checkpoint(folder.path(), at_once());
    checkpoint.add("optimizer", saved);
    checkpoint.save(1);
  }
  const torch::Tensor weight = torch::ones({3}).set_requires_grad(true);
  torch::optim::SGD listed_twice(std::vector<torch::Tensor>{weight, weight}, options_of_sgd);
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("optimizer", listed_twice);
  ASSERT_TRUE(checkpoint.restore());  // strict: all that the file has is used
  EXPECT_TRUE(momentum_of(listed_twice, weight).equal(torch::full({3}, 2.0)));
}

// An optimizer of the program's own.
struct OwnOptions : torch::optim::OptimizerCloneableOptions<OwnOptions> {
  double get_lr() const override { return 1; }
  void set_lr(double /*lr*/) override {}
};
class Own : public torch::optim::Optimizer {
 public:
  explicit Own(std::vector<torch::Tensor> parameters)
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                  std::make_unique<OwnOptions>()) {}
  torch::Tensor step(LossClosure /*closure*/ = nullptr) override { return {}; }
};

TEST_P(CheckpointOptimizers, UnknownOptimizersHaveNoRanks) {
  const SharedFolder folder;
  Own own({torch::ones({2}).set_requires_grad(true)});
  Checkpoint checkpoint(folder.path(), options());
  EXPECT_THAT(
      message_everywhere<InvalidArgumentError>([&] { checkpoint.add_per_rank("optimizer", own); }),
      HasSubstr("add_per_rank('optimizer') supports only LibTorch's and kolo's optimizers"));
}

INSTANTIATE_TEST_SUITE_P(Writers, CheckpointOptimizers,
                         testing::Values(CheckpointWriters::RankZero, CheckpointWriters::AllRanks),
                         [](const auto& one) {
                           return one.param == CheckpointWriters::AllRanks ? "All" : "RankZero";
                         });

}  // namespace
}  // namespace kolo::testing_support
