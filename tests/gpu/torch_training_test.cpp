// The parts for training, on a GPU: mixed precision and BatchNorm over all ranks.
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string>

#include "gpu/torch_device_fixture.hpp"

namespace kolo {
namespace {

using CudaTraining = CudaTensors;

TEST_F(CudaTraining, AllRanksSkipAStepThatOverflowsOnOne) {
  const at::Tensor weight = at::ones({3}, on_device()).requires_grad_();
  DistributedOptimizer<torch::optim::SGD> optimizer(std::vector<at::Tensor>{weight},
                                                    torch::optim::SGDOptions(1.0));
  GradScaler scaler(GradScalerOptions().init_scale(8));
  const auto advance = [&](double slope) {
    optimizer.zero_grad();
    scaler.scale((weight * slope).sum()).backward();
    const bool stepped = scaler.step(optimizer);
    scaler.update();
    return stepped;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(advance(rank() == size() - 1 ? infinity : 1));
  EXPECT_EQ(scaler.get_scale(), 4);
  expect_equal(weight.detach(), at::ones({3}));
  EXPECT_TRUE(advance(rank() + 1));
  expect_equal(weight.detach(), at::full({3}, 1 - (size() + 1) / 2.0));
}

// Every product of these numbers is a float16, and so are the sums.
TEST_F(CudaTraining, AutocastComputesInFloat16) {
  const at::Tensor weight = at::full({4, 4}, 0.5, on_device()).requires_grad_();
  const at::Tensor input = at::full({2, 4}, 2.0 * (rank() + 1), on_device());
  DistributedOptimizer<torch::optim::SGD> optimizer(std::vector<at::Tensor>{weight},
                                                    torch::optim::SGDOptions(1.0));
  GradScaler scaler(GradScalerOptions().init_scale(16));
  at::Tensor loss;
  {
    const AutocastGuard autocast(at::kCUDA, at::kHalf);
    const at::Tensor output = input.matmul(weight);
    EXPECT_EQ(output.scalar_type(), at::kHalf);
    loss = output.to(at::kFloat).sum();
  }
  scaler.scale(loss).backward();
  scaler.unscale_(optimizer);
  const double average = 2 * 2 * (size() + 1) / 2.0;  // two rows of 2 * (rank + 1)
  expect_equal(weight.grad(), at::full({4, 4}, average));
  EXPECT_TRUE(scaler.step(optimizer));
}

// From the third step on the targets are infinite. The Trainer does not look at each loss on a GPU,
// but before it saves.
TEST_F(CudaTraining, NoCheckpointHasAStepWithABadLoss) {
  const std::string mine = testing::TempDir() + "kolo-bad-loss-" + std::to_string(::getpid());
  const std::string folder = broadcast_object(mine, 0);
  const at::Tensor targets = at::ones({8 * size(), 1});
  targets.narrow(0, 4 * size(), 4 * size()).fill_(std::numeric_limits<float>::infinity());
  {  // the end of the trainer waits for what it saves
    torch::nn::Linear model(2, 1);
    Trainer trainer(model, torch::nn::MSELoss(),
                    TrainerOptions().batch_size(2).shuffle(false).verbose(false).device("cuda"));
    trainer.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.01));
    trainer.callback<Checkpoints>(folder, CheckpointsOptions().every_steps(1));
    EXPECT_THAT(testing_support::message_of<Error>([&] {
                  trainer.train({at::ones({8 * size(), 2}), targets});
                }),
                testing::HasSubstr("step 3"));
  }
  barrier();
  Checkpoint files(folder);
  EXPECT_EQ(files.newest_step(), 2);
  barrier();
  if (rank() == 0) std::filesystem::remove_all(folder);
}

// Workers copy ahead, in streams of their own, while this thread's stream computes.
TEST_F(CudaTraining, LoadersHandOutBatchesOnTheDevice) {
  const data::Dataset dataset(torch::arange(96).to(at::kFloat).view({24, 4}), torch::arange(24));
  for (const int workers : {0, 1, 3}) {
    const auto options = DataLoaderOptions().batch_size(5).workers(workers);
    DataLoader on_cpu(dataset, DistributedSampler(24, {}), options);
    DataLoader on_gpu(dataset, DistributedSampler(24, {}),
                      DataLoaderOptions(options).device(device()));
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<at::Tensor> doubled;
      for (const data::Batch& batch : on_gpu) {
        EXPECT_EQ(batch.data.device(), device());
        EXPECT_EQ(batch.target.device(), device());
        doubled.push_back(batch.data * 2);
      }
      std::size_t i = 0;
      for (const data::Batch& batch : on_cpu) expect_equal(doubled.at(i++), batch.data * 2);
      EXPECT_EQ(i, doubled.size());
    }
  }
}

