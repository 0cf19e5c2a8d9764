// What happens when something goes wrong on a device, or with who shares a collective on it.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// A rank that is gone within a collective: the others' devices wait for it, and their hosts do not.
// Whether NCCL says so or not, all that waits is ended, and further calls fail.
class DeviceLoss : public ::testing::TestWithParam<bool> {};

TEST_P(DeviceLoss, EndsTheWorkOfTheSurvivorsAndTellsThem) {
  const bool in_stages = device_options(0).hierarchical_allreduce;
  const bool has_nccl = in_stages ? ranks_per_node() == 2 : is_nccl_alone();
  if (!has_nccl) GTEST_SKIP() << "it is NCCL's loss";
  // With two nodes of two ranks, NCCL's rank 1 is on each of them the second one.
  const int size = in_stages ? 4 : 3;
  const int gone = size - 1;
  fake_gpu::tell_of_lost_ranks(GetParam());
  Engine::Options options = test_options();
  options.group.collective_timeout = std::chrono::milliseconds(GetParam() ? 60000 : 3000);
  options.shutdown_timeout = std::chrono::milliseconds(500);
  on_all_devices(
      size,
      [&](DeviceProgram& program) {
        DeviceTensor<float> tensor(1000);
        tensor.fill_late(program, std::vector<float>(1000, 1));
        ASSERT_TRUE(program.wait(program.submit(device_operation(OpKind::kAllreduce, "a", tensor)))
                        .is_ok());
        const auto values = tensor.read(program);
        program.put([values, size] { EXPECT_EQ(values->at(0), static_cast<float>(size)); });
        program.synchronize();
        std::vector<float> all_have_it(1, 0);
        ASSERT_TRUE(submit_and_wait(program.engine(), allreduce("all", all_have_it)).is_ok());
        // The others' devices are within it when this one is gone.
        if (program.rank() == gone)
          program.put([] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
        const auto late = program.submit(device_operation(OpKind::kAllreduce, "b", tensor));
        if (program.rank() == gone) fake_gpu::cut_off(in_stages ? 1 : gone);
        Status status = program.wait(late);  // another one's loss may be known already
        const auto deadline = Clock::now() + std::chrono::seconds(15);
        while (status.is_ok() && Clock::now() < deadline) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          std::vector<float> on_host(4, 1);  // nothing further for NCCL
          status = submit_and_wait(program.engine(), allreduce("next", on_host));
        }
        EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
      },
      options);
  fake_gpu::tell_of_lost_ranks(false);
}
INSTANTIATE_TEST_SUITE_P(, DeviceLoss, ::testing::Values(false, true));

// NCCL says only that some rank is gone. Its lifeline, which goes a moment later, says which one.
TEST(DeviceLosses, TheRankIsNamedByItsLifeline) {
  if (!is_nccl_alone()) GTEST_SKIP() << "it is NCCL's loss";
  constexpr int kGone = 2;
  fake_gpu::tell_of_lost_ranks(true);
  int lifeline[2];
  ASSERT_EQ(pipe(lifeline), 0);
  Engine::Options options = test_options();
  options.group.lifelines =
      std::make_shared<Lifelines>(std::vector<Lifelines::Peer>{{0}, {1}, {kGone, lifeline[0]}}, -1);
  options.shutdown_timeout = std::chrono::milliseconds(500);
  on_all_devices(
      3,
      [&](DeviceProgram& program) {
        DeviceTensor<float> tensor(1000);
        tensor.fill_late(program, std::vector<float>(1000, 1));
        ASSERT_TRUE(program.wait(program.submit(device_operation(OpKind::kAllreduce, "a", tensor)))
                        .is_ok());
        program.synchronize();
        if (program.rank() == kGone)
          program.put([] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
        const auto late = program.submit(device_operation(OpKind::kAllreduce, "b", tensor));
        if (program.rank() == kGone) {
          fake_gpu::cut_off(kGone);
          std::this_thread::sleep_for(std::chrono::milliseconds(400));
          close(lifeline[1]);
        }
        Status status = program.wait(late);
        const auto deadline = Clock::now() + std::chrono::seconds(15);
        while (status.is_ok() && Clock::now() < deadline) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          std::vector<float> on_host(4, 1);
          status = submit_and_wait(program.engine(), allreduce("next", on_host));
        }
        EXPECT_EQ(status.code(), StatusCode::kPeerLost);
        EXPECT_THAT(status.message(), HasSubstr("the process of rank 2 has ended"));
      },
      options);
  fake_gpu::tell_of_lost_ranks(false);
}

