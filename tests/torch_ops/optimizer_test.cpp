#include <unistd.h>

#include <filesystem>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Optimizer = WithKolo;
using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;

// Sum over ranks of (rank + 1), divided by the ranks: what Average makes of gradients of rank + 1.
double mean_of_ranks() {
  return (size() + 1) / 2.0;
}

at::Tensor parameter(double value = 0.0) {
  return torch::full({3}, value).requires_grad_();
}

TEST_F(Optimizer, IsItsBase) {
  DistributedSgd optimizer(std::vector<at::Tensor>{parameter()}, torch::optim::SGDOptions(1.0));
  torch::optim::Optimizer& base = optimizer;
  torch::optim::StepLR scheduler(optimizer, 1, 0.5);
  scheduler.step();  // LibTorch's first step() changes nothing
  const at::Tensor p = base.param_groups()[0].params()[0];
  (p.sum() * (rank() + 1)).backward();
  base.step();  // through the base class, too
  EXPECT_TRUE(p.equal(torch::full({3}, -mean_of_ranks())));
  scheduler.step();
  EXPECT_EQ(base.param_groups()[0].options().get_lr(), 0.5);
}

TEST_F(Optimizer, ClippingBetweenSynchronizeAndStep) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    (p.sum() * (rank() + 1) * 100).backward();
    optimizer.synchronize();
    EXPECT_TRUE(p.grad().equal(torch::full({3}, mean_of_ranks() * 100)));
    torch::nn::utils::clip_grad_norm_(std::vector<at::Tensor>{p}, 1.0);
    const at::Tensor clipped = p.grad().clone();
    const at::Tensor before = p.detach().clone();
    optimizer.step();  // must not reduce again
    EXPECT_TRUE(p.grad().equal(clipped));
    EXPECT_TRUE(p.detach().allclose(before - clipped));
  }
}

TEST_F(Optimizer, SkipSynchronize) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0).momentum(0));
  (p.sum() * (rank() + 1)).backward();
  optimizer.synchronize();
  {
    const auto skipping = optimizer.skip_synchronize();
    optimizer.step();
    optimizer.step();
  }
  EXPECT_TRUE(p.detach().allclose(torch::full({3}, -2 * mean_of_ranks())));
}

// After it was looked for infinities, say. In the next one only some ranks have data.
TEST_F(Optimizer, AStepThatIsLeftOutLeavesNothingBehind) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  (p.sum() * (rank() + 1)).backward();
  optimizer.synchronize();
  optimizer.zero_grad();
  if (rank() == 0) p.sum().backward();
  optimizer.step();
  EXPECT_TRUE(p.detach().allclose(torch::full({3}, -1.0F / static_cast<float>(size()))));
}

TEST_F(Optimizer, GuardsCanBeNested) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  {
    const auto outer = optimizer.no_sync();
    {
      const auto inner = optimizer.no_sync();
      p.sum().backward();
    }
    for (int i = 0; i < 2; ++i) (p.sum() * (rank() + 1)).backward();
    EXPECT_TRUE(p.grad().equal(torch::full({3}, 2.0F * static_cast<float>(rank() + 1) + 1)));
  }
  {
    const auto outer = optimizer.skip_synchronize();
    { const auto inner = optimizer.skip_synchronize(); }
    optimizer.step();  // this rank's own gradients
    EXPECT_TRUE(p.detach().equal(torch::full({3}, -2.0F * static_cast<float>(rank() + 1) - 1)));
  }
}

struct AsItIs : GradientCompressor {
  std::vector<at::Tensor> compress(const at::Tensor& gradient) override {
    return {gradient.clone()};
  }
  at::Tensor decompress(const std::vector<at::Tensor>& reduced) override { return reduced[0]; }
};

// Autograd gives both parameters views of one storage as gradients.
TEST_F(Optimizer, GradientsThatShareStorage) {
  const at::Tensor a = torch::zeros({6}).requires_grad_();
  const at::Tensor b = torch::zeros({3, 2}).requires_grad_();
  DistributedSgd optimizer(std::vector<at::Tensor>{a, b}, torch::optim::SGDOptions(1.0),
                           DistributedOptimizerOptions().op(ReduceOp::Sum).name("shared"));
  for (int step = 1; step <= 4; ++step) {
    optimizer.zero_grad();
    ((a.view({2, 3}) + b.view({2, 3})) * (rank() + 1)).sum().backward();
    optimizer.step();
    const double wanted = -step * size() * (size() + 1) / 2.0;
    EXPECT_TRUE(a.detach().equal(torch::full({6}, wanted))) << a;
    EXPECT_TRUE(b.detach().equal(torch::full({3, 2}, wanted))) << b;
  }
}

