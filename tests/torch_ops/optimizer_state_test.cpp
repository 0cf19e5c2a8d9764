// broadcast_optimizer_state(): training goes on everywhere as it would have gone on at the root.
#include <functional>
#include <sstream>

#include "even_and_odd.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::even_and_odd;
using testing_support::message_of;
using testing_support::own;
using testing_support::WithKolo;

using OptimizerState = WithKolo;
using torch::optim::OptimizerParamGroup;
using Tensors = std::vector<at::Tensor>;

// With parameters that never have a gradient: one that is not used, and one that is no float.
struct Net : torch::nn::Module {
  explicit Net(int seed = 1) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    first = register_module("first", torch::nn::Linear(4, 3));
    second = register_module("second", torch::nn::Linear(3, 2));
    unused = register_parameter("unused", torch::randn({3}));
    count = register_parameter("count", torch::full({2}, seed, at::kInt), false);
  }
  // A step with data of this seed; the closure is LBFGS's.
  at::Tensor step(torch::optim::Optimizer& optimizer, int seed) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    const at::Tensor x = torch::randn({6, 4});
    return optimizer.step([&] {
      optimizer.zero_grad();
      const at::Tensor loss = second(torch::tanh(first(x))).pow(2).mean();
      loss.backward();
      return loss;
    });
  }
  Tensors values() const {
    Tensors all;
    for (const at::Tensor& p : parameters()) all.push_back(p.detach().clone());
    return all;
  }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
  at::Tensor unused;
  at::Tensor count;
};

void expect_equal(const Tensors& found, const Tensors& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i].equal(wanted[i])) << "parameter " << i << found[i] << wanted[i];
}

std::string saved(const torch::optim::Optimizer& optimizer) {
  std::ostringstream stream;
  torch::save(optimizer, stream);
  return stream.str();
}

// A class of optimizer with the options of the root's two groups, and those of all other groups.
template <class Base, class BaseOptions>
struct Kind {
  using Optimizer = Base;
  using Options = BaseOptions;
  const char* what;
  Options first;
  Options second;
  Options others;
};

template <class K>
std::unique_ptr<typename K::Optimizer> make(Net& net, const K& kind, bool as_root) {
  using Options = typename K::Options;
  const auto group = [&](Tensors parameters, const Options& at_root) {
    return OptimizerParamGroup(std::move(parameters),
                               std::make_unique<Options>(as_root ? at_root : kind.others));
  };
  std::vector<OptimizerParamGroup> groups;
  Tensors in_first = net.first->parameters();
  if constexpr (std::is_same_v<Options, torch::optim::LBFGSOptions>) {
    in_first.push_back(net.second->weight);  // it takes one group, and floats alone
  } else {
    in_first.insert(in_first.end(), {net.unused, net.count});
    groups.push_back(group(net.second->parameters(), kind.second));
  }
  groups.insert(groups.begin(), group(in_first, kind.first));
  return std::make_unique<typename K::Optimizer>(groups, kind.others);
}

// How many steps the root and the others have made before.
struct Start {
  int root;
  int others;
};

template <class K>
void goes_on_as_the_root(const K& kind, const Start& start, int root, const ProcessSet& set) {
  SCOPED_TRACE(std::string(kind.what) + ", root " + std::to_string(root) + " with " +
               std::to_string(start.root) + " steps, others with " + std::to_string(start.others));
  const bool is_root = rank() == root;
  Net net(is_root ? 1 : 2);
  const auto optimizer = make(net, kind, is_root);
  for (int i = 0; i < (is_root ? start.root : start.others); ++i)
    net.step(*optimizer, is_root ? i : 100 * rank() + i);
  const std::string before = is_root ? saved(*optimizer) : std::string();
  broadcast_parameters(net, root, set);
  broadcast_optimizer_state(*optimizer, root, set);
  EXPECT_TRUE(!is_root || saved(*optimizer) == before) << "the root's own is as it was";

  Net alone(1);  // what the root does without kolo
  const auto twin = make(alone, kind, true);
  for (int i = 0; i < start.root; ++i) alone.step(*twin, i);
  using Options = typename K::Options;
  for (std::size_t g = 0; g < twin->param_groups().size(); ++g) {
    EXPECT_TRUE(static_cast<const Options&>(optimizer->param_groups()[g].options()) ==
                static_cast<const Options&>(twin->param_groups()[g].options()))
        << "options of group " << g;
  }
  EXPECT_EQ(optimizer->state().size(), twin->state().size());
  for (int i = 0; i < 3; ++i) {
    net.step(*optimizer, 50 + i);
    alone.step(*twin, 50 + i);
  }
  expect_equal(net.values(), alone.values());
}

