// Where the program's threads and the engine's are on devices: CUDA's calls are about the current
// one.
#include <gmock/gmock.h>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;

// The default stream is null for all devices: that of the current one, which need not be the
// rank's.
TEST(DeviceContexts, TheDefaultStreamIsThatOfTheRanksDevice) {
  on_all_devices(2, [](DeviceProgram& program) {
    const int own = program.device().index();
    ASSERT_EQ(cudaSetDevice(1 - own), cudaSuccess);
    DeviceTensor<float> tensor(10);
    for (int step = 0; step < 3; ++step) {
      fake_gpu::enqueue(fake_gpu::default_stream(own), [memory = tensor.memory()] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::fill_n(fake_gpu::on_host(memory.get()), 10, 1.0F);
      });
      const auto operation =
          program.submit(device_operation(OpKind::kAllreduce, "x", tensor), nullptr);
      ASSERT_TRUE(program.engine().wait(operation, std::chrono::seconds(30)).is_ok());
      if (operation->results() != nullptr) {
        ASSERT_TRUE(program.device().wait(nullptr, *operation->results()).is_ok());
      }
      auto values = std::make_shared<std::vector<float>>(10);
      fake_gpu::enqueue(fake_gpu::default_stream(own), [memory = tensor.memory(), values] {
        std::copy_n(fake_gpu::on_host(memory.get()), 10, values->begin());
      });
      fake_gpu::drain(fake_gpu::default_stream(own));
      EXPECT_THAT(*values, Each(2.0F));
      int now = -1;
      EXPECT_EQ(cudaGetDevice(&now), cudaSuccess);
      EXPECT_EQ(now, 1 - own) << "the program's choice has changed";
    }
  });
}

// A context takes some hundred MiB of a device's memory: with eight ranks on a node, all would be
// on the first one.
TEST(DeviceContexts, NoneIsMadeOnOtherDevices) {
  fake_gpu::forget_contexts();
  DeviceSetting setting;
  setting.first_device = 2;
  on_all_devices(
      2,
      [](DeviceProgram& program) {
        DeviceTensor<float> tensor(100);
        for (int step = 0; step < 5; ++step) {
          tensor.fill_late(program, std::vector<float>(100, 1));
          ASSERT_TRUE(
              program.wait(program.submit(device_operation(OpKind::kAllreduce, "x", tensor)))
                  .is_ok());
          std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the engine's thread drives
        }
        // Threads that have used no device before: who waits for something on the host may be the
        // one that starts what is on the device.
        for (int i = 0; i < 20; ++i) {
          const auto operation = program.submit(device_operation(OpKind::kAllreduce, "x", tensor));
          std::thread waiter([&program] {
            std::vector<float> on_host(4, 1);
            EXPECT_TRUE(submit_and_wait(program.engine(), allreduce("host", on_host)).is_ok());
          });
          waiter.join();
          ASSERT_TRUE(program.wait(operation).is_ok());
        }
        program.later([&program] {
          DeviceTensor<float> other(100);
          const auto operation =
              program.submit(device_operation(OpKind::kAllreduce, "other", other));
          EXPECT_TRUE(program.wait(operation).is_ok());
        });
      },
      test_options(), setting);
  EXPECT_TRUE(fake_gpu::has_context(2));
  EXPECT_TRUE(fake_gpu::has_context(3));
  EXPECT_FALSE(fake_gpu::has_context(0));
  EXPECT_FALSE(fake_gpu::has_context(1));
}

// With them NCCL would block, or end, in spite of what kolo asks for.
TEST(DeviceContexts, SomeOfTheEnvironmentIsNotHeeded) {
  for (const char* const name : {"NCCL_COMM_BLOCKING", "NCCL_LAUNCH_ORDER_IMPLICIT"}) {
    setenv(name, "1", 1);
    std::shared_ptr<Device> device;
    ASSERT_TRUE(nccl::make_device(0, device_options(0), device).is_ok());
    EXPECT_EQ(std::getenv(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace kolo
