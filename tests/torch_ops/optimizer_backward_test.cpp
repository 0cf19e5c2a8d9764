// When backward() returns, gradients are the reduced ones, and the program's to do with as it
// likes.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;
using Backward = WithKolo;
using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;
using Tensors = std::vector<at::Tensor>;

double mean_of_ranks() {
  return (size() + 1) / 2.0;
}

at::Tensor parameter(std::int64_t extent = 3) {
  return torch::zeros({extent}).requires_grad_();
}

// Its gradient is `factor` times (rank + 1).
at::Tensor loss(const at::Tensor& p, double factor = 1.0) {
  return p.sum() * (factor * (rank() + 1));
}

bool has(const at::Tensor& gradient, double value, double tolerance = 1e-5) {
  return gradient.defined() &&
         gradient.to_dense().allclose(torch::full_like(gradient.to_dense(), value), tolerance);
}

// Large enough to be reduced where it lies, and small enough for a bucket.
constexpr std::int64_t kExtents[] = {3, 100000};

TEST_F(Backward, GradientsAreReducedWhenItReturns) {
  const at::Tensor small = parameter();
  const at::Tensor large = parameter(100000);
  const at::Tensor unused = parameter();
  DistributedSgd optimizer(Tensors{small, large, unused}, torch::optim::SGDOptions(1.0));
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    (loss(small) + loss(large, 2)).backward();
    EXPECT_TRUE(has(small.grad(), mean_of_ranks()));
    EXPECT_TRUE(has(large.grad(), 2 * mean_of_ranks()));
    EXPECT_FALSE(unused.grad().defined());
    torch::nn::utils::clip_grad_norm_(Tensors{small, large}, 1.0);
    const at::Tensor clipped = small.grad().clone();
    const at::Tensor before = small.detach().clone();
    optimizer.step();
    EXPECT_TRUE(small.grad().equal(clipped)) << "step() has nothing left to reduce";
    EXPECT_TRUE(small.allclose(before - clipped));
  }
}

// What each rank adds in passes before step(), for every way in which gradients are reduced.
struct Way {
  const char* name;
  std::function<DistributedOptimizerOptions(const Tensors&)> options;
  bool sums = false;
};

const std::vector<Way>& ways() {
  using Options = DistributedOptimizerOptions;
  static const std::vector<Way> all = {
      {"average", [](const Tensors&) { return Options(); }},
      {"sum", [](const Tensors&) { return Options().op(ReduceOp::Sum); }, true},
      {"predivide", [](const Tensors&) { return Options().gradient_predivide_factor(2.0); }},
      {"bf16", [](const Tensors&) { return Options().compression(Compression::Bf16); }},
      {"sum fp16",
       [](const Tensors&) { return Options().op(ReduceOp::Sum).compression(Compression::Fp16); },
       true},
      {"one group", [](const Tensors&) { return Options().num_groups(1); }},
      {"sum, groups",
       [](const Tensors& of) {
         return Options().op(ReduceOp::Sum).groups({{of[1], of[2]}});
       },
       true},
  };
  return all;
}