// The same on the CPU, by LibTorch's own class, with the average of all ranks' gradients.
TEST_F(CudaTraining, FusedOptimizersStepAsOnTheCpu) {
  torch::manual_seed(2);
  const at::Tensor values = torch::randn({5, 3}, at::kDouble);
  const at::Tensor mine = values.to(device()).requires_grad_();
  const at::Tensor theirs = values.clone().requires_grad_();
  DistributedOptimizer<optim::FusedAdamW> fused(std::vector<at::Tensor>{mine},
                                                torch::optim::AdamWOptions(0.1).amsgrad(true));
  torch::optim::AdamW plain(std::vector<at::Tensor>{theirs},
                            torch::optim::AdamWOptions(0.1).amsgrad(true));
  for (int step = 0; step < 4; ++step) {
    fused.zero_grad();
    plain.zero_grad();
    ((mine * mine).sum() * (rank() + 1.0)).backward();
    ((theirs * theirs).sum() * ((size() + 1) / 2.0)).backward();
    fused.step();
    plain.step();
    expect_equal(mine.detach(), theirs.detach());
  }
}

TEST_F(CudaTraining, BatchNormOfAllRanksIsThatOfTheWholeBatch) {
  for (const bool uneven : {false, true}) {
    SCOPED_TRACE(uneven ? "rank 0 has more" : "equal shares");
    torch::manual_seed(5);
    const std::int64_t others = uneven ? 2 : 12 / size();
    const std::int64_t first = 12 - others * (size() - 1);
    const std::int64_t rows = rank() == 0 ? first : others;
    const std::int64_t begin = rank() == 0 ? 0 : first + others * (rank() - 1);
    const auto share = [&](const at::Tensor& all) { return all.narrow(0, begin, rows); };
    torch::nn::BatchNorm2d whole(3);
    torch::nn::BatchNorm2d parts(3);
    whole->to(at::kDouble);
    parts->to(at::kDouble);
    parts->to(device());
    EXPECT_EQ(convert_sync_batchnorm(parts), 1U);
    const at::Tensor data = (torch::randn({12, 3, 4, 2}, at::kDouble) + 100).requires_grad_();
    const at::Tensor slope = torch::randn({12, 3, 4, 2}, at::kDouble);
    const at::Tensor mine = share(data.detach()).to(device()).clone().requires_grad_();
    const at::Tensor wanted = whole->forward(data);
    const at::Tensor found = parts->forward(mine);
    (wanted * slope).sum().backward();
    (found * share(slope).to(device())).sum().backward();
    expect_equal(found.detach(), share(wanted.detach()));
    expect_equal(mine.grad(), share(data.grad()));
    expect_equal(allreduce(parts->weight.grad(), ReduceOp::Sum), whole->weight.grad());
    expect_equal(allreduce(parts->bias.grad(), ReduceOp::Sum), whole->bias.grad());
    expect_equal(parts->running_mean, whole->running_mean);
    expect_equal(parts->running_var, whole->running_var);
  }
}

}  // namespace
}  // namespace kolo