// LibTorch adds to both where they lie, which is one place, so both have 3 instead of 2 in one
// process, too. Neither may be reduced twice.
TEST_F(Optimizer, GradientsThatShareStorageAndAreAddedTo) {
  const at::Tensor a = torch::zeros({6}).requires_grad_();
  const at::Tensor b = torch::zeros({3, 2}).requires_grad_();
  DistributedSgd optimizer(std::vector<at::Tensor>{a, b}, torch::optim::SGDOptions(1.0),
                           DistributedOptimizerOptions().op(ReduceOp::Sum).name("added"));
  const auto backward = [&] {
    ((a.view({2, 3}) + b.view({2, 3})) * (rank() + 1)).sum().backward();
  };
  {
    const auto waiting = optimizer.no_sync();
    backward();
  }
  ASSERT_TRUE(a.grad().storage().is_alias_of(b.grad().storage())) << "then this tests nothing";
  backward();
  optimizer.synchronize();
  const double once = size() * (size() + 1) / 2.0;
  EXPECT_TRUE(a.grad().equal(torch::full({6}, 3 * once))) << a.grad();
  EXPECT_TRUE(b.grad().equal(torch::full({3, 2}, 3 * once))) << b.grad();
}

// The gradients of both lie in one place on rank 0 only, so the results differ.
TEST_F(Optimizer, GradientsThatShareStorageOnOneRank) {
  const auto own = [](const at::Tensor& /*parameter*/) { return std::make_unique<AsItIs>(); };
  for (const Compression& compression : {Compression::None, Compression::Fp16, Compression(own)}) {
    const at::Tensor a = torch::zeros({6}).requires_grad_();
    const at::Tensor b = torch::zeros({3, 2}).requires_grad_();
    DistributedSgd optimizer(
        std::vector<at::Tensor>{a, b}, torch::optim::SGDOptions(0.0),
        DistributedOptimizerOptions().op(ReduceOp::Sum).compression(compression));
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const auto backward = [&] {
        at::Tensor loss = a.sum() * 2 + b.sum() * 3;
        if (rank() == 0) loss = ((a.view({2, 3}) + b.view({2, 3})) * 1.0).sum();
        loss.backward();
      };
      if (step < 2) {
        const auto waiting = optimizer.no_sync();
        backward();
        EXPECT_EQ(a.grad().storage().is_alias_of(b.grad().storage()), rank() == 0);
      } else {
        backward();
      }
      optimizer.synchronize();
      EXPECT_TRUE(a.grad().equal(torch::full({6}, 1.0 + (size() - 1) * 2))) << a.grad();
      EXPECT_TRUE(b.grad().equal(torch::full({3, 2}, 1.0 + (size() - 1) * 3))) << b.grad();
      optimizer.step();
    }
  }
}

// All gradients are views of one tensor, which the program zeroes, reads and scales as a whole.
TEST_F(Optimizer, GradientsInATensorOfTheProgramsOwn) {
  const auto own = [](const at::Tensor& /*parameter*/) { return std::make_unique<AsItIs>(); };
  for (const Compression& compression : {Compression::None, Compression::Fp16, Compression(own)}) {
    const at::Tensor a = torch::zeros({4}).requires_grad_();
    const at::Tensor b = torch::zeros({40000, 2}).requires_grad_();  // too large for a bucket
    const at::Tensor c = torch::zeros({2, 3, 4, 5})
                             .contiguous(at::MemoryFormat::ChannelsLast)
                             .requires_grad_();  // its gradient has other strides
    const at::Tensor all = torch::zeros({4 + 80000 + 120});
    a.mutable_grad() = all.narrow(0, 0, 4);
    b.mutable_grad() = all.narrow(0, 4, 80000).view({40000, 2});
    c.mutable_grad() = all.narrow(0, 80004, 120).view({2, 3, 4, 5});
    DistributedSgd optimizer(std::vector<at::Tensor>{a, b, c}, torch::optim::SGDOptions(0.5),
                             DistributedOptimizerOptions().compression(compression));
    for (int step = 1; step <= 4; ++step) {
      all.zero_();
      for (int pass = 1; pass <= 2; ++pass) {
        ((a.sum() + b.sum() + c.sum()) * (rank() + 1)).backward();
        EXPECT_TRUE(all.equal(torch::full_like(all, pass * mean_of_ranks()))) << all;
      }
      all.mul_(0.5);
      optimizer.step();
      for (const at::Tensor& p : {a, b, c}) {
        EXPECT_TRUE(p.grad().storage().is_alias_of(all.storage()));
        EXPECT_TRUE(p.detach().equal(torch::full_like(p, -0.5 * step * mean_of_ranks()))) << p;
      }
    }
  }
}