// Two backward() as a GAN has them, one that reaches another part, and the program's own changes
// in between.
TEST_F(Backward, PassesAddUp) {
  for (const Way& way : ways()) {
    const Tensors all = {parameter(), parameter(100000), parameter()};
    DistributedSgd optimizer(all, torch::optim::SGDOptions(0.0), way.options(all));
    const double once = way.sums ? mean_of_ranks() * size() : mean_of_ranks();
    for (int step = 0; step < 4; ++step) {
      SCOPED_TRACE(std::string(way.name) + ", step " + std::to_string(step));
      optimizer.zero_grad(step % 2 == 0);
      (loss(all[0]) + loss(all[1])).backward();
      const void* const place = all[1].grad().const_data_ptr();
      EXPECT_TRUE(has(all[0].grad(), once));
      (loss(all[0], 2) + loss(all[1], 2) + loss(all[2])).backward();
      EXPECT_TRUE(has(all[0].grad(), 3 * once)) << all[0].grad();
      EXPECT_TRUE(has(all[1].grad(), 3 * once));
      EXPECT_TRUE(has(all[2].grad(), once));
      EXPECT_EQ(all[1].grad().const_data_ptr(), place) << "added to in place, as without kolo";
      loss(all[2]).backward();
      EXPECT_TRUE(has(all[0].grad(), 3 * once));
      EXPECT_TRUE(has(all[2].grad(), 2 * once));
      // Halved: what comes later adds to that.
      for (const at::Tensor& p : all) p.mutable_grad().mul_(0.5);
      loss(all[0]).backward();
      EXPECT_TRUE(has(all[0].grad(), 2.5 * once));
      EXPECT_TRUE(has(all[1].grad(), 1.5 * once));
      EXPECT_TRUE(has(all[2].grad(), once));
      // Zeroed behind the optimizer's back, as a module does it.
      all[0].mutable_grad().zero_();
      all[1].mutable_grad() = at::Tensor();
      (loss(all[0]) + loss(all[1])).backward();
      EXPECT_TRUE(has(all[0].grad(), once));
      EXPECT_TRUE(has(all[1].grad(), once));
      EXPECT_TRUE(has(all[2].grad(), once));
      // Another tensor in its place, which the program has computed from it.
      all[0].mutable_grad() = all[0].grad() * 0.5;
      (loss(all[0]) + loss(all[2])).backward();
      EXPECT_TRUE(has(all[0].grad(), 1.5 * once)) << all[0].grad();
      EXPECT_TRUE(has(all[1].grad(), once));
      optimizer.synchronize();
      optimizer.step();
      EXPECT_TRUE(has(all[0].grad(), 1.5 * once));
      EXPECT_TRUE(has(all[2].grad(), 2 * once));
    }
  }
}

// What comes under no_sync() is each rank's own until the next reduction.
TEST_F(Backward, AnUnreducedPassAfterAReducedOne) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    const Tensors all = {parameter(), parameter(100000), parameter()};
    DistributedSgd optimizer(all, torch::optim::SGDOptions(0.0), way.options(all));
    const double once = way.sums ? mean_of_ranks() * size() : mean_of_ranks();
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (loss(all[0]) + loss(all[1])).backward();
      all[1].mutable_grad().mul_(0.5);
      {
        const auto own = optimizer.no_sync();
        for (int i = 0; i < 2; ++i) (loss(all[0]) + loss(all[2])).backward();
      }
      if (step == 1) {
        optimizer.synchronize();
      } else {
        loss(all[0]).backward();
      }
      EXPECT_TRUE(has(all[0].grad(), (step == 1 ? 3 : 4) * once)) << all[0].grad();
      EXPECT_TRUE(has(all[1].grad(), 0.5 * once)) << all[1].grad();
      EXPECT_TRUE(has(all[2].grad(), 2 * once));
      optimizer.step();
    }
  }
}

TEST_F(Backward, SparseGradientsAddUp) {
  const at::Tensor table = torch::zeros({10, 2}).requires_grad_();
  const auto one = [&](std::int64_t row) {
    const at::Tensor rows = torch::tensor({row});
    return (torch::embedding(table, rows, -1, false, true) * (rank() + 1)).sum();
  };
  for (const bool sums : {false, true}) {
    DistributedSgd optimizer(
        Tensors{table}, torch::optim::SGDOptions(0.0),
        DistributedOptimizerOptions().op(sums ? ReduceOp::Sum : ReduceOp::Average));
    const double once = sums ? mean_of_ranks() * size() : mean_of_ranks();
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      one(2).backward();
      one(5).backward();
      one(5).backward();
      ASSERT_TRUE(table.grad().is_sparse());
      at::Tensor wanted = torch::zeros({10, 2});
      wanted[2] = once;
      wanted[5] = 2 * once;
      EXPECT_TRUE(table.grad().to_dense().allclose(wanted)) << table.grad();
      optimizer.step();
    }
  }
}

// The discriminator of a GAN is reached by the generator's loss, too.
TEST_F(Backward, OneOptimizerIsReachedByAnothersLoss) {
  const at::Tensor generator = parameter();
  const at::Tensor discriminator = parameter();
  DistributedSgd of_generator(Tensors{generator}, torch::optim::SGDOptions(1.0));
  DistributedSgd of_discriminator(Tensors{discriminator}, torch::optim::SGDOptions(1.0));
  for (int step = 1; step <= 4; ++step) {
    of_discriminator.zero_grad();
    loss(discriminator).backward();
    loss(discriminator, 2).backward();
    of_discriminator.step();
    of_generator.zero_grad();
    (loss(generator) + loss(discriminator, 100)).backward();
    of_generator.step();
    EXPECT_TRUE(discriminator.allclose(torch::full({3}, -3.0 * step * mean_of_ranks())));
    EXPECT_TRUE(generator.allclose(torch::full({3}, -1.0 * step * mean_of_ranks())));
  }
}

