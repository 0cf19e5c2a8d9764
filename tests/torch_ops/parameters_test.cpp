#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Parameters = WithKolo;

torch::nn::Sequential make_net() {
  return torch::nn::Sequential(torch::nn::Linear(4, 5), torch::nn::BatchNorm1d(5),
                               torch::nn::Linear(5, 2));
}

void expect_equal_on_all_ranks(const at::Tensor& tensor) {
  EXPECT_TRUE(broadcast(tensor, 0).equal(tensor)) << "rank " << rank();
}

TEST_F(Parameters, ParametersAndBuffers) {
  torch::manual_seed(static_cast<std::uint64_t>(rank()));
  auto net = make_net();
  net->forward(torch::randn({8, 4}) * (rank() + 1));  // running statistics differ now
  const int root = size() - 1;
  std::vector<at::Tensor> before;
  for (const auto& p : net->parameters()) before.push_back(p.detach().clone());
  broadcast_parameters(*net, root);
  for (const auto& p : net->parameters()) expect_equal_on_all_ranks(p);
  for (const auto& b : net->buffers()) expect_equal_on_all_ranks(b);
  if (rank() == root) {
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(before[i].equal(net->parameters()[i]));
  }
  EXPECT_TRUE(net->parameters()[0].requires_grad());
}

TEST_F(Parameters, OtherModelsAreAnError) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const torch::nn::Linear net(rank() == 0 ? 3 : 4, 2);
  EXPECT_THAT(
      message_of<MismatchError>([&] { broadcast_parameters(*net); }),
      HasSubstr("shape of tensor 0 ('weight' on rank 0): [2, 3] on rank 0; [2, 4] on rank"));
}

template <typename Optimizer, typename Options>
void check_state(const Options& mine) {
  torch::manual_seed(1);
  torch::nn::Linear net(4, 3);
  Optimizer optimizer(net->parameters(), mine);
  for (int step = 0; step < 2 + rank(); ++step) {  // another state on every rank
    optimizer.zero_grad();
    net(torch::randn({5, 4}) * (rank() + 1)).sum().backward();
    optimizer.step();
  }
  broadcast_parameters(*net);
  broadcast_optimizer_state(optimizer);
  for (int step = 0; step < 3; ++step) {  // from here on all ranks do the same
    optimizer.zero_grad();
    net(torch::full({5, 4}, 0.1F)).pow(2).sum().backward();
    optimizer.step();
  }
  for (const auto& p : net->parameters()) expect_equal_on_all_ranks(p);
}

TEST_F(Parameters, OptimizerState) {
  const double lr = 0.01 * (rank() + 1);  // rank 0's is taken
  check_state<torch::optim::SGD>(torch::optim::SGDOptions(lr).momentum(0.9));
  check_state<torch::optim::Adam>(torch::optim::AdamOptions(lr));
  check_state<torch::optim::AdamW>(torch::optim::AdamWOptions(lr));
  check_state<torch::optim::RMSprop>(torch::optim::RMSpropOptions(lr));
  check_state<torch::optim::Adagrad>(torch::optim::AdagradOptions(lr));
  check_state<optim::Adadelta>(optim::AdadeltaOptions(lr * 100));
}

}  // namespace
}  // namespace kolo