// Neither may be overwritten with the other one's result.
TEST_F(Optimizer, GradientsOfTwoOptimizersThatShareStorage) {
  const at::Tensor a = torch::zeros({6}).requires_grad_();
  const at::Tensor b = torch::zeros({3, 2}).requires_grad_();
  const at::Tensor of_no_optimizer = torch::zeros({6}).requires_grad_();
  DistributedSgd first(std::vector<at::Tensor>{a}, torch::optim::SGDOptions(0.0),
                       DistributedOptimizerOptions().op(ReduceOp::Sum));
  DistributedSgd second(std::vector<at::Tensor>{b}, torch::optim::SGDOptions(0.0));
  for (int step = 0; step < 4; ++step) {
    first.zero_grad();
    second.zero_grad();
    of_no_optimizer.mutable_grad() = at::Tensor();
    const auto backward = [&] {
      const at::Tensor sum = a.view({2, 3}) + b.view({2, 3}) + of_no_optimizer.view({2, 3});
      (sum * (rank() + 1)).sum().backward();
    };
    if (step % 2 == 0) {
      backward();
    } else {
      const auto waits = first.no_sync();
      const auto waits_too = second.no_sync();
      backward();
    }
    first.step();
    second.step();
    EXPECT_TRUE(a.grad().equal(torch::full({6}, mean_of_ranks() * size()))) << a.grad();
    EXPECT_TRUE(b.grad().equal(torch::full({3, 2}, mean_of_ranks()))) << b.grad();
    EXPECT_TRUE(of_no_optimizer.grad().equal(torch::full({6}, rank() + 1.0)));
  }
}

// Writing to one of them counts as a change of the other.
TEST_F(Optimizer, GradientsInATensorOfTheProgramsOwnAreAddedUpOnce) {
  const at::Tensor a = parameter();
  const at::Tensor b = parameter();
  const at::Tensor all = torch::zeros({6});
  a.mutable_grad() = all.narrow(0, 0, 3);
  b.mutable_grad() = all.narrow(0, 3, 3);
  DistributedSgd optimizer(std::vector<at::Tensor>{a, b}, torch::optim::SGDOptions(0.0),
                           DistributedOptimizerOptions().op(ReduceOp::Sum));
  const double once = mean_of_ranks() * size();
  for (int step = 0; step < 3; ++step) {
    all.zero_();
    ((a.sum() + b.sum()) * (rank() + 1)).backward();
    {
      const auto waiting = optimizer.no_sync();
      (a.sum() * (rank() + 1)).backward();
    }
    ((a.sum() + b.sum()) * (rank() + 1)).backward();
    EXPECT_TRUE(a.grad().equal(torch::full({3}, 3 * once))) << a.grad();
    EXPECT_TRUE(b.grad().equal(torch::full({3}, 2 * once))) << b.grad();
    optimizer.step();
  }
}

// Autograd takes a view of what the program gives to backward().
TEST_F(Optimizer, WhatIsGivenToBackwardStays) {
  const at::Tensor a = torch::zeros({6});
  DistributedSgd optimizer(std::vector<at::Tensor>{a}, torch::optim::SGDOptions(0.0),
                           DistributedOptimizerOptions().op(ReduceOp::Sum));
  a.requires_grad_();  // only now
  const at::Tensor given = torch::full({2, 3}, rank() + 1.0);
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    a.view({2, 3}).backward(given);
    optimizer.step();
    EXPECT_TRUE(a.grad().equal(torch::full({6}, mean_of_ranks() * size()))) << a.grad();
    EXPECT_TRUE(given.equal(torch::full({2, 3}, rank() + 1.0))) << given;
  }
}

// What torch::autograd::grad() returns may have elements that share memory.
TEST_F(Optimizer, GradientsThatCannotBeWritten) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(0.0));
  for (int step = 0; step < 3; ++step) {
    p.mutable_grad() = torch::full({}, rank() + 1.0).expand({3});
    optimizer.step();
    EXPECT_TRUE(p.grad().equal(torch::full({3}, mean_of_ranks()))) << p.grad();
    {
      const c10::InferenceMode inference;
      const at::Tensor all = torch::full({6}, rank() + 1.0);
      p.mutable_grad() = all.narrow(0, 0, 3);
    }
    optimizer.step();
    EXPECT_TRUE(p.grad().equal(torch::full({3}, mean_of_ranks()))) << p.grad();
  }
}

// Where autograd has put a gradient.
struct Look : torch::autograd::PostAccumulateGradHook {
  explicit Look(const void*& where) : seen(where) {}
  void operator()(const at::Tensor& parameter) override {
    seen = parameter.grad().const_data_ptr();
  }
  const void*& seen;  // the test's
};

// Nothing is copied but what must be.
TEST_F(Optimizer, AGradientIsReducedWhereItLies) {
  const at::Tensor p = parameter();
  const void* born = nullptr;
  torch::autograd::impl::set_post_acc_grad_hooks(p, std::make_unique<Look>(born));
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0),
                           DistributedOptimizerOptions().name("in place"));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    (p * p * 2 + p).sum().backward();
    optimizer.synchronize();
    EXPECT_NE(born, nullptr);
    EXPECT_EQ(p.grad().const_data_ptr(), born);
  }
}