// Ranks reach the two optimizers in different order.
TEST_F(Backward, TwoOptimizersInOnePass) {
  const at::Tensor first = parameter(100000);
  const at::Tensor second = parameter();
  DistributedSgd one(Tensors{first}, torch::optim::SGDOptions(0.0));
  DistributedSgd two(Tensors{second}, torch::optim::SGDOptions(0.0));
  for (int step = 0; step < 5; ++step) {
    one.zero_grad();
    two.zero_grad();
    const bool swap = rank() % 2 == 1;
    (swap ? loss(second) + loss(first) : loss(first) + loss(second)).backward();
    EXPECT_TRUE(has(first.grad(), mean_of_ranks()));
    EXPECT_TRUE(has(second.grad(), mean_of_ranks()));
    one.step();
    two.step();
  }
}

// A rank whose backward() does not reach the optimizer takes part in its step().
TEST_F(Backward, ReachedOnSomeRanksOnly) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0));
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    if (rank() == step % size()) (p.sum() * size()).backward();
    optimizer.step();
    EXPECT_TRUE(has(p.grad(), 1));
  }
}

// --- backward() within backward() ---

// Activation checkpointing: the forward pass keeps no graph; backward() computes it again.
std::function<at::Tensor(const at::Tensor&)>& segment() {
  static std::function<at::Tensor(const at::Tensor&)> function;
  return function;
}

struct Checkpointed : torch::autograd::Function<Checkpointed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const torch::NoGradGuard guard;
    return segment()(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    at::Tensor y;
    {
      const torch::AutoGradMode on(true);
      y = segment()(x);
    }
    y.backward(gradients[0]);
    return {x.grad()};
  }
};

// Two segments share a layer; another layer lies between them, and what they share may also be used
// in the outer graph.
TEST_F(Backward, Checkpointing) {
  for (const bool also_outside : {false, true}) {
    for (const ReduceOp op : {ReduceOp::Average, ReduceOp::Sum}) {
      torch::manual_seed(3);
      torch::nn::Linear shared(torch::nn::LinearOptions(4, 4));
      torch::nn::Linear between(torch::nn::LinearOptions(4, 4));
      shared->to(torch::kDouble);
      between->to(torch::kDouble);
      segment() = [&](const at::Tensor& x) { return torch::tanh(shared->forward(x)); };
      const at::Tensor all = torch::randn({size() * 3, 4}, torch::kDouble);
      const auto run = [&](const at::Tensor& data, bool checkpointed) {
        const auto apply = [&](const at::Tensor& x) {
          return checkpointed ? Checkpointed::apply(x) : segment()(x);
        };
        at::Tensor h = data.clone().requires_grad_();
        h = apply(between->forward(apply(h)));
        return (also_outside ? shared->forward(h) : h).pow(2).sum();
      };
      const Tensors parameters = {shared->weight, shared->bias, between->weight, between->bias};
      run(all, false).backward();
      Tensors wanted;
      for (const at::Tensor& p : parameters) {
        wanted.push_back(op == ReduceOp::Sum ? p.grad().clone() : p.grad() / size());
        p.mutable_grad() = at::Tensor();
      }
      DistributedSgd optimizer(parameters, torch::optim::SGDOptions(0.0),
                               DistributedOptimizerOptions().op(op));
      for (int step = 0; step < 4; ++step) {
        SCOPED_TRACE(step);
        optimizer.zero_grad();
        run(all.narrow(0, 3L * rank(), 3), true).backward();
        for (std::size_t i = 0; i < parameters.size(); ++i)
          EXPECT_TRUE(parameters[i].grad().allclose(wanted[i], 1e-12, 1e-12)) << i;
        optimizer.step();
      }
    }
  }
}

// A gradient of this many elements is sent at once.
constexpr std::int64_t kSentAtOnce = 16384;