// A program's stream that never comes to what was enqueued: after the timeout the work is aborted,
// so that the device does not wait for ever, and all further calls say so.
TEST(DeviceLosses, WhatIsEnqueuedAndDoesNotMoveIsAStallThatIsToldOnce) {
  if (!is_nccl_alone()) GTEST_SKIP() << "then it is not enqueued";
  Engine::Options options = test_options();
  options.group.stall_check = std::chrono::milliseconds(80);
  on_all_devices(
      2,
      [](DeviceProgram& program) {
        DeviceTensor<float> tensor(10);
        const auto stalls = [&program] { return program.engine().tracing().measures().stalls; };
        ASSERT_TRUE(program.wait(program.submit(device_operation(OpKind::kAllreduce, "a", tensor)))
                        .is_ok());
        program.synchronize();
        EXPECT_EQ(stalls(), 0U);
        const auto may_go_on = program.rank() == 1 ? program.block() : nullptr;
        for (const char* name : {"b", "c"}) {
          ASSERT_TRUE(
              program.wait(program.submit(device_operation(OpKind::kAllreduce, name, tensor)))
                  .is_ok());
        }
        const auto deadline = Clock::now() + std::chrono::seconds(15);
        while (stalls() == 0 && Clock::now() < deadline)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        EXPECT_EQ(stalls(), 1U);
        if (may_go_on != nullptr) *may_go_on = true;
        EXPECT_TRUE(program.engine().shut_down());
      },
      options);
}

TEST(DeviceLosses, WhatIsEnqueuedAndDoesNotEndIsAborted) {
  if (!is_nccl_alone()) GTEST_SKIP() << "then it is not enqueued";
  Engine::Options options = test_options();
  options.group.collective_timeout = std::chrono::milliseconds(700);
  options.shutdown_timeout = std::chrono::milliseconds(500);
  std::atomic<bool> released{false};
  on_all_devices(
      2,
      [&released](DeviceProgram& program) {
        DeviceTensor<float> tensor(10);
        tensor.fill_late(program, std::vector<float>(10, 1));
        ASSERT_TRUE(program.wait(program.submit(device_operation(OpKind::kAllreduce, "a", tensor)))
                        .is_ok());
        // Rank 1's device is busy with something else for ever, so rank 0's waits for it.
        if (program.rank() == 1) {
          program.put([&released] {
            while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          });
        }
        const auto operation = program.submit(device_operation(OpKind::kAllreduce, "b", tensor));
        ASSERT_TRUE(program.wait(operation).is_ok());
        const auto values = tensor.read(program);
        const auto deadline = Clock::now() + std::chrono::seconds(15);
        Status status;
        while (status.is_ok() && Clock::now() < deadline) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          std::vector<float> data(4, 1);
          const auto next = allreduce("next", data);
          status = submit_and_wait(program.engine(), next);
        }
        EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
        released = true;
      },
      options);
}

