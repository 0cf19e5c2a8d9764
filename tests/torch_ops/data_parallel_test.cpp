// One process that computes the parts of a batch on several devices: the values are those of the
// module itself on the whole batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/data_parallel.h>
#include <kolo/mixed_precision.h>
#include <torch/torch.h>

#include <atomic>
#include <stdexcept>

namespace kolo {
namespace {

using ::testing::HasSubstr;

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { NetImpl::reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(3, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    last = register_module("last", torch::nn::Linear(8, 2));
  }
  torch::Tensor forward(const torch::Tensor& input) {
    ++calls();
    gpus() |= input.is_cuda() ? 1U << input.get_device() : 0;
    if (input.isnan().any().item<bool>()) throw std::runtime_error("not a number");
    return last(torch::relu(norm(first(input))));
  }
  static std::atomic<int>& calls() {
    static std::atomic<int> all{0};
    return all;
  }
  // A bit for each GPU that has computed a part.
  static std::atomic<unsigned>& gpus() {
    static std::atomic<unsigned> all{0};
    return all;
  }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Net);

using Devices = std::vector<at::Device>;

// The devices of three parts. A device may compute several.
class DataParallelOn : public testing::TestWithParam<Devices> {
 protected:
  void SetUp() override {
    const at::Device last = GetParam().back();
    if (last.is_cuda() && static_cast<int>(torch::cuda::device_count()) <= last.index())
      GTEST_SKIP() << "needs " << last.index() + 1 << " GPUs";
    torch::manual_seed(1);
    net_ = Net();
    net_->to(device(), at::kDouble);
    net_->eval();
    parallel_ = std::make_shared<DataParallel<NetImpl>>(net_.ptr(), GetParam());
  }
  static at::Device device() { return GetParam().front(); }
  static Devices two_devices() { return {GetParam()[0], GetParam()[1]}; }
  at::Tensor samples(int count) const {
    return torch::randn({count, 3}, at::TensorOptions(at::kDouble).device(device()));
  }
  static bool equal(const at::Tensor& a, const at::Tensor& b) {
    return at::allclose(a, b, 1e-12, 1e-12);
  }