// A layer that is shared only from the third step on is submitted when the first use is complete.
TEST_F(Backward, AParameterThatIsReachedAgainInFlightIsAnError) {
  const at::Tensor p = parameter(kSentAtOnce);
  segment() = [&](const at::Tensor& x) { return x * p; };
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0));
  const auto run = [&](bool shared) {
    const at::Tensor inner = Checkpointed::apply(torch::ones({kSentAtOnce}).requires_grad_());
    return shared ? (inner * p).sum() : inner.sum();
  };
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    run(false).backward();
  }
  optimizer.zero_grad();
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { run(true).backward(); }),
              HasSubstr("changes while it is being reduced"));
  optimizer.zero_grad();
  {
    const auto own = optimizer.no_sync();  // as the error says
    run(true).backward();
  }
  optimizer.step();
  EXPECT_TRUE(has(p.grad(), 0)) << "x and p are ones and zeros: " << p.grad();
}

// A small gradient waits for others, here for a large one. If it was reached again meanwhile, it
// must not be sent with them: it may be reached once more.
TEST_F(Backward, ASmallParameterThatIsReachedAgainBeforeItIsSent) {
  const at::Tensor p = torch::ones({4}).requires_grad_();
  const at::Tensor large = parameter(kSentAtOnce);
  segment() = [&](const at::Tensor& x) { return x * p; };
  DistributedSgd optimizer(Tensors{p, large}, torch::optim::SGDOptions(0.0));
  // If p is shared, the backward pass comes to it twice, then to the large one, and to p again.
  const auto run = [&](bool shared) {
    const int r = rank() + 1;
    const at::Tensor start = torch::ones({4}).requires_grad_() * r;
    at::Tensor h = shared ? Checkpointed::apply(start) : start;
    h = h + large.sum() * r;  // made after the first segment, so backward() reaches it before
    if (shared) h = Checkpointed::apply(h);
    Checkpointed::apply(h).sum().backward();
  };
  for (int step = 0; step < 5; ++step) {
    SCOPED_TRACE(step);
    optimizer.zero_grad();
    const bool shared = step == 3;
    run(shared);
    // The loss is sum(p * r), or sum(p * p * p * r), and large adds nothing to it.
    EXPECT_TRUE(has(p.grad(), (shared ? 3 : 1) * mean_of_ranks())) << p.grad();
    EXPECT_TRUE(has(large.grad(), 4 * mean_of_ranks()));
  }
}

// --- errors ---

// Sends the gradient as it is, by the program's own means.
struct AsItIs : GradientCompressor {
  std::vector<at::Tensor> compress(const at::Tensor& gradient) override {
    return {gradient.clone()};
  }
  at::Tensor decompress(const std::vector<at::Tensor>& reduced) override { return reduced[0]; }
};

// Another thread changes a gradient that has been sent, before backward() comes to the first
// layer.
TEST_F(Backward, AGradientThatChangesInFlightIsNamed) {
  const auto own = [](const at::Tensor&) { return std::make_unique<AsItIs>(); };
  struct Kind {
    const char* name;
    Compression compression;
    bool sparse;
  };
  const std::function<void(const at::Tensor&)> changes[] = {
      [](const at::Tensor& p) { p.mutable_grad().mul_(2); },
      [](const at::Tensor& p) { p.mutable_grad() = p.grad().clone(); },
      [](const at::Tensor& p) { p.mutable_grad() = at::Tensor(); }};
  for (const Kind& kind :
       {Kind{"as it is", Compression::None, false}, Kind{"float16", Compression::Fp16, false},
        Kind{"the program's", own, false}, Kind{"sparse", Compression::None, true}}) {
    for (const std::int64_t rows : {kSentAtOnce / 2, std::int64_t{50000}}) {
      for (const auto& change : changes) {
        SCOPED_TRACE(std::string(kind.name) + ", " + std::to_string(rows) + " rows");
        const at::Tensor first = parameter(4);
        const at::Tensor last = torch::zeros({rows, 2}).requires_grad_();
        DistributedSgd optimizer(Tensors{first, last}, torch::optim::SGDOptions(0.0),
                                 DistributedOptimizerOptions()
                                     .named_parameters({{"first", first}, {"last", last}})
                                     .compression(kind.compression));
        const auto run = [&](bool changed) {
          const at::Tensor h = first * static_cast<double>(rank() + 1);
          h.register_hook([&](const at::Tensor&) {
            if (changed) std::thread([&] { change(last); }).join();
          });
          const at::Tensor looked_up =
              torch::embedding(last, torch::tensor({0, 1}), -1, false, kind.sparse);
          (looked_up.sum() * (rank() + 1) + h.sum()).backward();
        };
        for (int step = 0; step < 5; ++step) {
          optimizer.zero_grad();
          if (step == 3) {
            EXPECT_THAT(message_of<InvalidArgumentError>([&] { run(true); }),
                        HasSubstr(".last was changed while it was being reduced"));
            continue;
          }
          run(false);
          EXPECT_TRUE(has(first.grad(), mean_of_ranks()));
          EXPECT_TRUE(has(last.grad().to_dense().narrow(0, 0, 2), mean_of_ranks()));
        }
      }
    }
  }
}