// Horovod's idiom for clipping, then a step without backward() on some ranks.
TEST_F(Optimizer, SkippingOnceDoesNotSkipTheNextStep) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  (p.sum() * (rank() + 1)).backward();
  optimizer.synchronize();
  {
    const auto skipping = optimizer.skip_synchronize();
    optimizer.step();
  }
  optimizer.zero_grad();
  if (rank() == 0) (p.sum() * size()).backward();
  optimizer.step();
  EXPECT_TRUE(p.detach().allclose(torch::full({3}, -mean_of_ranks() - 1))) << p;
}

TEST_F(Optimizer, SumInsteadOfAverage) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0),
                           DistributedOptimizerOptions().op(ReduceOp::Sum).name("sums"));
  for (int step = 1; step <= 3; ++step) {
    optimizer.zero_grad();
    p.sum().backward();
    optimizer.synchronize();
    optimizer.step();
    EXPECT_TRUE(p.detach().equal(torch::full({3}, -1.0 * step * size()))) << "reduced once a step";
  }
}

TEST_F(Optimizer, GradientsThatAreUndefinedOnSomeRanksOrAll) {
  const at::Tensor used = parameter();
  const at::Tensor sometimes = parameter();
  const at::Tensor never = parameter(7);
  DistributedSgd optimizer(std::vector<at::Tensor>{never, sometimes, used},
                           torch::optim::SGDOptions(1.0).weight_decay(0));
  for (int step = 1; step <= 5; ++step) {
    optimizer.zero_grad();
    at::Tensor loss = used.sum();
    if (rank() == 0) loss = loss + sometimes.sum() * size();
    loss.backward();
    optimizer.step();
    EXPECT_FALSE(never.grad().defined()) << "no rank has a gradient, so no optimizer must see one";
    EXPECT_TRUE(sometimes.detach().equal(torch::full({3}, -1.0 * step)))
        << "step " << step << sometimes;
    EXPECT_TRUE(used.detach().equal(torch::full({3}, -1.0 * step)));
  }
}

TEST_F(Optimizer, ParametersTurnTrainableAndFrozen) {
  const at::Tensor always = parameter();
  const at::Tensor later = torch::zeros({3});
  DistributedSgd optimizer(std::vector<at::Tensor>{always, later}, torch::optim::SGDOptions(1.0));
  const auto step = [&] {
    optimizer.zero_grad();
    ((always * (rank() + 1)).sum() + (later * (rank() + 1)).sum()).backward();
    optimizer.step();
  };
  for (int i = 0; i < 4; ++i) step();
  EXPECT_TRUE(later.equal(torch::zeros({3})));
  later.requires_grad_(true);
  for (int i = 0; i < 4; ++i) step();
  EXPECT_TRUE(later.detach().allclose(torch::full({3}, -4 * mean_of_ranks())));
  later.requires_grad_(false);
  for (int i = 0; i < 4; ++i) step();
  EXPECT_TRUE(later.allclose(torch::full({3}, -4 * mean_of_ranks())));
  EXPECT_TRUE(always.detach().allclose(torch::full({3}, -12 * mean_of_ranks())));
}

TEST_F(Optimizer, ParametersOfAGroupThatIsAddedLater) {
  const at::Tensor first = parameter();
  const at::Tensor second = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{first}, torch::optim::SGDOptions(1.0));
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({second}));
  for (int step = 1; step <= 3; ++step) {
    optimizer.zero_grad();
    ((first.sum() + second.sum()) * (rank() + 1)).backward();
    optimizer.step();
    EXPECT_TRUE(second.detach().allclose(torch::full({3}, -step * mean_of_ranks())));
  }
}

// As a program does that gives its model another last layer.
TEST_F(Optimizer, ParametersThatReplaceOthers) {
  const at::Tensor kept = parameter();
  at::Tensor last = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{kept, last}, torch::optim::SGDOptions(1.0),
                           DistributedOptimizerOptions().num_groups(1));
  for (int layer = 0; layer < 3; ++layer) {
    const at::Tensor old = last;
    last = parameter();
    optimizer.param_groups()[0].params() = {kept, last};
    for (int step = 1; step <= 3; ++step) {
      if (step > 1) optimizer.zero_grad();  // step() is the first to learn of the new parameter
      ((kept.sum() + last.sum()) * (rank() + 1)).backward();
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_TRUE(kept.detach().equal(torch::full({3}, -(layer * 3 + step) * mean_of_ranks())));
      EXPECT_TRUE(last.detach().equal(torch::full({3}, -step * mean_of_ranks()))) << last;
    }
    (old.sum() * (rank() + 1)).backward();
    EXPECT_TRUE(old.grad().equal(torch::full({3}, rank() + 1.0))) << "not reduced any more";
    const DistributedSgd another(std::vector<at::Tensor>{old}, torch::optim::SGDOptions(1.0));
  }
  // Parameters may also go without a successor, and come back.
  for (const bool has_last : {false, true, true}) {
    optimizer.param_groups()[0].params() = {kept};
    if (has_last) optimizer.param_groups()[0].params().push_back(last);
    optimizer.zero_grad();
    last.mutable_grad() = at::Tensor();
    ((kept.sum() + last.sum()) * (rank() + 1)).backward();
    optimizer.synchronize();
    EXPECT_TRUE(kept.grad().equal(torch::full({3}, mean_of_ranks())));
    EXPECT_TRUE(last.grad().equal(torch::full({3}, has_last ? mean_of_ranks() : rank() + 1.0)));
    optimizer.step();
  }
}