// A message and a collective have communicators of their own, and one stream: to abort one of them
// waits for what the other has there.
TEST(DeviceLosses, AllCommunicatorsAreAbortedAsOne) {
  if (!is_nccl_alone()) GTEST_SKIP() << "it is NCCL's loss";
  Engine::Options options = test_options();
  options.group.collective_timeout = std::chrono::milliseconds(1500);
  options.shutdown_timeout = std::chrono::milliseconds(500);
  on_all_devices(
      2,
      [&](DeviceProgram& program) {
        DeviceTensor<float> tensor(1000);
        const auto message = [&](const char* name) {
          auto operation = device_operation(OpKind::kSend, name, tensor);
          operation->descriptor.root = 1;
          operation->descriptor.destination = 0;
          return operation;
        };
        tensor.fill_late(program, std::vector<float>(1000, 1));
        ASSERT_TRUE(program.wait(program.submit(device_operation(OpKind::kAllreduce, "a", tensor)))
                        .is_ok());
        ASSERT_TRUE(program.wait(program.submit(message("m"))).is_ok());
        program.synchronize();
        std::vector<float> all_have_it(1, 0);
        ASSERT_TRUE(submit_and_wait(program.engine(), allreduce("all", all_have_it)).is_ok());
        // Rank 1 is gone when its device comes to the message.
        if (program.rank() == 1)
          program.put([] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); });
        ASSERT_TRUE(program.wait(program.submit(message("late m"))).is_ok());
        ASSERT_TRUE(
            program.wait(program.submit(device_operation(OpKind::kAllreduce, "late a", tensor)))
                .is_ok());
        if (program.rank() == 1) fake_gpu::cut_off(1);
        const Clock::time_point begin = Clock::now();
        Status status;
        while (status.is_ok() && Clock::now() - begin < std::chrono::seconds(15)) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          std::vector<float> on_host(4, 1);
          status = submit_and_wait(program.engine(), allreduce("next", on_host));
        }
        EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
        program.synchronize();  // nothing is stuck on the device
        EXPECT_LT(Clock::now() - begin, std::chrono::seconds(4));
      },
      options);
}