template <class K>
void check(const K& kind) {
  const std::vector<ProcessSet> sets = even_and_odd();
  for (const Start& start : {Start{2, 0}, Start{0, 2}, Start{1, 3}}) {
    for (const int root : {0, size() - 1}) goes_on_as_the_root(kind, start, root, ProcessSet());
    goes_on_as_the_root(kind, start, own(sets).ranks()[0], own(sets));
  }
}

TEST_F(OptimizerState, OfEveryClass) {
  using namespace torch::optim;
  using Sgd = SGDOptions;
  check(Kind<SGD, Sgd>{"SGD", Sgd(0.1), Sgd(0.2).weight_decay(0.1), Sgd(0.5).momentum(0.3)});
  check(Kind<SGD, Sgd>{"SGD with momentum", Sgd(0.1).momentum(0.9).dampening(0.1),
                       Sgd(0.2).momentum(0.8).weight_decay(0.1).nesterov(true), Sgd(0.5)});
  check(Kind<Adam, AdamOptions>{"Adam", AdamOptions(0.1).betas({0.8, 0.9}).eps(1e-6),
                                AdamOptions(0.2).amsgrad(true).weight_decay(0.1),
                                AdamOptions(0.5)});
  check(Kind<AdamW, AdamWOptions>{"AdamW", AdamWOptions(0.1).betas({0.8, 0.9}).amsgrad(true),
                                  AdamWOptions(0.2).weight_decay(0.3), AdamWOptions(0.5)});
  check(Kind<RMSprop, RMSpropOptions>{"RMSprop", RMSpropOptions(0.1).centered(true).momentum(0.9),
                                      RMSpropOptions(0.2).alpha(0.5).eps(1e-4).weight_decay(0.1),
                                      RMSpropOptions(0.5)});
  check(Kind<Adagrad, AdagradOptions>{
      "Adagrad", AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.5),
      AdagradOptions(0.2).eps(1e-4).weight_decay(0.1), AdagradOptions(0.5)});
  using kolo::optim::Adadelta;
  using kolo::optim::AdadeltaOptions;
  check(Kind<Adadelta, AdadeltaOptions>{"Adadelta", AdadeltaOptions(1).rho(0.8),
                                        AdadeltaOptions(2).eps(1e-4).weight_decay(0.1),
                                        AdadeltaOptions(0.5)});
  // LibTorch cannot save LBFGS before its history is full.
  const LBFGSOptions lbfgs = LBFGSOptions(0.5).max_iter(6).history_size(1);
  check(Kind<LBFGS, LBFGSOptions>{"LBFGS", lbfgs, lbfgs, LBFGSOptions(1).max_iter(2)});
}

// The root loads what it saved; the others are made anew.
TEST_F(OptimizerState, ARunThatIsRestartedEndsAsOneThatIsNot) {
  using DistributedAdam = DistributedOptimizer<torch::optim::Adam>;
  const torch::optim::AdamOptions adam = torch::optim::AdamOptions(0.1).amsgrad(true);
  const auto train = [](Net& net, DistributedAdam& optimizer, int from, int to) {
    for (int i = from; i < to; ++i) net.step(optimizer, 10 * i + rank());
  };
  for (const int root : {0, size() - 1}) {
    auto whole = std::make_shared<Net>();
    DistributedAdam of_whole(whole->parameters(), adam);
    train(*whole, of_whole, 0, 3);
    std::stringstream model;
    std::stringstream state;
    torch::save(whole, model);
    torch::save(of_whole, state);
    train(*whole, of_whole, 3, 6);

    auto again = std::make_shared<Net>(7 + rank());
    DistributedAdam of_again(again->parameters(), torch::optim::AdamOptions(0.5));
    if (rank() == root) {
      torch::load(again, model);
      torch::load(of_again, state);
    }
    broadcast_parameters(*again, root);
    broadcast_optimizer_state(of_again, root);
    train(*again, of_again, 3, 6);
    const Tensors found = again->values();
    const Tensors wanted = whole->values();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i].allclose(wanted[i], 1e-5, 1e-5)) << i << found[i] << wanted[i];
  }
}