// During backward() the change is refused, and noticed afterwards.
TEST_F(Optimizer, ParametersThatAreReplacedDuringBackward) {
  const at::Tensor kept = parameter();
  const at::Tensor old = parameter();
  const at::Tensor replacement = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{kept, old}, torch::optim::SGDOptions(1.0));
  const at::Tensor h = kept * 1.0;
  h.register_hook([&](const at::Tensor&) {
    optimizer.param_groups()[0].params() = {kept, replacement};
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { optimizer.zero_grad(); }),
                HasSubstr("was removed from the optimizer's groups during backward()"));
  });
  const at::Tensor loss = h.sum();
  const at::Tensor later = old.sum();  // backward() comes to it earlier
  (loss + later).backward();
  optimizer.zero_grad();
  ((kept.sum() + replacement.sum()) * (rank() + 1)).backward();
  EXPECT_TRUE(replacement.grad().equal(torch::full({3}, mean_of_ranks())));
}

TEST_F(Optimizer, ParametersThatReplaceOthersWithAdasum) {
  const at::Tensor first = parameter();
  const at::Tensor second = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{first}, torch::optim::SGDOptions(1.0),
                           DistributedOptimizerOptions().op(ReduceOp::Adasum));
  first.sum().backward();
  optimizer.step();
  optimizer.param_groups()[0].params() = {second};
  optimizer.zero_grad();
  (second.sum() * (rank() + 1)).backward();
  optimizer.step();
  EXPECT_TRUE(first.detach().allclose(torch::full({3}, -1.0)));
  EXPECT_FALSE(second.detach().equal(torch::zeros({3})));
  EXPECT_NO_THROW(check_in_sync("the second one", second.detach())) << second;
}

// It is this rank's own, while those that backward() has just reduced are equal on all ranks.
TEST_F(Optimizer, AGradientThatAnAddedParameterHasIsReduced) {
  const at::Tensor first = parameter();
  const at::Tensor added = parameter();
  added.mutable_grad() = torch::full({3}, rank() + 1.0);
  DistributedSgd optimizer(std::vector<at::Tensor>{first}, torch::optim::SGDOptions(1.0),
                           DistributedOptimizerOptions().op(ReduceOp::Sum));
  (first.sum() * (rank() + 1)).backward();
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({added}));
  optimizer.step();
  const at::Tensor expected = torch::full({3}, -mean_of_ranks() * size());
  EXPECT_TRUE(first.detach().allclose(expected));
  EXPECT_TRUE(added.detach().allclose(expected));
}

// The other ranks would wait for ever for a gradient that a rank cannot bring into the form on
// which they have agreed.
TEST_F(Optimizer, AGradientThatCannotBeMadeSparseFailsOnAllRanks) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  DistributedSgd optimizer(table->parameters(), torch::optim::SGDOptions(1.0));
  table(torch::tensor({1})).sum().backward();
  optimizer.step();
  optimizer.zero_grad();
  const at::Tensor ones = torch::ones({4, 2});
  if (rank() == 0) {
    table->weight.mutable_grad() = ones.to_sparse_csr();
    EXPECT_THROW(optimizer.step(), c10::Error);
  } else {
    table->weight.mutable_grad() = ones.to_sparse(1);
    EXPECT_THAT(message_of<MismatchError>([&] { optimizer.step(); }),
                HasSubstr("rank 0 could not take part"));
  }
}

TEST_F(Optimizer, TwoOptimizersCannotOwnAParameter) {
  const at::Tensor p = parameter();
  {
    DistributedSgd first(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  DistributedSgd second(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
                }),
                HasSubstr("another DistributedOptimizer"));
  }
  DistributedSgd third(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  (p.sum() * (rank() + 1)).backward();
  third.step();
  EXPECT_TRUE(p.detach().allclose(torch::full({3}, -mean_of_ranks())));
}

