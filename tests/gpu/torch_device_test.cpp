// kolo's API with CUDA tensors.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/torch.h>

#include "torch_ops/everywhere.hpp"
#include "torch_ops/fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;

class CudaTensors : public testing_support::WithKolo {
 protected:
  void SetUp() override {
    WithKolo::SetUp();
#ifndef KOLO_FAKE_CUDA
    try {
      local_device();
    } catch (const InvalidArgumentError& error) {
      GTEST_SKIP() << "no GPU: " << error.what();
    }
#endif
    device_ = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(local_device()));
  }

  at::TensorOptions on_device(at::ScalarType type = at::kFloat) const {
    return at::TensorOptions().device(*device_).dtype(type);
  }
  at::Device device() const {
    return *device_;
  }
  c10::Stream new_stream() const {
    return c10::impl::getDeviceGuardImpl(at::kCUDA)->getStreamFromGlobalPool(device(), false);
  }

 private:
  std::optional<at::Device> device_;
};

void expect_equal(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_TRUE(at::allclose(actual.cpu().to(at::kDouble), expected.cpu().to(at::kDouble)))
      << actual.cpu() << "\n is not\n"
      << expected.cpu();
}

double sum_of_ranks() {
  return size() * (size() - 1) / 2.0;
}

TEST_F(CudaTensors, TheDeviceIsThatOfTheLocalRank) {
  EXPECT_EQ(local_device(), local_rank());
}

TEST_F(CudaTensors, AllreduceOfAllDtypes) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kByte,
                                    at::kChar, at::kShort, at::kInt, at::kLong}) {
    const at::Tensor mine = at::full({3, 5}, rank() + 1, on_device(type));
    const at::Tensor sum = allreduce(mine, AllreduceOptions().op(ReduceOp::Sum));
    EXPECT_EQ(sum.device(), device());
    EXPECT_EQ(sum.scalar_type(), type);
    expect_equal(sum, at::full({3, 5}, sum_of_ranks() + size()));
    expect_equal(mine, at::full({3, 5}, rank() + 1));
    expect_equal(allreduce(mine, AllreduceOptions().op(ReduceOp::Max)), at::full({3, 5}, size()));
  }
  const at::Tensor even = at::full({4}, rank() % 2 == 0, on_device(at::kBool));
  expect_equal(allreduce(even, AllreduceOptions().op(ReduceOp::Max)), at::ones({4}));
  expect_equal(allreduce(even, AllreduceOptions().op(ReduceOp::Min)),
               size() == 1 ? at::ones({4}) : at::zeros({4}));
}

TEST_F(CudaTensors, InPlaceAlsoWhereNotContiguous) {
  at::Tensor plain = at::full({6}, rank(), on_device());
  expect_equal(allreduce_(plain, AllreduceOptions("plain").op(ReduceOp::Sum)),
               at::full({6}, sum_of_ranks()));
  const at::Tensor whole = at::full({4, 6}, rank(), on_device());
  const at::Tensor columns = whole.t();
  allreduce_(columns, AllreduceOptions("t").op(ReduceOp::Sum));
  expect_equal(whole, at::full({4, 6}, sum_of_ranks()));
}

// What is computed on one stream, and read on another.
TEST_F(CudaTensors, StreamsWaitForEachOther) {
  const c10::Stream making = new_stream();
  const c10::Stream reading = new_stream();
  at::Tensor tensor;
  std::optional<Handle> handle;
  for (int repeat = 0; repeat < 5; ++repeat) {
    {
      const c10::StreamGuard guard(making);
      tensor = at::full({1000}, 1, on_device());
      for (int i = 0; i < 3; ++i) tensor.add_(rank());
      handle.emplace(allreduce_async_(tensor, AllreduceOptions("x").op(ReduceOp::Sum)));
    }
    const c10::StreamGuard guard(reading);
    expect_equal(handle->wait() * 2, at::full({1000}, 2 * (size() + 3 * sum_of_ranks())));
  }
}

TEST_F(CudaTensors, BroadcastGatherAndScatter) {
  const int root = size() - 1;
  expect_equal(broadcast(at::full({7}, rank(), on_device()), root), at::full({7}, root));
  const at::Tensor rows = at::full({rank() + 1, 2}, rank(), on_device(at::kLong));
  std::vector<at::Tensor> all;
  for (int r = 0; r < size(); ++r) all.push_back(at::full({r + 1, 2}, r, at::kLong));
  const at::Tensor gathered = allgather(rows);
  EXPECT_EQ(gathered.device(), device());
  expect_equal(gathered, at::cat(all));
  const AlltoallResult exchanged = alltoall(at::full({2 * size(), 3}, rank(), on_device()));
  std::vector<at::Tensor> from_each;
  for (int r = 0; r < size(); ++r) from_each.push_back(at::full({2, 3}, r));
  expect_equal(exchanged.output, at::cat(from_each));
  const at::Tensor mine = reducescatter(at::ones({size() * 2 + 1, 2}, on_device()),
                                        ReducescatterOptions().op(ReduceOp::Sum));
  expect_equal(mine, at::full({rank() == 0 ? 3 : 2, 2}, size()));
}

