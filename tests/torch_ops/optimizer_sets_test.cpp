// Several optimizers at once: in process sets, over parts of a model, and in turns.
#include "even_and_odd.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using testing_support::even_and_odd;
using testing_support::own;
using testing_support::WithKolo;

using OptimizersInSets = WithKolo;
using OptimizersInTurns = WithKolo;
using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;
using Tensors = std::vector<at::Tensor>;

constexpr int kSteps = 8;

// A batch of rank r, another one in every step.
at::Tensor batch(int r, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(100 * step + r));
  return torch::randn({5, 4}, at::kDouble);
}

struct Net : torch::nn::Module {
  Net(int seed, bool sparse) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    embedding = register_module(
        "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(12, 4).sparse(sparse)));
    hidden = register_module("hidden", torch::nn::Linear(4, 3));
    to(at::kDouble);
  }
  at::Tensor loss(int r, int step) {
    const at::Tensor rows = torch::tensor({r, (r + step) % 12, 5, 5, 11}, at::kLong);
    return torch::tanh(hidden(embedding(rows) + batch(r, step))).pow(2).sum();
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear hidden{nullptr};
};

Tensors values(const torch::nn::Module& module) {
  Tensors all;
  for (const at::Tensor& p : module.parameters()) all.push_back(p.detach().clone());
  return all;
}

void expect_close(const Tensors& found, const Tensors& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i].allclose(wanted[i], tolerance, tolerance))
        << "parameter " << i << ", largest difference "
        << (found[i] - wanted[i]).abs().max().item<double>();
  }
}

// One process with the batches of all these ranks.
Tensors train_alone(const std::vector<int>& ranks, int passes) {
  Net net(ranks[0], false);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (const int r : ranks) {
      for (int pass = 0; pass < passes; ++pass)
        (net.loss(r, step + pass) / static_cast<double>(ranks.size())).backward();
    }
    optimizer.step();
  }
  return values(net);
}

struct Case {
  const char* what;
  DistributedOptimizerOptions options;
  double tolerance;
};

// Each set trains a model of its own, both at the same time.
TEST_F(OptimizersInSets, EachIsTrainingOnTheBatchesOfItsSet) {
  const std::vector<ProcessSet> sets = even_and_odd();
  const ProcessSet& mine = own(sets);
  using Options = DistributedOptimizerOptions;
  for (const Case& c : std::initializer_list<Case>{
           {"as it is", Options(), 1e-12},
           {"predivided", Options().gradient_predivide_factor(mine.size()), 1e-12},
           {"two passes", Options().backward_passes_per_step(2), 1e-12},
           {"in groups", Options().num_groups(2), 1e-12},
           {"sparse as dense", Options().sparse_as_dense(true), 1e-12},
           {"fp16", Options().compression(Compression::Fp16), 1e-2}}) {
    SCOPED_TRACE(c.what);
    Net net(rank(), true);
    broadcast_parameters(net, mine.ranks()[0], mine);
    const int passes = c.options.backward_passes_per_step();
    DistributedSgd optimizer(net.parameters(), torch::optim::SGDOptions(0.1),
                             Options(c.options).process_set(mine));
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      for (int pass = 0; pass < passes; ++pass) net.loss(rank(), step + pass).backward();
      optimizer.step();
    }
    expect_close(values(net), train_alone(mine.ranks(), passes), c.tolerance);
    const at::Tensor weight = net.hidden->weight.detach();
    for (int r = 0; r < size(); ++r)
      EXPECT_EQ(broadcast(weight, r).equal(weight), r % 2 == rank() % 2) << "against rank " << r;
  }
}

TEST_F(OptimizersInSets, ClosuresHaveTheMeanLossOfTheSet) {
  const std::vector<ProcessSet> sets = even_and_odd();
  const ProcessSet& mine = own(sets);
  const at::Tensor p = torch::ones({3}, at::kDouble).requires_grad_();
  DistributedOptimizer<torch::optim::LBFGS> optimizer(
      Tensors{p}, torch::optim::LBFGSOptions(1.0).max_iter(20).line_search_fn("strong_wolfe"),
      DistributedOptimizerOptions().process_set(mine));
  double mean = 0;
  for (const int r : mine.ranks()) mean += static_cast<double>(r) / mine.size();
  const at::Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    const at::Tensor mine_only = (p - rank()).pow(2).sum();
    mine_only.backward();
    return mine_only;
  });
  double wanted = 0;
  for (const int r : mine.ranks()) wanted += 3.0 * (1 - r) * (1 - r) / mine.size();
  EXPECT_NEAR(loss.item<double>(), wanted, 1e-12) << "the first one, before the step";
  EXPECT_TRUE(p.detach().allclose(torch::full({3}, mean, at::kDouble), 1e-8, 1e-8)) << p;
}