// The error comes in every step, and no parameter of the group is taken over.
TEST_F(Optimizer, AnAddedParameterOfAnotherOptimizerIsRefusedEachTime) {
  const at::Tensor owned = parameter();
  const at::Tensor own = parameter();
  const at::Tensor added = parameter();
  DistributedSgd other(std::vector<at::Tensor>{owned}, torch::optim::SGDOptions(1.0));
  DistributedSgd optimizer(std::vector<at::Tensor>{own}, torch::optim::SGDOptions(1.0));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                optimizer.add_param_group(torch::optim::OptimizerParamGroup({added, owned}));
              }),
              HasSubstr("parameter 2 of optimizer1 belongs to another DistributedOptimizer"));
  for (int step = 0; step < 2; ++step) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { optimizer.step(); }),
                HasSubstr("parameter 2 of optimizer1 belongs to another DistributedOptimizer"));
  }
  (added.sum() * (rank() + 1)).backward();
  EXPECT_TRUE(added.grad().equal(torch::full({3}, rank() + 1.0))) << "not reduced";
}

// A hook that the program put there before still runs, first, and is back at the end.
TEST_F(Optimizer, HooksOfTheProgramAreKept) {
  struct Doubling : torch::autograd::PostAccumulateGradHook {
    void operator()(const at::Tensor& tensor) override { tensor.mutable_grad().mul_(2); }
  };
  const at::Tensor p = parameter();
  torch::autograd::impl::set_post_acc_grad_hooks(p, std::make_unique<Doubling>());
  {
    DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
    (p.sum() * (rank() + 1)).backward();
    optimizer.step();
    EXPECT_TRUE(p.grad().allclose(torch::full({3}, 2 * mean_of_ranks())));
  }
  p.mutable_grad() = at::Tensor();
  p.sum().backward();
  EXPECT_TRUE(p.grad().equal(torch::full({3}, 2.0)));
}

TEST_F(Optimizer, WithoutItParametersAreFreeAgain) {
  const at::Tensor p = parameter();
  { DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0)); }
  p.sum().backward();
  p.sum().backward();
  EXPECT_TRUE(p.grad().equal(torch::full({3}, 2.0)));
}

// One gradient cannot be submitted; the others are the caller's again all the
// same.
TEST_F(Optimizer, AGradientThatCannotBeReducedLeavesNoOtherInFlight) {
  const at::Tensor first = parameter();
  const at::Tensor odd = torch::zeros({3}, torch::kComplexHalf);
  const at::Tensor last = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{first, odd, last},
                           torch::optim::SGDOptions(1.0));
  odd.set_requires_grad(true);
  odd.mutable_grad() = torch::ones({3}, torch::kComplexHalf);
  last.mutable_grad() = torch::full({3}, static_cast<float>(rank() + 1));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { (first.sum() * (rank() + 1)).backward(); }),
              HasSubstr("ComplexHalf"));
  EXPECT_TRUE(first.grad().allclose(torch::full({3}, mean_of_ranks())));
  EXPECT_TRUE(last.grad().allclose(torch::full({3}, mean_of_ranks())));
  odd.set_requires_grad(false);
  optimizer.zero_grad();
  (first.sum() + last.sum()).backward();
  optimizer.step();
}

TEST_F(Optimizer, RefusesDtypesThatCannotBeReduced) {
  const auto refused = [](at::ScalarType dtype, ReduceOp op) {
    return message_of<InvalidArgumentError>([&] {
      const std::vector<at::Tensor> parameters = {parameter(),
                                                  torch::zeros({3}, dtype).requires_grad_()};
      DistributedSgd(parameters, torch::optim::SGDOptions(1.0),
                     DistributedOptimizerOptions().op(op).named_parameters(
                         {{"first", parameters[0]}, {"odd", parameters[1]}}));
    });
  };
  EXPECT_THAT(refused(torch::kComplexHalf, ReduceOp::Average),
              HasSubstr("parameter 'odd' is of dtype ComplexHalf, which kolo cannot reduce"));
  EXPECT_THAT(refused(torch::kComplexFloat, ReduceOp::Adasum), HasSubstr("parameter 'odd'"));
}

// A refused group leaves none of its parameters attached.
TEST_F(Optimizer, GoesOnAfterAGroupThatWasRefused) {
  const at::Tensor first = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{first}, torch::optim::SGDOptions(1.0));
  const at::Tensor good = parameter();
  const at::Tensor odd = torch::zeros({3}, torch::kComplexHalf).requires_grad_();
  EXPECT_THROW(optimizer.add_param_group(
                   torch::optim::OptimizerParamGroup(std::vector<at::Tensor>{good, odd})),
               InvalidArgumentError);
  EXPECT_THROW(optimizer.zero_grad(), InvalidArgumentError) << "as long as it is in the optimizer";
  odd.set_requires_grad(false);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    ((first.sum() + good.sum()) * (rank() + 1)).backward();
    EXPECT_TRUE(first.grad().allclose(torch::full({3}, mean_of_ranks())));
    EXPECT_TRUE(good.grad().allclose(torch::full({3}, mean_of_ranks())));
    optimizer.step();
  }
}