  Net net_{nullptr};
  std::shared_ptr<DataParallel<NetImpl>> parallel_;
};
INSTANTIATE_TEST_SUITE_P(
    , DataParallelOn,
    testing::Values(Devices(3, at::Device("cpu")), Devices(3, at::Device("cuda:0")),
                    Devices{at::Device("cuda:0"), at::Device("cuda:1"), at::Device("cuda:2")}),
    [](const auto& tested) -> std::string {
      if (tested.param.back().is_cpu()) return "Cpu";
      return tested.param.back().index() == 0 ? "Gpu" : "Gpus";
    });

TEST_P(DataParallelOn, OutputsAreTheModules) {
  for (const bool learns : {true, false}) {
    const at::AutoGradMode mode(learns);
    for (const int count : {1, 2, 3, 4, 7, 30}) {
      const at::Tensor input = samples(count);
      NetImpl::calls() = 0;
      const at::Tensor output = parallel_->forward(input);
      EXPECT_EQ(NetImpl::calls(), std::min(count, count == 4 ? 2 : 3)) << count << " samples";
      EXPECT_TRUE(equal(output, net_(input))) << count << " samples";
      EXPECT_EQ(output.requires_grad(), learns);
    }
  }
}

TEST_P(DataParallelOn, EachDeviceComputesItsPart) {
  unsigned wanted = 0;
  for (const at::Device device : GetParam()) wanted |= device.is_cuda() ? 1U << device.index() : 0;
  for (const bool learns : {true, false}) {
    const at::AutoGradMode mode(learns);
    NetImpl::gpus() = 0;
    EXPECT_EQ(parallel_->forward(samples(9)).device(), device());
    EXPECT_EQ(NetImpl::gpus(), wanted);
  }
}

TEST_P(DataParallelOn, GradientsAreTheModules) {
  for (const bool scales : {false, true}) {
    const at::Tensor input = samples(10).requires_grad_();
    net_->zero_grad();
    (net_(input) * (scales ? 3 : 1)).square().sum().backward();
    std::vector<at::Tensor> wanted = {input.grad().clone()};
    for (const at::Tensor& parameter : net_->parameters())
      wanted.push_back(parameter.grad().clone());
    net_->zero_grad();
    input.mutable_grad().reset();
    (parallel_->forward(input) * (scales ? 3 : 1)).square().sum().backward();
    EXPECT_TRUE(equal(input.grad(), wanted[0]));
    for (std::size_t i = 0; i + 1 < wanted.size(); ++i)
      EXPECT_TRUE(equal(net_->parameters()[i].grad(), wanted[i + 1])) << "parameter " << i;
  }
}

TEST_P(DataParallelOn, TrainsAsTheModuleDoes) {
  Net alone(std::dynamic_pointer_cast<NetImpl>(net_->clone()));
  torch::optim::SGD of_alone(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD of_parallel(parallel_->parameters(),
                                torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    const at::Tensor input = samples(8);
    const auto train = [&](torch::optim::SGD& optimizer, const at::Tensor& output) {
      optimizer.zero_grad();
      output.square().mean().backward();
      optimizer.step();
    };
    train(of_alone, alone->forward(input));
    train(of_parallel, parallel_->forward(input));
    const at::NoGradGuard no_grad;  // the copies that are kept follow
    EXPECT_TRUE(equal(parallel_->forward(input), alone->forward(input))) << "step " << step;
  }
}

TEST_P(DataParallelOn, RunningStatisticsAreTheFirstPartsOnes) {
  net_->train();
  const at::Tensor input = samples(9);
  Net alone(std::dynamic_pointer_cast<NetImpl>(net_->clone()));
  alone->forward(input.slice(0, 0, 3));
  for (const bool learns : {true, false}) {
    const at::AutoGradMode mode(learns);
    parallel_->forward(input);
    EXPECT_TRUE(equal(net_->norm->running_mean, alone->norm->running_mean)) << learns;
    EXPECT_TRUE(equal(net_->norm->running_var, alone->norm->running_var)) << learns;
    EXPECT_EQ(net_->norm->num_batches_tracked.item<int>(), learns ? 1 : 2);
    alone->forward(input.slice(0, 0, 3));
  }
}

TEST_P(DataParallelOn, KeptCopiesFollowTheModule) {
  const at::NoGradGuard no_grad;
  const at::Tensor input = samples(6);
  const auto expect_same = [&](const char* after) {
    EXPECT_TRUE(equal(parallel_->forward(input), net_(input))) << after;
  };
  expect_same("construction");
  net_->first->weight.mul_(2);
  expect_same("a change in place");
  net_->last->bias.set_data(torch::ones({2}, input.options()));
  expect_same("other memory");
  net_->norm->running_mean.add_(1);
  expect_same("a change of a buffer");
  net_->norm->train();
  EXPECT_FALSE(equal(parallel_->forward(input), net_(input))) << "each part has its own mean";
  net_->norm->eval();
  expect_same("a change of a submodule's mode");
  net_->to(at::kFloat);
  EXPECT_EQ(parallel_->forward(input.to(at::kFloat)).scalar_type(), at::kFloat);
}

TEST_P(DataParallelOn, ExceptionsOfAPartReachTheCaller) {
  at::Tensor input = samples(9);
  input[8][0] = std::nan("");
  for (const bool learns : {true, false}) {
    const at::AutoGradMode mode(learns);
    NetImpl::calls() = 0;
    EXPECT_THROW(parallel_->forward(input), std::runtime_error);
    EXPECT_EQ(NetImpl::calls(), 3) << "the others have ended";
    EXPECT_TRUE(parallel_->forward(samples(9)).isfinite().all().item<bool>()) << "it goes on";
  }
}

TEST_P(DataParallelOn, TakesASequentialAndModesOfTheCaller) {
  torch::nn::Sequential layers(torch::nn::Linear(3, 4), torch::nn::ReLU());
  DataParallel<torch::nn::SequentialImpl> parallel(layers.ptr(), two_devices());
  const at::Tensor input = torch::randn({4, 3}, device());
  EXPECT_TRUE(parallel.forward(input).equal(layers->forward(input)));
  const AutocastGuard autocast(device().type(), at::kBFloat16);
  const at::Tensor half = parallel.forward(input);
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
}

// A layer that only samples with a positive sum go through, one that none goes through, and one
// that is frozen.
struct BranchesImpl : torch::nn::Cloneable<BranchesImpl> {
  BranchesImpl() { BranchesImpl::reset(); }
  void reset() override {
    some = register_module("some", torch::nn::Linear(3, 3));
    none = register_module("none", torch::nn::Linear(3, 3));
    frozen = register_module("frozen", torch::nn::Linear(3, 3));
  }
  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor fixed = frozen(input);
    frozen_output_learns = fixed.requires_grad();
    return input.sum().item<double>() > 0 ? some(fixed) : fixed * some->bias;
  }
  torch::nn::Linear some{nullptr}, none{nullptr}, frozen{nullptr};
  static inline std::atomic<bool> frozen_output_learns{false};
};

TEST_P(DataParallelOn, ParametersThatSomePartsDoNotUse) {
  const auto net = std::make_shared<BranchesImpl>();
  net->to(device());
  for (at::Tensor& parameter : net->frozen->parameters()) parameter.set_requires_grad(false);
  DataParallel<BranchesImpl> parallel(net, two_devices());
  const at::Tensor input = torch::tensor({{1.0, 1.0, 1.0}, {-1.0, -1.0, -1.0}}, device());
  const at::Tensor output = parallel.forward(input.to(at::kFloat));
  EXPECT_FALSE(BranchesImpl::frozen_output_learns) << "no memory for what is not needed";
  output.sum().backward();
  const at::Tensor first = net->frozen(input[0].to(at::kFloat));
  const at::Tensor second = net->frozen(input[1].to(at::kFloat));
  EXPECT_TRUE(net->some->weight.grad().allclose(first.expand({3, 3})));
  EXPECT_TRUE(net->some->bias.grad().allclose(1 + second));
  EXPECT_FALSE(net->none->weight.grad().defined());
  EXPECT_FALSE(net->frozen->weight.grad().defined());
}

TEST_P(DataParallelOn, NamedModulesAndModulesThatAreAddedLater) {
  torch::nn::Sequential layers;
  layers->push_back("conv1", torch::nn::Linear(3, 4));
  layers->to(device());
  DataParallel<torch::nn::SequentialImpl> parallel(layers.ptr(), two_devices());
  const at::Tensor input = torch::randn({4, 3}, device());
  for (int more = 0; more < 2; ++more) {
    parallel.forward(input).sum().backward();
    EXPECT_TRUE(layers->parameters().back().grad().allclose(
        torch::full({layers->parameters().back().size(0)}, 4.0, device())));
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(parallel.forward(input).equal(layers->forward(input)));
    layers->push_back("last" + std::to_string(more), torch::nn::Linear(4, 4));
    layers->to(device());
    EXPECT_TRUE(parallel.forward(input).equal(layers->forward(input))) << "one was added";
  }
}

// The second clone() of a call fails.
struct RefusesImpl : torch::nn::Cloneable<RefusesImpl> {
  RefusesImpl() { RefusesImpl::reset(); }
  void reset() override {
    if (--resets_left < 0) throw std::runtime_error("no memory");
    layer = register_module("layer", torch::nn::Linear(3, 3));
  }
  torch::Tensor forward(const torch::Tensor& input) { return layer(input); }
  torch::nn::Linear layer{nullptr};
  static inline int resets_left = 1;
};

TEST_P(DataParallelOn, GoesOnAfterACopyThatFailed) {
  RefusesImpl::resets_left = 1;
  const auto net = std::make_shared<RefusesImpl>();
  DataParallel<RefusesImpl> parallel(net, GetParam());
  const at::Tensor input = torch::randn({6, 3}, device());
  const at::NoGradGuard no_grad;
  RefusesImpl::resets_left = 1;
  EXPECT_THROW(parallel.forward(input), std::runtime_error);
  RefusesImpl::resets_left = 2;
  EXPECT_TRUE(parallel.forward(input).equal(net->forward(input)));
}

TEST_P(DataParallelOn, WrongArguments) {
  const auto message_of = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const InvalidArgumentError& error) {
      return error.what();
    }
    return "no exception";
  };
  EXPECT_THAT(message_of([] { DataParallel<NetImpl> made(nullptr, {at::kCPU}); }),
              HasSubstr("the module is null"));
  EXPECT_THAT(message_of([&] { parallel_->forward(samples(0)); }), HasSubstr("no samples"));
  EXPECT_THAT(message_of([&] { parallel_->forward(torch::tensor(1.0)); }), HasSubstr("no samples"));
  if (torch::cuda::is_available()) return;
  EXPECT_THAT(message_of([&] { DataParallel<NetImpl> made(net_.ptr()); }),
              HasSubstr("sees no CUDA device"));
}

}  // namespace
}  // namespace kolo
