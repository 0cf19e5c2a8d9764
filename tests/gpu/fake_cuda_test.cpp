// kolo's API with CUDA tensors, as far as only a GPU that is none tells what happens, or lets it
// wait.
#include <future>

#include "fake_gpu/fake_gpu.hpp"
#include "gpu/cuda_aware_mpi.hpp"
#include "gpu/torch_device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Property;
using testing_support::message_of;

std::vector<at::Tensor> many_parameters(const at::TensorOptions& options) {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 50; ++i) parameters.push_back(at::ones({100}, options).requires_grad_());
  return parameters;
}

at::Tensor loss_of(const std::vector<at::Tensor>& parameters) {
  at::Tensor loss = parameters[0].sum();
  for (std::size_t i = 1; i < parameters.size(); ++i) loss = loss + parameters[i].sum();
  return loss;
}

cudaStream_t native(const c10::Stream& stream) {
  return static_cast<cudaStream_t>(stream.native_handle());
}

// What comes on the stream while this lives waits for its end.
class Blocked {
 public:
  explicit Blocked(const c10::Stream& stream) {
    fake_gpu::enqueue(native(stream), [may_go_on = may_go_on_] {
      while (!*may_go_on) std::this_thread::yield();
    });
  }
  ~Blocked() { *may_go_on_ = true; }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  const std::shared_ptr<std::atomic<bool>> may_go_on_ = std::make_shared<std::atomic<bool>>(false);
};

// The host's part does not grow with the number of tensors.
TEST_F(CudaTensors, AStepOfManyTensorsNeedsFewEvents) {
  const c10::Stream stream = new_stream();
  const c10::StreamGuard guard(stream);
  const std::vector<at::Tensor> parameters = many_parameters(on_device());
  DistributedOptimizer<torch::optim::SGD> optimizer(parameters, torch::optim::SGDOptions(0.1));
  fake_gpu::EventCounts before;
  for (int step = 0; step < 6; ++step) {
    before = fake_gpu::event_counts(native(stream));
    optimizer.zero_grad();
    loss_of(parameters).backward();
    optimizer.step();
  }
  const fake_gpu::EventCounts after = fake_gpu::event_counts(native(stream));
  // Autograd itself has its streams wait for each other.
  EXPECT_LE(after.recorded - before.recorded, 10);
  // A rank alone has no buckets, and each tensor a result.
  if (size() > 1) {
    EXPECT_LE(after.waited - before.waited, 10);
  }
}

// Where a captured backward pass writes, say, also when kolo still holds what the device works
// with.
TEST_F(CudaTensors, GradientsStayWhereTheyAre) {
  const c10::Stream stream = new_stream();
  const c10::StreamGuard guard(stream);
  for (const Compression& compression : {Compression::None, Compression::Bf16}) {
    const std::vector<at::Tensor> parameters = many_parameters(on_device());
    DistributedOptimizer<torch::optim::SGD> optimizer(
        parameters, torch::optim::SGDOptions(0.1),
        DistributedOptimizerOptions().compression(compression));
    for (int i = 0; i < 3; ++i) {  // then collectives are known, and buckets
      optimizer.zero_grad(false);
      loss_of(parameters).backward();
      optimizer.step();
    }
    std::vector<const void*> places;
    for (const at::Tensor& parameter : parameters)
      places.push_back(parameter.grad().const_data_ptr());
    optimizer.zero_grad(false);
    {
      const auto no_sync = optimizer.no_sync();
      loss_of(parameters).backward();
    }
    fake_gpu::drain(native(stream));
    const c10::Stream another = new_stream();
    const c10::StreamGuard there(another);
    auto blocked = std::make_unique<Blocked>(another);
    optimizer.synchronize();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_EQ(parameters[i].grad().const_data_ptr(), places[i]) << i;
    // What a rank drops meanwhile still comes to the others; its own stream would give it free.
    if (rank() == 0) parameters[1].mutable_grad() = at::Tensor();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    blocked.reset();
    expect_equal(parameters[0].grad(), at::full({100}, 1));
    if (rank() != 0) expect_equal(parameters[1].grad(), at::full({100}, 1));
  }
}

// Once its stream waits for what was reduced, LibTorch may have gradients' memory again, however
// far the device is behind.
TEST_F(CudaTensors, AStepThatTheDeviceHasNotBegunKeepsNoGradients) {
  for (const Compression& compression : {Compression::None, Compression::Bf16}) {
    const c10::Stream stream = new_stream();
    const c10::StreamGuard guard(stream);
    const std::vector<at::Tensor> parameters = many_parameters(on_device());
    DistributedOptimizer<torch::optim::SGD> optimizer(
        parameters, torch::optim::SGDOptions(0.1),
        DistributedOptimizerOptions().compression(compression));
    for (int i = 0; i < 3; ++i) {  // then collectives are known, and buckets
      optimizer.zero_grad();
      loss_of(parameters).backward();
      optimizer.step();
    }
    optimizer.zero_grad();
    {
      const auto no_sync = optimizer.no_sync();
      loss_of(parameters).backward();
    }
    using Storage = c10::weak_intrusive_ptr<c10::StorageImpl>;
    std::vector<Storage> memory;
    for (const at::Tensor& parameter : parameters)
      memory.emplace_back(parameter.grad().storage().getWeakStorageImpl());
    const Blocked blocked(stream);
    optimizer.synchronize();
    optimizer.zero_grad();
    EXPECT_THAT(memory, Each(Property("expired", &Storage::expired, true)));
  }
}