// A channels_last parameter, on ranks that have a gradient, have none, or have set one with other
// strides, which stays the program's.
TEST_F(Optimizer, GradientsLieInMemoryLikeTheirParameters) {
  for (const Compression& compression : {Compression::None, Compression::Fp16}) {
    const at::Tensor p =
        torch::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    const at::Tensor other = parameter();
    DistributedSgd optimizer(std::vector<at::Tensor>{p, other}, torch::optim::SGDOptions(1.0),
                             DistributedOptimizerOptions().compression(compression));
    const at::Tensor weights = torch::arange(120, torch::kFloat).reshape({2, 3, 4, 5});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = other.sum();
      if (rank() == 1) {
        p.mutable_grad() = weights.clone();
        loss.backward();
      } else if (rank() == 2) {
        loss.backward();
      } else {
        (loss + (p * weights).sum()).backward();
      }
      const int with_gradient = size() - (size() > 2 ? 1 : 0);
      EXPECT_TRUE(p.grad().allclose(weights * with_gradient / size(), 1e-3)) << "step " << step;
      EXPECT_EQ(p.grad().strides(), rank() == 1 ? weights.strides() : p.strides());
      optimizer.step();
    }
  }
}

// A model that is channels_last on some ranks only, and lies in yet another order on others.
TEST_F(Optimizer, ParametersMayLieInMemoryInAnotherOrderOnEachRank) {
  for (const bool sparse_as_dense : {false, true}) {
    // On two ranks both orders are not the dimensions' own.
    const std::vector<std::vector<std::int64_t>> strides = {
        {60, 1, 15, 3}, {1, 40, 10, 2}, {60, 20, 5, 1}};
    const at::Tensor p = torch::empty_strided({2, 3, 4, 5}, strides[rank() % 3]).zero_();
    p.set_requires_grad(true);
    const at::Tensor unused = torch::empty_strided({2, 3, 4, 5}, strides[rank() % 3]).zero_();
    unused.set_requires_grad(true);
    DistributedSgd optimizer(std::vector<at::Tensor>{p, unused}, torch::optim::SGDOptions(1.0),
                             DistributedOptimizerOptions().sparse_as_dense(sparse_as_dense));
    const at::Tensor weights = torch::arange(120, torch::kFloat).reshape({2, 3, 4, 5});
    for (int step = 1; step <= 3; ++step) {
      optimizer.zero_grad();
      at::Tensor loss = (p * weights).sum();
      if (rank() == 0) loss = loss + (unused * size()).sum();
      loss.backward();
      EXPECT_TRUE(p.grad().equal(weights));
      EXPECT_TRUE(unused.grad().equal(torch::ones_like(unused)));
      EXPECT_EQ(p.grad().strides(), p.strides());
      EXPECT_EQ(unused.grad().strides(), unused.strides());
      optimizer.step();
      EXPECT_TRUE(p.detach().equal(-step * weights));
    }
  }
}

TEST_F(Optimizer, ChannelsLastGradientsAreReducedWhereTheyLie) {
  const at::Tensor p = torch::zeros({1 << 16, 16, 2, 2});
  const at::Tensor channels_last = p.as_strided(p.sizes(), {64, 1, 32, 16}).requires_grad_();
  DistributedSgd optimizer(std::vector<at::Tensor>{channels_last}, torch::optim::SGDOptions(0.1));
  channels_last.mutable_grad() = torch::empty_strided(p.sizes(), {64, 1, 32, 16});
  channels_last.grad().fill_(rank() + 1);
  const std::size_t before = arena_statistics().peak;
  optimizer.synchronize();
  EXPECT_LT(arena_statistics().peak, before + p.nbytes() / 2) << "there was no copy";
  EXPECT_TRUE(channels_last.grad().equal(torch::full(p.sizes(), mean_of_ranks())));
  optimizer.step();
}

// The others wait neither for its gradients nor for its loss.
TEST_F(Optimizer, AClosureThatFailsOnOneRank) {
  if (size() == 1) GTEST_SKIP() << "needs 2 ranks";
  for (const int passes : {1, 2}) {  // with 2, step() reduces, and not backward()
    const at::Tensor p = parameter();
    DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0),
                             DistributedOptimizerOptions().backward_passes_per_step(passes));
    int steps = 0;
    for (const std::string when : {"", "before backward()", "after it", "after it", ""}) {
      SCOPED_TRACE(when);
      const auto fails = [&](const std::string& now) {
        if (now == when && rank() == size() - 1) throw std::runtime_error("no loss " + when);
      };
      const auto run = [&] {
        return optimizer.step([&] {
          optimizer.zero_grad();
          fails("before backward()");
          (p.sum() * (rank() + 1)).backward();
          fails("after it");
          return torch::full({}, rank() + 1.0);
        });
      };
      if (when.empty()) {
        EXPECT_TRUE(run().allclose(torch::full({}, mean_of_ranks())));
        ++steps;
      } else if (rank() == size() - 1) {
        EXPECT_THAT(message_of<std::runtime_error>(run), HasSubstr("no loss " + when));
      } else {
        EXPECT_THAT(message_of<MismatchError>(run),
                    HasSubstr("the closure ended with an error: no loss " + when));
      }
      EXPECT_TRUE(p.detach().equal(torch::full({3}, -steps * mean_of_ranks())));
    }
  }
}