TEST_F(CudaTensors, Groups) {
  const std::vector<at::Tensor> group = {at::full({3}, rank(), on_device()),
                                         at::full({2, 2}, 1, on_device(at::kInt)),
                                         at::full({50000}, 2, on_device())};
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto sums = grouped_allreduce(group, AllreduceOptions("group").op(ReduceOp::Sum));
    expect_equal(sums[0], at::full({3}, sum_of_ranks()));
    expect_equal(sums[1], at::full({2, 2}, size()));
    expect_equal(sums[2], at::full({50000}, 2 * size()));
  }
  const std::vector<at::Tensor> mixed = {group[0], at::ones({2})};
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { grouped_allreduce(mixed); }),
              HasSubstr("make a group for each device"));
}

TEST_F(CudaTensors, Sparse) {
#ifdef KOLO_FAKE_CUDA
  GTEST_SKIP() << "the fake GPU has no sparse tensors";
#endif
  const at::Tensor indices = at::full({1, 1}, rank(), on_device(at::kLong));
  const at::Tensor values = at::ones({1, 2}, on_device());
  const at::Tensor sparse = at::sparse_coo_tensor(indices, values, {size(), 2});
  const at::Tensor sum =
      sparse_allreduce_async(sparse, AllreduceOptions().op(ReduceOp::Sum)).wait();
  expect_equal(sum.to_dense(), at::ones({size(), 2}));
}

TEST_F(CudaTensors, Autograd) {
  at::Tensor leaf = at::full({3}, rank() + 1.0, on_device()).requires_grad_();
  allreduce(leaf * leaf, AllreduceOptions().op(ReduceOp::Sum)).sum().backward();
  expect_equal(leaf.grad(), at::full({3}, 2.0 * (rank() + 1) * size()));
}

TEST_F(CudaTensors, AdasumGoesOverTheHost) {
  expect_equal(allreduce(at::full({5}, 2, on_device()), AllreduceOptions().op(ReduceOp::Adasum)),
               at::full({5}, 2));
}

TEST_F(CudaTensors, RefusesWhatItCannotDo) {
  allreduce(at::ones({2}, on_device()));
  const at::Device other(at::kCUDA, static_cast<c10::DeviceIndex>(local_device() + 1));
  const std::string elsewhere = message_of<InvalidArgumentError>(
      [&] { allreduce(at::ones({2}, at::TensorOptions().device(other))); });
  EXPECT_THAT(elsewhere, HasSubstr("reduces on cuda:" + std::to_string(local_device())));
}

torch::nn::Sequential make_net() {
  torch::manual_seed(7);
  return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(),
                               torch::nn::Linear(16, 16), torch::nn::Tanh(),
                               torch::nn::Linear(16, 1));
}

// Each rank has rows of its own. Gives the loss of all steps and leaves the net trained.
std::vector<double> train(torch::nn::Sequential& net, at::Device device,
                          DistributedOptimizerOptions options) {
  net->to(device);
  broadcast_parameters(*net);
  DistributedOptimizer<torch::optim::SGD> optimizer(
      net->parameters(), torch::optim::SGDOptions(0.1), std::move(options));
  std::vector<double> losses;
  for (int step = 0; step < 8; ++step) {
    torch::manual_seed(100 * step + rank());
    const at::Tensor x = torch::randn({5, 6}).to(device);
    const at::Tensor y = x.sum(1, true);
    optimizer.zero_grad();
    const at::Tensor loss = torch::mse_loss(net->forward(x), y);
    loss.backward();
    optimizer.step();
    losses.push_back(allreduce(loss.detach()).item<double>());
  }
  return losses;
}

TEST_F(CudaTensors, TrainsAsOnTheCpu) {
  for (const Compression compression : {Compression::None, Compression::Bf16}) {
    torch::nn::Sequential on_cpu = make_net();
    torch::nn::Sequential on_cuda = make_net();
    const auto expected =
        train(on_cpu, at::kCPU, DistributedOptimizerOptions().compression(compression));
    const auto losses =
        train(on_cuda, device(), DistributedOptimizerOptions().compression(compression));
    ASSERT_EQ(losses.size(), expected.size());
    // bfloat16 is rounded once on the CPU, and after each addition by NCCL.
    const double tolerance = compression == Compression::None ? 1e-5 : 5e-3;
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], tolerance * (1 + expected[i])) << i;
    for (std::size_t i = 0; i < on_cpu->parameters().size(); ++i) {
      EXPECT_TRUE(at::allclose(on_cuda->parameters()[i].cpu(), on_cpu->parameters()[i], tolerance,
                               tolerance));
    }
    EXPECT_LT(losses.back(), losses.front());
  }
}

}  // namespace
}  // namespace kolo