struct Throwing : torch::autograd::Function<Throwing> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("a function of the program's own");
  }
};

// One rank's backward() fails after it has reached something; the others do not wait for the rest.
// All go on with the next batch.
TEST_F(Backward, AnErrorOnOneRank) {
  const at::Tensor early = parameter(100000);
  const at::Tensor late = parameter();
  DistributedSgd optimizer(Tensors{early, late}, torch::optim::SGDOptions(0.0));
  const auto run = [&](bool fails) {
    const at::Tensor part = fails ? Throwing::apply(late * 1) : late * 1;
    (loss(part) + loss(early)).backward();
  };
  for (int step = 0; step < 6; ++step) {
    SCOPED_TRACE(step);
    optimizer.zero_grad();
    if (step % 2 == 1) {
      run(false);
      EXPECT_TRUE(has(early.grad(), mean_of_ranks()));
      EXPECT_TRUE(has(late.grad(), mean_of_ranks()));
      optimizer.step();
    } else if (rank() == size() - 1) {
      EXPECT_THAT(message_of<std::runtime_error>([&] { run(true); }),
                  HasSubstr("the program's own"));
    } else {
      EXPECT_THAT(message_of<MismatchError>([&] { run(false); }),
                  HasSubstr("backward() ended with an error: a function of the program's own"));
    }
  }
}

// The others wait for this rank in a collective of the graph, as SyncBatchNorm has. The error comes
// out all the same.
TEST_F(Backward, AnErrorBeforeACollectiveOfTheGraph) {
  if (size() == 1) GTEST_SKIP() << "nobody else waits";
  const at::Tensor first = parameter();
  const at::Tensor last = parameter(kSentAtOnce);
  DistributedSgd optimizer(Tensors{first, last}, torch::optim::SGDOptions(0.0));
  const auto summed = AllreduceOptions("in.graph").op(ReduceOp::Sum);
  const auto run = [&](bool fails) {
    const at::Tensor all = allreduce(first * 1, summed).sum();
    const at::Tensor before = fails ? Throwing::apply(all) : all;
    const at::Tensor own = loss(last);  // comes later, so backward() reaches it earlier
    (before + own).backward();
  };
  for (int step = 0; step < 6; ++step) {
    SCOPED_TRACE(step);
    optimizer.zero_grad();
    if (step % 2 == 1) {
      run(false);
      EXPECT_TRUE(has(first.grad(), size()));
      EXPECT_TRUE(has(last.grad(), mean_of_ranks()));
      optimizer.step();
    } else if (rank() == size() - 1) {
      EXPECT_THAT(message_of<std::runtime_error>([&] { run(true); }),
                  HasSubstr("the program's own"));
      // In place of the node that was not reached.
      allreduce(at::ones_like(first), AllreduceOptions(summed).name("in.graph.gradient"));
    } else {
      EXPECT_THAT(message_of<MismatchError>([&] { run(false); }),
                  HasSubstr("backward() ended with an error: a function of the program's own"));
    }
  }
}

TEST_F(Backward, AGradientWithAGraphIsAnError) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0));
  const auto run = [&] { ((p + 1).pow(2).sum() * (rank() + 1)).backward({}, true, true); };
  if (size() == 1) {
    run();  // as in any other program
    p.grad().sum().backward();
    return;
  }
  EXPECT_THAT(message_of<InvalidArgumentError>(run), HasSubstr("torch::autograd::grad()"));
  optimizer.zero_grad();
  // A penalty from what grad() returns.
  const at::Tensor value = (p + 1).pow(2).sum() * (rank() + 1);
  const at::Tensor gradient = torch::autograd::grad({value}, {p}, {}, true, true)[0];
  gradient.sum().backward();
  EXPECT_TRUE(has(p.grad(), 2 * mean_of_ranks()));
}

