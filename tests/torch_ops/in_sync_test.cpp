#include <torch/csrc/jit/api/module.h>

#include <cstdlib>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::message_of;
using testing_support::WithKolo;

class InSync : public WithKolo {
 protected:
  void SetUp() override {
    WithKolo::SetUp();
    torch::manual_seed(1);
    net = torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  }
  bool last() const { return size() > 1 && rank() == size() - 1; }
  std::string on_last() const { return "on rank " + std::to_string(size() - 1); }

  torch::nn::Sequential net{nullptr};
};

TEST_F(InSync, Modules) {
  check_in_sync(net);
  check_in_sync(*net);
  if (size() == 1) return;
  const torch::NoGradGuard no_grad;
  if (last()) net->parameters()[1][2].add_(1e-7);
  EXPECT_THAT(message_of<MismatchError>([&] { check_in_sync(net); }),
              AllOf(HasSubstr("'0.bias' " + on_last() + " is not what rank 0 has"),
                    HasSubstr("1 of 7 parts differ")));
  broadcast_parameters(net);
  check_in_sync(net);
  if (last()) net->buffers()[0].add_(1);
  EXPECT_THAT(message_of<MismatchError>([&] { check_in_sync(net); }),
              HasSubstr("'1.running_mean' " + on_last()));
}

// What caused the rest is named first.
TEST_F(InSync, Optimizers) {
  DistributedOptimizer<torch::optim::Adam> optimizer(net, torch::optim::AdamOptions(0.1));
  const auto step = [&] {
    optimizer.zero_grad();
    (net->forward(torch::ones({5, 3})).pow(2).sum() * (rank() + 1)).backward();
    optimizer.step();
  };
  step();
  check_in_sync(net, optimizer);
  if (size() == 1) return;
  if (last()) optimizer.param_groups()[0].options().set_lr(0.2);
  EXPECT_THAT(message_of<MismatchError>([&] { check_in_sync(net, optimizer); }),
              AllOf(HasSubstr("'optimizer/groups/0/lr' " + on_last()), HasSubstr("1 of ")));
  step();
  EXPECT_THAT(message_of<MismatchError>([&] { check_in_sync(net, optimizer); }),
              AllOf(HasSubstr("'optimizer/groups/0/lr' " + on_last()), Not(HasSubstr("1 of "))));
  broadcast_parameters(net);
  broadcast_optimizer_state(optimizer);
  check_in_sync(net, optimizer);
  const torch::NoGradGuard no_grad;
  if (last()) net->parameters()[3].add_(1);
  EXPECT_THAT(message_of<MismatchError>([&] { check_in_sync(net, optimizer); }),
              HasSubstr("'1.bias' " + on_last()));
}

// A module of TorchScript is broadcast, trained and compared like any other.
TEST_F(InSync, ScriptModules) {
  torch::jit::Module script("net");
  script.register_parameter("weight", torch::full({2, 3}, 1.0 + rank()).requires_grad_(), false);
  script.register_buffer("count", torch::full({1}, 5.0 + rank()));
  script.define("def forward(self, x):\n    return torch.matmul(x, self.weight) + self.count\n");
  broadcast_parameters(script);
  EXPECT_TRUE(script.attr("weight").toTensor().equal(torch::ones({2, 3})));
  DistributedOptimizer<torch::optim::SGD> optimizer(script, torch::optim::SGDOptions(1.0));
  (script.forward({torch::ones({1, 2})}).toTensor().sum() * (rank() + 1)).backward();
  optimizer.step();
  const double mean = (size() + 1) / 2.0;
  EXPECT_TRUE(script.attr("weight").toTensor().allclose(torch::full({2, 3}, 1 - mean)));
  check_in_sync(script, optimizer);
  if (size() == 1) return;
  script.attr("count").toTensor().add_(rank());
  EXPECT_THAT(message_of<MismatchError>([&] { check_in_sync(script); }),
              HasSubstr("'count' on rank"));
  average_buffers(script);
  check_in_sync(script);
}