using AnyOptimizer = std::unique_ptr<torch::optim::Optimizer>;

template <class Optimizer, class Options>
AnyOptimizer made_a_step(const std::vector<Tensors>& parameters, const Options& options) {
  std::vector<OptimizerParamGroup> groups;
  for (const Tensors& group : parameters) {
    groups.emplace_back(group);
    for (const at::Tensor& p : group) p.mutable_grad() = torch::ones_like(p);
  }
  auto optimizer = std::make_unique<Optimizer>(groups, options);
  optimizer->step();
  return optimizer;
}

// Whoever differs, root or not: an error on every rank, which keeps what it had.
TEST_F(OptimizerState, OtherOptimizersAreAnErrorEverywhere) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  using torch::optim::Adam;
  const torch::optim::AdamOptions adam(0.1 * (rank() + 1));
  const auto p = [](at::IntArrayRef shape) { return torch::zeros(shape).requires_grad_(); };
  const auto usual = [&] { return made_a_step<Adam>({{p({2, 3}), p({2})}}, adam); };
  // As messages describe it.
  const std::pair<const char*, std::function<AnyOptimizer()>> cases[] = {
      {"AdamW, group of [2, 3] [2]",
       [&] {
         return made_a_step<torch::optim::AdamW>({{p({2, 3}), p({2})}},
                                                 torch::optim::AdamWOptions(0.1));
       }},
      {"Adam, group of [2, 3]; group of [2]",
       [&] {
         return made_a_step<Adam>({{p({2, 3})}, {p({2})}}, adam);
       }},
      {"Adam, group of [2, 3]",
       [&] {
         return made_a_step<Adam>({{p({2, 3})}}, adam);
       }},
      {"Adam, group of [3, 2] [2]", [&] {
         return made_a_step<Adam>({{p({3, 2}), p({2})}}, adam);
       }}};
  for (const auto& [what, odd] : cases) {
    for (const int odd_rank : {0, size() - 1}) {
      for (const int root : {0, size() - 1}) {
        SCOPED_TRACE(std::string(what) + " on rank " + std::to_string(odd_rank) + ", root " +
                     std::to_string(root));
        const AnyOptimizer optimizer = rank() == odd_rank ? odd() : usual();
        const std::string before = saved(*optimizer);
        const std::string message =
            message_of<MismatchError>([&] { broadcast_optimizer_state(*optimizer, root); });
        EXPECT_THAT(message, HasSubstr(std::string(what) + " on rank " + std::to_string(odd_rank)));
        EXPECT_THAT(message, HasSubstr("torch::optim::Adam, group of [2, 3] [2] on rank"));
        EXPECT_TRUE(saved(*optimizer) == before);
        EXPECT_TRUE(allreduce(at::ones({2})).equal(at::ones({2})));
        const AnyOptimizer good = usual();
        broadcast_optimizer_state(*good, root);
        EXPECT_EQ(good->param_groups()[0].options().get_lr(), 0.1 * (root + 1));
      }
    }
  }
}

// Nobody waits for a root that has no state to give.
TEST_F(OptimizerState, WhatLibTorchCannotSaveIsAnErrorEverywhere) {
  Net net;
  torch::optim::LBFGS optimizer(net.first->parameters(), torch::optim::LBFGSOptions(1));
  net.step(optimizer, 1);
  ASSERT_ANY_THROW(saved(optimizer)) << "another LBFGS than this was written for";
  const auto broadcast_it = [&] { broadcast_optimizer_state(optimizer, size() - 1); };
  if (rank() == size() - 1) {
    EXPECT_THROW(broadcast_it(), InvalidArgumentError);
  } else {
    EXPECT_THROW(broadcast_it(), MismatchError);
  }
  EXPECT_TRUE(allreduce(at::ones({2})).equal(at::ones({2}))) << "the next one works";
}

}  // namespace
}  // namespace kolo