// By a hook that comes after kolo's, on another parameter.
TEST_F(Backward, AChangeInFlightIsNoticed) {
  struct Changing : torch::autograd::PostAccumulateGradHook {
    at::Tensor other;
    bool on = false;
    void operator()(const at::Tensor& /*parameter*/) override {
      if (on) other.mutable_grad().mul_(2);
    }
  };
  const at::Tensor first = parameter();
  const at::Tensor second = parameter(kSentAtOnce);
  auto hook = std::make_unique<Changing>();
  Changing* const changing = hook.get();
  hook->other = second;
  torch::autograd::impl::set_post_acc_grad_hooks(first, std::move(hook));
  DistributedSgd optimizer(Tensors{first, second}, torch::optim::SGDOptions(0.0));
  const auto run = [&] {
    optimizer.zero_grad();
    const at::Tensor of_first = loss(first);
    const at::Tensor of_second = loss(second);  // comes later, so backward() reaches it earlier
    (of_first + of_second).backward();
  };
  run();
  run();
  changing->on = true;
  EXPECT_THAT(message_of<InvalidArgumentError>(run), HasSubstr("was changed while it was being"));
  changing->on = false;
  run();
  EXPECT_TRUE(has(second.grad(), mean_of_ranks()));
}

// One rank calls backward() or step() once more than the others. Its reduction would meet that of
// their next step.
TEST_F(Backward, RanksInDifferentPasses) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const at::Tensor p = parameter();
  const bool odd = rank() == size() - 1;
  const std::string last = std::to_string(size() - 1);
  for (const bool one_more_step : {false, true}) {
    DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0),
                             DistributedOptimizerOptions().name(one_more_step ? "s" : "b"));
    const auto step = [&] {
      optimizer.zero_grad();
      loss(p).backward();
      optimizer.step();
    };
    step();
    optimizer.zero_grad();
    loss(p).backward();
    const auto differ = [&] {
      if (!odd || one_more_step) optimizer.step();
      if (odd && one_more_step) {
        const auto own = optimizer.skip_synchronize();
        optimizer.step();
      }
      loss(p).backward();
    };
    EXPECT_THAT(message_of<MismatchError>(differ),
                one_more_step ? AllOf(HasSubstr("backward() 1 of step 3 on rank"),
                                      HasSubstr("backward() 1 of step 4 on rank " + last))
                              : AllOf(HasSubstr("backward() 2 of step 2 on rank " + last),
                                      HasSubstr("backward() 1 of step 3 on rank")));
    join();  // the count starts anew
    step();
    EXPECT_TRUE(has(p.grad(), mean_of_ranks()));
  }
}

// --- counts of passes ---

TEST_F(Backward, ZeroGradStartsTheCountOfPassesAnew) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0),
                           DistributedOptimizerOptions().backward_passes_per_step(2));
  if (rank() == size() - 1) loss(p, 100).backward();  // one pass of two, given up
  optimizer.zero_grad();
  loss(p).backward();
  EXPECT_TRUE(has(p.grad(), rank() + 1)) << "one pass of two";
  loss(p).backward();
  EXPECT_TRUE(has(p.grad(), 2 * mean_of_ranks()));
}

// 10 batches in passes of 4; the last rank has one batch fewer and joins with a part of the passes.
TEST_F(Backward, PassesAndJoin) {
  const Tensors all = {parameter(), parameter(40000)};
  DistributedSgd optimizer(all, torch::optim::SGDOptions(0.0),
                           DistributedOptimizerOptions().backward_passes_per_step(4));
  const auto value = [](int r, int epoch, int batch) {
    return 1.0 + batch + 100 * r + 1000 * epoch;
  };
  const auto batches = [](int r) { return r == size() - 1 && r > 0 ? 9 : 10; };
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int batch = 0; batch < batches(rank()); ++batch) {
      SCOPED_TRACE("epoch " + std::to_string(epoch) + " batch " + std::to_string(batch));
      if (batch % 4 == 0) optimizer.zero_grad();
      ((all[0].sum() + all[1].sum()) * value(rank(), epoch, batch)).backward();
      const bool part = batch == 9;  // its step has two of four passes, and one rank has joined
      if (batch % 4 != 3 && !part) continue;
      double wanted = 0;
      for (int r = 0; r < size(); ++r) {
        if (part && batches(r) == 9) continue;  // gave its pass up
        for (int k = batch / 4 * 4; k <= batch; ++k) wanted += value(r, epoch, k) / size();
      }
      optimizer.synchronize();
      EXPECT_TRUE(has(all[0].grad(), wanted)) << all[0].grad() << " for " << wanted;
      EXPECT_TRUE(has(all[1].grad(), wanted));
      optimizer.step();
    }
    join();
  }
}