TEST_F(InSync, Tensors) {
  const at::Tensor order = torch::arange(10);
  check_in_sync("the order of the data", order);
  check_in_sync("strides do not count",
                last() ? torch::ones({3, 2}).t().contiguous().t() : torch::ones({3, 2}));
  if (size() == 1) return;
  EXPECT_THAT(message_of<MismatchError>(
                  [&] { check_in_sync("the order of the data", last() ? order.flip(0) : order); }),
              HasSubstr("'the order of the data' " + on_last()));
  EXPECT_THAT(message_of<MismatchError>([&] {
                check_in_sync("dtypes", torch::zeros({2}, last() ? torch::kInt : torch::kFloat));
              }),
              HasSubstr("'dtypes' " + on_last()));
  EXPECT_THAT(message_of<MismatchError>([&] {
                check_in_sync("shapes", torch::zeros({last() ? 2 : 1, last() ? 1 : 2}));
              }),
              HasSubstr("'shapes' " + on_last()));
}

TEST_F(InSync, EachSoManySteps) {
  for (const bool by_setting : {false, true}) {
    if (by_setting) {
      shutdown();
      ASSERT_EQ(setenv("KOLO_CHECK_IN_SYNC", "2", 1), 0);
      init();
    }
    net->zero_grad();
    DistributedOptimizerOptions options;
    if (!by_setting) options.check_in_sync_every(2);
    DistributedOptimizer<torch::optim::SGD> optimizer(net, torch::optim::SGDOptions(0.1), options);
    const auto step = [&] {
      optimizer.zero_grad();
      net->forward(torch::ones({5, 3})).sum().backward();
      optimizer.step();
    };
    for (int i = 0; i < 4; ++i) step();
    {
      const torch::NoGradGuard no_grad;
      if (last()) net->parameters()[2].add_(1);
    }
    step();
    if (size() == 1) {
      step();
    } else {
      EXPECT_THAT(message_of<MismatchError>(step),
                  AllOf(HasSubstr("DistributedOptimizer 'optimizer0': the ranks are not in sync"),
                        HasSubstr("'1.weight' " + on_last())));
    }
    broadcast_parameters(net);
    step();
    step();
  }
  ASSERT_EQ(unsetenv("KOLO_CHECK_IN_SYNC"), 0);
}

// Ranks may have their parameters in different order.
TEST_F(InSync, ByName) {
  const at::Tensor a = torch::zeros({3}).requires_grad_();
  const at::Tensor b = torch::ones({3}).requires_grad_();
  using Tensors = std::vector<at::Tensor>;
  DistributedOptimizer<torch::optim::SGD> optimizer(
      last() ? Tensors{b, a} : Tensors{a, b}, torch::optim::SGDOptions(0.1),
      DistributedOptimizerOptions().check_in_sync_every(1).named_parameters({{"a", a}, {"b", b}}));
  for (int i = 0; i < 3; ++i) {
    (a + 2 * b).sum().backward();
    optimizer.step();
  }
}

TEST_F(InSync, AverageOfBuffers) {
  for (int i = 0; i <= rank(); ++i) net->forward(torch::ones({5, 3}) * (rank() + 1) * i);
  const at::Tensor mine = net->buffers()[0].clone();
  average_buffers(net);
  const at::Tensor wanted = allreduce(mine);
  EXPECT_TRUE(net->buffers()[0].allclose(wanted));
  EXPECT_EQ(net->buffers()[2].item<std::int64_t>(), 1) << "num_batches_tracked is rank 0's";
  check_in_sync(net);
}

TEST_F(InSync, BuffersAreBroadcastAfterEachStep) {
  DistributedOptimizer<torch::optim::SGD> optimizer(
      net, torch::optim::SGDOptions(0.1),
      DistributedOptimizerOptions().broadcast_buffers(net->buffers()).check_in_sync_every(1));
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    net->forward(torch::ones({5, 3}) * (rank() + 1)).pow(2).sum().backward();
    optimizer.step();
    check_in_sync(net);
  }
}

}  // namespace
}  // namespace kolo