// A gather's memory is its own stream's: what the program's stream has to do meanwhile does not
// hold it up.
TEST_F(CudaTensors, AGatherDoesNotWaitForWhatCameLater) {
  const c10::Stream stream = new_stream();
  const c10::StreamGuard guard(stream);
  const at::Tensor rows = at::full({4, 2}, rank(), on_device());
  std::unique_ptr<Blocked> blocked;
  std::optional<Handle> gather;
  if (rank() == 0) {
    gather.emplace(allgather_async(rows, OperationOptions().name("rows")));
    blocked = std::make_unique<Blocked>(stream);
  }
  barrier(OperationOptions().name("submitted"));
  if (rank() != 0) gather.emplace(allgather_async(rows, OperationOptions().name("rows")));
  const c10::Stream another = new_stream();
  const c10::StreamGuard there(another);
  const at::Tensor all = gather->wait();
  auto drained = std::async(std::launch::async, [&another] { fake_gpu::drain(native(another)); });
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  blocked.reset();
  for (int r = 0; r < size(); ++r) expect_equal(all.narrow(0, 4L * r, 4), at::full({4, 2}, r));
}

// What was given is used by the stream that waits for it, too: it may be given back there.
TEST_F(CudaTensors, WhatIsGivenBackElsewhereIsReadBefore) {
  for (int i = 0; i < 5; ++i) {
    const c10::Stream stream = new_stream();
    std::optional<Handle> gather;
    at::Tensor all;
    at::Tensor rows;
    {
      const c10::StreamGuard guard(stream);
      rows = at::full({4, 2}, rank(), on_device());
    }
    fake_gpu::drain(native(stream));
    const c10::Stream another = new_stream();
    const c10::StreamGuard there(another);
    {
      const Blocked blocked(another);
      gather.emplace(allgather_async(rows));
      all = gather->wait();
      rows = at::Tensor();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (int r = 0; r < size(); ++r) expect_equal(all.narrow(0, 4L * r, 4), at::full({4, 2}, r));
  }
}

// A hook of the program cannot take gradients away while they are held for a common submission.
TEST_F(CudaTensors, HeldGradientsAreInFlight) {
  const std::vector<at::Tensor> parameters = many_parameters(on_device());
  struct Zeroing : torch::autograd::PostAccumulateGradHook {
    std::function<void()> zero;
    void operator()(const at::Tensor& /*parameter*/) override {
      if (zero) zero();
    }
  };
  auto hook = std::make_unique<Zeroing>();
  Zeroing* const zeroing = hook.get();
  torch::autograd::impl::set_post_acc_grad_hooks(parameters[1], std::move(hook));
  DistributedOptimizer<torch::optim::SGD> optimizer(parameters, torch::optim::SGDOptions(0.1));
  for (int i = 0; i < 2; ++i) {
    loss_of(parameters).backward();
    optimizer.zero_grad();
  }
  zeroing->zero = [&] { optimizer.zero_grad(); };
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { loss_of(parameters).backward(); }),
              HasSubstr("zero_grad() during backward()"));
  zeroing->zero = nullptr;
  optimizer.zero_grad();
  loss_of(parameters).backward();
  optimizer.step();
  expect_equal(parameters[0].detach(), at::full({100}, 0.9));
}

// What the host carries out over an MPI that is CUDA-aware, as this one says.
TEST_F(CudaTensors, MpiMovesThemWhereTheyLie) {
  const char* const broadcasts = std::getenv("KOLO_GPU_BROADCAST");
  if (broadcasts == nullptr) GTEST_SKIP() << "NCCL broadcasts here";
  const int before = fake_gpu::messages_on_device();
  expect_equal(broadcast(at::full({7000}, rank(), on_device()), 0), at::zeros({7000}));
  const int after = fake_gpu::messages_on_device();
  if (rank() == 0) {
    EXPECT_GT(after, before);
  }
  expect_equal(allreduce(at::ones({7000}, on_device()), AllreduceOptions().op(ReduceOp::Sum)),
               at::full({7000}, size()));
  EXPECT_EQ(fake_gpu::messages_on_device(), after);
  const char* const setting = rank() == 0 ? "0" : "AUTO";
  shutdown();
  ASSERT_EQ(setenv("KOLO_CUDA_AWARE_MPI", setting, 1), 0);
  init();
  expect_equal(broadcast(at::full({7000}, rank(), on_device()), 0), at::zeros({7000}));
  EXPECT_EQ(fake_gpu::messages_on_device(), after);
  shutdown();
  ASSERT_EQ(unsetenv("KOLO_CUDA_AWARE_MPI"), 0);
  init();
}

TEST_F(CudaTensors, ABackwardPassThatIsCapturedIsRefused) {
  const std::vector<at::Tensor> parameters = many_parameters(on_device());
  DistributedOptimizer<torch::optim::SGD> optimizer(parameters, torch::optim::SGDOptions(0.1));
  const at::Tensor loss = loss_of(parameters);
  fake_gpu::capture(true);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { loss.backward(); }),
              HasSubstr("cannot be captured"));
  fake_gpu::capture(false);
}

}  // namespace
}  // namespace kolo