// A trunk that all ranks train, with a head for each set: one backward() feeds two optimizers.
TEST_F(OptimizersInSets, ATrunkOfAllWithAHeadForEachSet) {
  const std::vector<ProcessSet> sets = even_and_odd();
  const ProcessSet& mine = own(sets);
  const auto make = [](int seed) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    torch::nn::Linear module(4, 4);
    module->to(at::kDouble);
    return module;
  };
  const auto loss = [](torch::nn::Linear& trunk, torch::nn::Linear& head, int r, int step) {
    return head(torch::tanh(trunk(batch(r, step)))).pow(2).sum();
  };
  torch::nn::Linear trunk = make(1);
  torch::nn::Linear head = make(2);
  const torch::optim::SGDOptions sgd(0.01);
  DistributedSgd of_all(trunk->parameters(), sgd);
  DistributedSgd of_set(head->parameters(), sgd, DistributedOptimizerOptions().process_set(mine));
  // The same in one process.
  torch::nn::Linear trunk_alone = make(1);
  std::vector<torch::nn::Linear> heads = {make(2), make(2)};
  torch::optim::SGD trunk_optimizer(trunk_alone->parameters(), sgd);
  torch::optim::SGD head_optimizers[2] = {torch::optim::SGD(heads[0]->parameters(), sgd),
                                          torch::optim::SGD(heads[1]->parameters(), sgd)};
  for (int step = 0; step < kSteps; ++step) {
    of_all.zero_grad();
    of_set.zero_grad();
    loss(trunk, head, rank(), step).backward();
    if (rank() % 2 == 0) of_all.step();
    of_set.step();
    if (rank() % 2 == 1) of_all.step();

    trunk_optimizer.zero_grad();
    for (std::size_t s = 0; s < sets.size(); ++s) {
      head_optimizers[s].zero_grad();
      for (const int r : sets[s].ranks()) loss(trunk_alone, heads[s], r, step).backward();
      for (const at::Tensor& p : heads[s]->parameters()) p.mutable_grad() /= sets[s].size();
      head_optimizers[s].step();
    }
    for (const at::Tensor& p : trunk_alone->parameters()) p.mutable_grad() /= size();
    trunk_optimizer.step();
  }
  expect_close(values(*trunk), values(*trunk_alone), 1e-12);
  expect_close(values(*head), values(*heads[static_cast<std::size_t>(rank()) % sets.size()]),
               1e-12);
}

// A generator and a discriminator, trained in turns; the one that is not is frozen.
struct Gan {
  Gan() {
    torch::manual_seed(4);
    generator =
        torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, 4));
    discriminator =
        torch::nn::Sequential(torch::nn::Linear(4, 5), torch::nn::Tanh(), torch::nn::Linear(5, 1));
    generator->to(at::kDouble);
    discriminator->to(at::kDouble);
  }
  static void set_trainable(torch::nn::Sequential& module, bool trainable) {
    for (at::Tensor& p : module->parameters()) p.set_requires_grad(trainable);
  }
  at::Tensor discriminator_loss(int r, int step) {
    set_trainable(generator, false);
    set_trainable(discriminator, true);
    const at::Tensor made = generator->forward(batch(r, 2 * step));
    return (discriminator->forward(made) - discriminator->forward(batch(r, step))).pow(2).mean();
  }
  at::Tensor generator_loss(int r, int step) {
    set_trainable(generator, true);
    set_trainable(discriminator, false);
    return discriminator->forward(generator->forward(batch(r, 2 * step + 1))).exp().mean();
  }
  torch::nn::Sequential generator{nullptr};
  torch::nn::Sequential discriminator{nullptr};
};

// A step of both with the batches of these ranks.
template <class Optimizer>
void train_in_turns(Gan& gan, Optimizer& of_discriminator, Optimizer& of_generator, int step,
                    const std::vector<int>& ranks) {
  const auto count = static_cast<double>(ranks.size());
  of_discriminator.zero_grad();
  for (const int r : ranks) (gan.discriminator_loss(r, step) / count).backward();
  of_discriminator.step();
  of_generator.zero_grad();
  for (const int r : ranks) (gan.generator_loss(r, step) / count).backward();
  of_generator.step();
}

TEST_F(OptimizersInTurns, AsTheTwoOfAGan) {
  const torch::optim::SGDOptions sgd = torch::optim::SGDOptions(0.1).momentum(0.9);
  Gan gan;
  DistributedSgd of_discriminator(gan.discriminator->parameters(), sgd);
  DistributedSgd of_generator(gan.generator->parameters(), sgd);
  Gan alone;
  torch::optim::SGD discriminator_alone(alone.discriminator->parameters(), sgd);
  torch::optim::SGD generator_alone(alone.generator->parameters(), sgd);
  const std::vector<int> everyone = ProcessSet().ranks();
  for (int step = 0; step < 10; ++step) {
    train_in_turns(gan, of_discriminator, of_generator, step, {rank()});
    train_in_turns(alone, discriminator_alone, generator_alone, step, everyone);
    expect_close(values(*gan.discriminator), values(*alone.discriminator), 1e-10);
    expect_close(values(*gan.generator), values(*alone.generator), 1e-10);
  }
}

}  // namespace
}  // namespace kolo