// Rank r has r + 1 batches. The parameters' gradients are r + 1 in each, so the average over those
// that take part in batch b is that of b + 1 to n.
TEST_F(Backward, AveragesOverTheRanksThatHaveNotJoined) {
  using Options = DistributedOptimizerOptions;
  for (const bool over_joined : {true, false}) {
    for (const Options& how : {Options(), Options().gradient_predivide_factor(2.0),
                               Options().compression(Compression::Bf16), Options().num_groups(1)}) {
      const double tolerance = how.compression().dtype() ? 1e-2 : 1e-5;
      const at::Tensor table = torch::zeros({10, 2}).requires_grad_();
      const Tensors all = {parameter(), parameter(40000), parameter(), table};
      Tensors at_first = all;
      at_first.push_back(parameter());
      DistributedSgd optimizer(at_first, torch::optim::SGDOptions(1.0),
                               Options(how).average_over_joined(over_joined));
      optimizer.param_groups()[0].params() = all;  // one was removed
      const at::Tensor row = torch::tensor({std::int64_t{2}});
      const auto backward = [&] {
        (loss(all[0]) + loss(all[1]) + loss(torch::embedding(table, row, -1, false, true)))
            .backward();
      };
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int batch = 0; batch <= rank(); ++batch) {
          SCOPED_TRACE("batch " + std::to_string(batch));
          const double taking_part = size() - batch;
          const double sum = taking_part * (batch + 1 + size()) / 2;
          const double wanted = sum / (over_joined ? size() : taking_part);
          optimizer.zero_grad();
          for (int passes = 1; passes <= 2; ++passes) {
            backward();
            EXPECT_TRUE(has(all[0].grad(), passes * wanted, tolerance)) << all[0].grad() << wanted;
            EXPECT_TRUE(has(all[1].grad(), passes * wanted, tolerance));
            EXPECT_FALSE(all[2].grad().defined() && how.num_groups() == 0);
            EXPECT_TRUE(has(table.grad().to_dense()[2], passes * wanted));
          }
          optimizer.step();
        }
        join();
      }
    }
  }
}

// A rank in join() makes no steps. The last one has made all of them.
TEST_F(Backward, TheLastToJoinHasTheModel) {
  torch::nn::Linear net(2, 2);
  broadcast_parameters(net);
  DistributedOptimizer<torch::optim::Adam> optimizer(net, torch::optim::AdamOptions(0.1));
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int batch = 0; batch <= (rank() + epoch) % size(); ++batch) {
      optimizer.zero_grad();
      net->forward(torch::full({1, 2}, rank() + batch + 1.0)).pow(2).sum().backward();
      optimizer.step();
    }
    const int last = join();
    EXPECT_EQ((last + epoch) % size(), size() - 1);
    broadcast_parameters(net, last);
    broadcast_optimizer_state(optimizer, last);
    EXPECT_NO_THROW(check_in_sync(net, optimizer));
  }
}

TEST_F(Backward, RanksAverageOverTheSameRanks) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const at::Tensor p = parameter();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0),
                           DistributedOptimizerOptions().average_over_joined(rank() > 0));
  EXPECT_THAT(message_of<MismatchError>([&] { loss(p).backward(); }),
              HasSubstr("the option average_over_joined differs between ranks"));
}

// A rank that joins at once has not learnt which gradients are sparse when the others have.
TEST_F(Backward, ARankThatJoinedLearnsTheLayoutsLater) {
  const at::Tensor table = torch::zeros({10, 2}).requires_grad_();
  const at::Tensor p = parameter();
  DistributedSgd optimizer(Tensors{table, p}, torch::optim::SGDOptions(0.0));
  const auto step = [&](double wanted) {
    optimizer.zero_grad();
    (torch::embedding(table, torch::tensor({std::int64_t{2}}), -1, false, true).sum() + p.sum())
        .backward();
    EXPECT_TRUE(table.grad().is_sparse());
    EXPECT_TRUE(has(p.grad(), wanted));
    optimizer.step();
  };
  const bool early = rank() == size() - 1 && size() > 1;
  for (int i = 0; i < 3 && !early; ++i) step(size() == 1 ? 1.0 : (size() - 1.0) / size());
  join();
  for (int i = 0; i < 3; ++i) step(1.0);
}