// An error that all ranks get leaves nothing behind for the next step.
TEST_F(Optimizer, AClosureThatFailsInBackward) {
  if (size() == 1) GTEST_SKIP() << "needs 2 ranks";
  const at::Tensor p = parameter();
  const at::Tensor reached_first = parameter();
  DistributedSgd optimizer(std::vector<at::Tensor>{p, reached_first},
                           torch::optim::SGDOptions(1.0));
  for (int step = 1; step <= 3; ++step) {
    for (const bool fails : {true, false}) {
      const auto run = [&] {
        return optimizer.step([&] {
          optimizer.zero_grad();
          const at::Tensor h = p * (rank() + 1);
          h.register_hook([&](const at::Tensor&) {
            if (fails && rank() == size() - 1) throw std::runtime_error("a hook that fails");
          });
          const at::Tensor loss = h.sum();
          const at::Tensor later = reached_first.sum();  // backward() comes to it earlier
          (loss + later).backward();
          return torch::full({}, rank() + 1.0);
        });
      };
      if (!fails) {
        EXPECT_TRUE(run().allclose(torch::full({}, mean_of_ranks())));
      } else {
        EXPECT_ANY_THROW(run());
      }
    }
    EXPECT_TRUE(p.detach().equal(torch::full({3}, -step * mean_of_ranks())));
  }
}

TEST_F(Optimizer, Closures) {
  const at::Tensor p = parameter(1.0);
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  const at::Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    const at::Tensor l = p.sum() * (rank() + 1);
    l.backward();
    return l;
  });
  EXPECT_TRUE(loss.allclose(torch::tensor(static_cast<float>(3 * mean_of_ranks()))));
  EXPECT_TRUE(p.detach().allclose(torch::full({3}, 1 - mean_of_ranks())));
}

// LBFGS calls the closure several times and decides by the loss: all ranks must decide alike.
TEST_F(Optimizer, Lbfgs) {
  const at::Tensor p = torch::zeros({4}, torch::kDouble).requires_grad_();
  DistributedOptimizer<torch::optim::LBFGS> optimizer(
      std::vector<at::Tensor>{p},
      torch::optim::LBFGSOptions(1.0).max_iter(20).line_search_fn("strong_wolfe"));
  const at::Tensor target = torch::arange(4, torch::kDouble) * (rank() + 1);
  for (int step = 0; step < 3; ++step) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const at::Tensor loss = (p - target).pow(2).sum();
      loss.backward();
      return loss;
    });
  }
  EXPECT_TRUE(p.detach().allclose(torch::arange(4, torch::kDouble) * mean_of_ranks(), 1e-8, 1e-8))
      << p;
}

TEST_F(Optimizer, IsSavedAndLoadedAsItsBase) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("kolo_optimizer_test." + std::to_string(getpid()));
  const at::Tensor p = parameter();
  DistributedOptimizer<torch::optim::Adam> first(std::vector<at::Tensor>{p},
                                                 torch::optim::AdamOptions(0.1));
  (p.sum() * (rank() + 1)).backward();
  first.step();
  torch::save(first, file);
  const at::Tensor q = p.detach().clone().requires_grad_();
  torch::optim::Adam plain(std::vector<at::Tensor>{q}, torch::optim::AdamOptions(0.5));
  torch::load(plain, file);
  std::filesystem::remove(file);
  first.zero_grad();
  (p.sum() * (rank() + 1)).backward();
  first.step();
  (q.sum() * mean_of_ranks()).backward();
  plain.step();
  EXPECT_TRUE(p.allclose(q)) << p << q;
}

TEST_F(Optimizer, LargeAndManyParameters) {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 50; ++i)
    parameters.push_back(torch::zeros({i % 7 == 0 ? 100000 : 10 + i}).requires_grad_());
  DistributedSgd optimizer(parameters, torch::optim::SGDOptions(1.0));
  for (int step = 1; step <= 5; ++step) {
    optimizer.zero_grad();
    at::Tensor loss = torch::zeros({});
    for (std::size_t i = 0; i < parameters.size(); ++i)
      loss = loss + parameters[i].sum() * static_cast<double>(rank() + 1 + i);
    loss.backward();
    optimizer.step();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double wanted = -step * (mean_of_ranks() + static_cast<double>(i));
      ASSERT_TRUE(parameters[i].detach().allclose(torch::full_like(parameters[i], wanted)))
          << i << " in step " << step;
    }
  }
}

}  // namespace
}  // namespace kolo
