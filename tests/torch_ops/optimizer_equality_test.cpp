// Training on n ranks with batches of B / n is training on one process with batches of B.
#include <numeric>
#include <random>

#include "fixture.hpp"

namespace kolo {
namespace {

using testing_support::WithKolo;
using Equality = WithKolo;

constexpr std::int64_t kGlobalBatch = 24;  // divides by 1, 2, 3 and 4
constexpr int kSteps = 50;

// Towers whose losses are added: backward() begins with the one that came last.
struct Towers : torch::nn::Module {
  explicit Towers(at::ScalarType dtype) {
    for (int i = 0; i < 5; ++i) {
      towers.push_back(
          register_module("tower" + std::to_string(i),
                          torch::nn::Sequential(torch::nn::Linear(6, 20 + i), torch::nn::Tanh(),
                                                torch::nn::Linear(20 + i, 3))));
    }
    // One parameter so large that it is reduced in place and not in a bucket.
    wide = register_parameter("wide", torch::randn({6, 30000}) * 0.01);
    to(dtype);
  }
  at::Tensor tower_loss(std::size_t i, const at::Tensor& x, const at::Tensor& y) {
    const at::Tensor output = towers[i]->forward(x);
    const at::Tensor extra = i == 0 ? torch::matmul(x, wide).mean() : torch::zeros({}, x.options());
    return (output - y).pow(2).mean() + extra.pow(2);
  }
  std::vector<torch::nn::Sequential> towers;
  at::Tensor wide;
};

struct Data {
  at::Tensor x, y;
};

Data global_batch(int step, at::ScalarType dtype) {
  torch::manual_seed(static_cast<std::uint64_t>(1000 + step));
  const at::Tensor x = torch::randn({kGlobalBatch, 6}, torch::kDouble);
  return {x.to(dtype), torch::sin(x.slice(1, 0, 3)).to(dtype)};
}

std::vector<at::Tensor> values(const Towers& net) {
  std::vector<at::Tensor> all;
  for (const auto& p : net.parameters()) all.push_back(p.detach().clone());
  return all;
}

// One process, whole batches, LibTorch alone.
std::vector<at::Tensor> train_alone(at::ScalarType dtype) {
  torch::manual_seed(5);
  Towers net(dtype);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    const Data data = global_batch(step, dtype);
    optimizer.zero_grad();
    // The extra term is no mean over samples: it is computed on each rank's share, as below.
    const std::int64_t share = kGlobalBatch / size();
    for (std::size_t i = 0; i < net.towers.size(); ++i) {
      for (int r = 0; r < size(); ++r) {
        (net.tower_loss(i, data.x.slice(0, r * share, (r + 1) * share),
                        data.y.slice(0, r * share, (r + 1) * share)) /
         size())
            .backward();
      }
    }
    optimizer.step();
  }
  return values(net);
}

std::vector<at::Tensor> train_together(at::ScalarType dtype, unsigned order_seed) {
  torch::manual_seed(static_cast<std::uint64_t>(5 + rank() * 17));  // rank 0's weights are taken
  Towers net(dtype);
  broadcast_parameters(net);
  DistributedOptimizer<torch::optim::SGD> optimizer(net.parameters(),
                                                    torch::optim::SGDOptions(0.1).momentum(0.9),
                                                    DistributedOptimizerOptions().name("equality"));
  std::mt19937 random(order_seed + static_cast<unsigned>(rank()));
  std::vector<std::size_t> order(net.towers.size());
  std::iota(order.begin(), order.end(), 0U);
  const std::int64_t share = kGlobalBatch / size();
  for (int step = 0; step < kSteps; ++step) {
    const Data data = global_batch(step, dtype);
    optimizer.zero_grad();
    // Each rank goes through the towers in an order of its own; rank 0 keeps to one order.
    if (rank() != 0) std::shuffle(order.begin(), order.end(), random);
    at::Tensor loss = torch::zeros({}, dtype);
    for (const std::size_t i : order) {
      const at::Tensor x = data.x.slice(0, rank() * share, (rank() + 1) * share);
      loss = loss + net.tower_loss(i, x, data.y.slice(0, rank() * share, (rank() + 1) * share));
    }
    loss.backward();
    optimizer.step();
  }
  return values(net);
}

void expect_close(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                  double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = (a[i] - b[i]).abs().max().item<double>();
    EXPECT_LE(difference, tolerance) << "parameter " << i << " on rank " << rank();
  }
}

TEST_F(Equality, Float64) {
  expect_close(train_together(at::kDouble, 1), train_alone(at::kDouble), 1e-12);
}

TEST_F(Equality, Float32) {
  expect_close(train_together(at::kFloat, 2), train_alone(at::kFloat), 1e-5);
}

TEST_F(Equality, EveryRankHasTheSameBits) {
  for (const at::Tensor& value : train_together(at::kFloat, 3))
    EXPECT_TRUE(broadcast(value, 0).equal(value));
}

// Other orders on the other ranks, another engine: the same bits.
TEST_F(Equality, TwoRunsGiveTheSameBits) {
  const std::vector<at::Tensor> first = train_together(at::kFloat, 4);
  shutdown();
  init();
  const std::vector<at::Tensor> second = train_together(at::kFloat, 5);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(first[i].equal(second[i])) << "parameter " << i;
}

}  // namespace
}  // namespace kolo