// --- gradients that the program makes itself ---

TEST_F(Backward, GradientsOfTheProgramsOwn) {
  for (const ReduceOp op : {ReduceOp::Average, ReduceOp::Sum}) {
    const at::Tensor p = parameter();
    DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0),
                             DistributedOptimizerOptions().op(op));
    const double once = op == ReduceOp::Sum ? mean_of_ranks() * size() : mean_of_ranks();
    for (int step = 0; step < 6; ++step) {
      SCOPED_TRACE(step);
      const at::Tensor own = torch::full({3}, 1.0 + rank());
      if (step % 3 == 0) p.mutable_grad() = own;       // another tensor
      if (step % 3 == 1) p.mutable_grad().copy_(own);  // the reduced one, filled anew
      if (step % 3 == 2) {
        p.mutable_grad() = at::Tensor();
        p.mutable_grad() = own;
      }
      optimizer.step();
      EXPECT_TRUE(has(p.grad(), once)) << p.grad();
    }
    optimizer.step();  // the same gradient once more
    EXPECT_TRUE(has(p.grad(), once)) << p.grad();
  }
}

// Written to where autograd does not count changes.
TEST_F(Backward, GradientsThatAreFilledUnnoticed) {
  const at::Tensor p = parameter();
  DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0));
  p.mutable_grad() = torch::zeros({3});
  for (int step = 1; step <= 3; ++step) {
    p.mutable_grad().data().fill_(step * (rank() + 1.0));
    optimizer.step();
    EXPECT_TRUE(has(p.grad(), step * mean_of_ranks())) << p.grad();
  }
}

// A parameter that turns trainable is reached on one rank first.
TEST_F(Backward, AParameterThatTurnsTrainable) {
  const at::Tensor p = parameter();
  const at::Tensor later = torch::zeros({3});
  DistributedSgd optimizer(Tensors{p, later}, torch::optim::SGDOptions(0.0));
  loss(p).backward();
  optimizer.step();
  later.set_requires_grad(true);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad(false);
    (rank() == 0 ? loss(p) + later.sum() * size() : loss(p)).backward();
    EXPECT_TRUE(has(later.grad(), 1));
    (loss(p) + loss(later)).backward();
    EXPECT_TRUE(has(later.grad(), 1 + mean_of_ranks())) << later.grad();
    EXPECT_TRUE(has(p.grad(), 2 * mean_of_ranks()));
    optimizer.step();
  }
}

// Data of another dtype make autograd forget the node that tells of accumulations.
TEST_F(Backward, AParameterOfAnotherDtype) {
  torch::nn::Linear net(torch::nn::LinearOptions(2, 2).bias(false));
  DistributedSgd optimizer(net->parameters(), torch::optim::SGDOptions(0.0));
  const auto run = [&](at::ScalarType dtype) {
    (net->forward(torch::ones({1, 2}, dtype)).sum() * (rank() + 1)).backward();
  };
  run(torch::kFloat);
  optimizer.step();
  net->to(torch::kDouble);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    run(torch::kDouble);
    run(torch::kDouble);
    EXPECT_TRUE(has(net->weight.grad(), 2 * mean_of_ranks())) << net->weight.grad();
    optimizer.step();
  }
}

// Each thread trains a model of its own.
TEST_F(Backward, InSeveralThreads) {
  const auto train = [&](const std::string& name) {
    const at::Tensor p = parameter(500);
    DistributedSgd optimizer(Tensors{p}, torch::optim::SGDOptions(0.0),
                             DistributedOptimizerOptions().name(name));
    bool right = true;
    for (int step = 0; step < 50; ++step) {
      optimizer.zero_grad();
      loss(p).backward();
      loss(p).backward();
      right = right && has(p.grad(), 2 * mean_of_ranks());
      optimizer.step();
    }
    return right;
  };
  bool other = false;
  std::thread thread([&] { other = train("other"); });
  EXPECT_TRUE(train("mine"));
  thread.join();
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace kolo
