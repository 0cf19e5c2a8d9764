// Gradients that go together: what a group of DistributedOptimizer does differently.
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using GradientGroups = WithKolo;
using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;
using Tensors = std::vector<at::Tensor>;

double mean_of_ranks() {
  return (size() + 1) / 2.0;
}

at::Tensor parameter(std::int64_t count = 3) {
  return torch::zeros({count}).requires_grad_();
}

// Gradients of rank + 1, which are there in an order of the rank's own.
void backward(const Tensors& tensors, int step) {
  at::Tensor loss = torch::zeros({});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t turn = static_cast<std::size_t>(rank() * (step + 1)) + i;
    const at::Tensor& tensor = tensors[turn % tensors.size()];
    if (tensor.requires_grad()) loss = loss + tensor.sum() * (rank() + 1);
  }
  loss.backward();
}

bool has(const at::Tensor& tensor, double gradient) {
  return tensor.grad().defined() && tensor.grad().allclose(torch::full_like(tensor, gradient));
}

enum class Grouping { kNone, kList, kNumber };
constexpr Grouping kGroupings[] = {Grouping::kNone, Grouping::kList, Grouping::kNumber};

// The first two of four parameters are a group, if there are any.
DistributedOptimizerOptions grouped(Grouping grouping, const Tensors& four) {
  DistributedOptimizerOptions options;
  if (grouping == Grouping::kList) options.groups({{four[1], four[0]}});
  if (grouping == Grouping::kNumber) options.num_groups(2);
  return options.name("o");
}

TEST_F(GradientGroups, InAnyOrderOfBackward) {
  for (const Grouping grouping : kGroupings) {
    const Tensors all = {parameter(), parameter(70000), parameter(5), parameter(1)};
    DistributedSgd optimizer(all, torch::optim::SGDOptions(1.0), grouped(grouping, all));
    for (int step = 1; step <= 5; ++step) {
      optimizer.zero_grad();
      backward(all, step);
      optimizer.step();
      for (const at::Tensor& p : all) EXPECT_TRUE(has(p, mean_of_ranks())) << "step " << step;
    }
  }
}

// One of them differs on the last rank: of a group neither is reduced.
TEST_F(GradientGroups, FailAsAWhole) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  for (const Grouping grouping : kGroupings) {
    SCOPED_TRACE(static_cast<int>(grouping));
    const Tensors all = {parameter(), parameter(rank() == size() - 1 ? 5 : 4), parameter(),
                         parameter()};
    DistributedSgd optimizer(all, torch::optim::SGDOptions(1.0), grouped(grouping, all));
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const std::string message = message_of<MismatchError>([&] { backward(all, step); });
      EXPECT_THAT(message, AllOf(HasSubstr("o.gradient.1"), HasSubstr("[4] on rank"),
                                 HasSubstr("[5] on rank " + std::to_string(size() - 1))));
      EXPECT_EQ(message.find("'o.group.0'") != std::string::npos, grouping != Grouping::kNone)
          << message;
      EXPECT_TRUE(has(all[0], grouping == Grouping::kNone ? mean_of_ranks() : rank() + 1));
      EXPECT_TRUE(has(all[1], rank() + 1));
      EXPECT_TRUE(has(all[2], mean_of_ranks()));
      EXPECT_TRUE(has(all[3], mean_of_ranks()));
    }
    optimizer.zero_grad();
    all[1].set_requires_grad(false);
    backward(all, 3);
    optimizer.step();
    EXPECT_TRUE(has(all[0], mean_of_ranks())) << "the next one works";
  }
}

// A gradient that no rank has is zeros where another of its group has one.
TEST_F(GradientGroups, WithoutGradients) {
  for (const Grouping grouping : kGroupings) {
    const Tensors all = {parameter(), parameter(), parameter(), parameter()};
    DistributedSgd optimizer(all, torch::optim::SGDOptions(1.0), grouped(grouping, all));
    for (int step = 0; step < 4; ++step) {
      SCOPED_TRACE("grouping " + std::to_string(static_cast<int>(grouping)) + " step " +
                   std::to_string(step));
      optimizer.zero_grad();
      at::Tensor loss = all[2].sum() * (rank() + 1);
      const bool first_is_used = step % 2 == 1;
      if (first_is_used && rank() == 0) loss = loss + all[0].sum() * size();
      loss.backward();
      optimizer.step();
      EXPECT_EQ(all[0].grad().defined(), first_is_used);
      EXPECT_EQ(all[1].grad().defined(), first_is_used && grouping != Grouping::kNone);
      EXPECT_TRUE(!all[0].grad().defined() || has(all[0], 1));
      EXPECT_TRUE(!all[1].grad().defined() || has(all[1], 0));
      EXPECT_TRUE(has(all[2], mean_of_ranks()));
    }
  }
}

TEST_F(GradientGroups, HalfFrozen) {
  for (const Grouping grouping : kGroupings) {
    SCOPED_TRACE(static_cast<int>(grouping));
    const Tensors all = {parameter(), parameter(), parameter(), parameter()};
    DistributedSgd optimizer(all, torch::optim::SGDOptions(1.0), grouped(grouping, all));
    for (const bool frozen : {false, true, true, false, true}) {
      all[1].set_requires_grad(!frozen);
      optimizer.zero_grad();
      backward(all, 0);
      optimizer.step();
      EXPECT_TRUE(has(all[0], mean_of_ranks()));
      EXPECT_EQ(all[1].grad().defined(), !frozen);
    }
    if (size() == 1 || grouping == Grouping::kNone) continue;
    // Frozen on one rank alone, which is an error: the group has fewer tensors there.
    all[1].set_requires_grad(rank() != 0);
    optimizer.zero_grad();
    EXPECT_THAT(message_of<MismatchError>([&] { backward(all, 0); }),
                HasSubstr("number of tensors: 1 on rank 0; 2 on rank"));
    EXPECT_TRUE(has(all[0], rank() + 1)) << "not reduced";
    EXPECT_TRUE(has(all[3], mean_of_ranks()));
  }
}

}  // namespace
}  // namespace kolo