TEST(DeviceLosses, TwoRanksOnOneDeviceAreNamed) {
  if (!is_nccl_alone()) GTEST_SKIP() << "the host does not mind";
  std::vector<std::unique_ptr<Transport>> transports = make_local_transports(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      std::shared_ptr<Device> device;
      ASSERT_TRUE(nccl::make_device(rank == 2 ? 0 : rank, device_options(rank), device).is_ok());
      Engine::Options options = test_options();
      options.group.find_device = [&device](std::shared_ptr<Device>& found) {
        found = device;
        return Status::ok();
      };
      Engine engine(std::move(transports[static_cast<std::size_t>(rank)]), nullptr, options);
      DeviceProgram program(engine, *device);
      DeviceTensor<float> tensor(4);
      const auto operation = program.submit(device_operation(OpKind::kAllreduce, "x", tensor));
      const Status status = engine.wait(operation, std::chrono::seconds(20));
      EXPECT_FALSE(status.is_ok());
      EXPECT_THAT(status.message(), HasSubstr("ranks 0 and 2"));
      EXPECT_THAT(status.message(), HasSubstr("KOLO_SHARE_DEVICE"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(DeviceLosses, WithoutADeviceItIsSaid) {
  on_all_ranks(2, [](Engine& engine, Transport&) {
    std::vector<float> data(4, 1);
    auto operation = allreduce("x", data);
    operation->descriptor.device = DeviceKind::kCuda;
    const Status status = submit_and_wait(engine, operation);
    EXPECT_THAT(status.message(), HasSubstr("no device"));
  });
}

// A bucket for which there is no memory ends the job with the reason, on all ranks.
TEST(DeviceLosses, OutOfMemory) {
  Engine::Options options = test_options();
  options.shutdown_timeout = std::chrono::milliseconds(500);
  on_all_devices(
      2,
      [](DeviceProgram& program) {
        DeviceTensor<float> one(100000);
        DeviceTensor<float> other(100000);
        Status status;
        for (int step = 0; step < 6 && status.is_ok(); ++step) {
          if (step == 1) fake_gpu::limit_memory(fake_gpu::allocated_bytes() + 1000);
          std::vector<std::shared_ptr<Operation>> operations;
          for (DeviceTensor<float>* tensor : {&one, &other}) {
            const auto operation =
                device_operation(OpKind::kAllreduce, tensor == &one ? "one" : "other", *tensor);
            operation->descriptor.device = DeviceKind::kCuda;
            operation->on_device = std::make_unique<OperationOnDevice>();
            ASSERT_TRUE(program.device().record(nullptr, operation->on_device->ready).is_ok());
            status = program.engine().submit(operation);
            if (status.is_ok()) operations.push_back(operation);
          }
          for (const auto& operation : operations) {
            const Status one_status = program.engine().wait(operation, std::chrono::seconds(20));
            if (status.is_ok()) status = one_status;
          }
        }
        EXPECT_FALSE(status.is_ok());
        EXPECT_THAT(status.message(), HasSubstr("ncclMemAlloc"));
        EXPECT_THAT(status.message(), HasSubstr("KOLO_CUDA_FUSION_THRESHOLD"));
      },
      options);
  fake_gpu::limit_memory(std::size_t{1} << 36);
}

// As a driver does that does not give the handles NCCL asks for.
TEST(DeviceLosses, MemoryThatNcclCannotHaveIsPlain) {
  const std::size_t before = fake_gpu::allocated_bytes();
  fake_gpu::refuse_nccl_memory(true);
  on_all_devices(2, [](DeviceProgram& program) {
    std::array<DeviceTensor<float>, 2> tensors = {DeviceTensor<float>(1000),
                                                  DeviceTensor<float>(1000)};
    for (int step = 0; step < 4; ++step) {
      std::vector<std::shared_ptr<Operation>> operations;
      for (std::size_t i = 0; i < 2; ++i) {
        tensors[i].fill_late(program, std::vector<float>(1000, static_cast<float>(i + 1)));
        operations.push_back(program.submit(
            device_operation(OpKind::kAllreduce, "g" + std::to_string(i), tensors[i])));
      }
      for (const auto& operation : operations) ASSERT_TRUE(program.wait(operation).is_ok());
      for (std::size_t i = 0; i < 2; ++i) {
        const auto values = tensors[i].read(program);
        program.put([values, i] { EXPECT_THAT(*values, Each(static_cast<float>(2 * i + 2))); });
      }
    }
    program.synchronize();
  });
  fake_gpu::refuse_nccl_memory(false);
  EXPECT_EQ(fake_gpu::allocated_bytes(), before);
}

// LibTorch, which keeps what tensors gave back, gives it up for a bucket.
TEST(DeviceLosses, MemoryThatOthersKeepIsAskedFor) {
  DeviceSetting setting;
  std::atomic<int> asked{0};
  setting.change = [&asked](nccl::Options& options) {
    options.free_kept = [&asked] {
      ++asked;
      fake_gpu::limit_memory(std::size_t{1} << 36);
    };
  };
  on_all_devices(
      2,
      [](DeviceProgram& program) {
        DeviceTensor<float> one(100000);
        DeviceTensor<float> other(100000);
        for (int step = 0; step < 6; ++step) {
          if (step == 1) fake_gpu::limit_memory(fake_gpu::allocated_bytes() + 1000);
          std::vector<std::shared_ptr<Operation>> operations;
          operations.push_back(program.submit(device_operation(OpKind::kAllreduce, "one", one)));
          operations.push_back(
              program.submit(device_operation(OpKind::kAllreduce, "other", other)));
          for (const auto& operation : operations) ASSERT_TRUE(program.wait(operation).is_ok());
        }
      },
      test_options(), setting);
  EXPECT_GE(asked, 1);
  fake_gpu::limit_memory(std::size_t{1} << 36);
}

}  // namespace
}  // namespace kolo
