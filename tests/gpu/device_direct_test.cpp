// Collectives that the host carries out over a transport that takes device memory.
#include <gmock/gmock.h>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;

// Four ranks, on nodes of as many as the environment says.
void directly(const RankDeviceProgram& program) {
  DeviceSetting setting;
  setting.takes_device_memory = true;
  setting.change = [](nccl::Options& options) {
    options.hierarchical_allreduce = false;
    options.over_host = all_operations();
  };
  on_all_devices(4, program, test_options(), setting);
}

std::shared_ptr<Operation> broadcast_from_0(const DeviceTensor<float>& tensor) {
  return device_operation(OpKind::kBroadcast, "broadcast", tensor);
}

// What reads and writes values that are not there yet finds garbage.
TEST(DeviceDirect, ValuesAreMovedWhereTheyLie) {
  const auto made_before = fake_gpu::pinned_allocations();
  DeviceTransport::from_device() = 0;
  directly([](DeviceProgram& program) {
    DeviceTensor<float> tensor(70001);
    for (int step = 1; step < 4; ++step) {
      tensor.fill_late(program, std::vector<float>(tensor.size(), program.rank() + step));
      ASSERT_TRUE(program.wait(program.submit(broadcast_from_0(tensor))).is_ok());
      const auto values = tensor.read(program);
      program.put([values, step] { EXPECT_THAT(*values, Each(static_cast<float>(step))); });
    }
    DeviceTensor<std::int32_t> rows(2 * 4000);
    rows.fill_late(program, std::vector<std::int32_t>(rows.size(), program.rank()));
    const DeviceGather all = gather(OpKind::kAllgather, "all", rows);
    ASSERT_TRUE(program.wait(program.submit(all.operation)).is_ok());
    const DeviceGather exchanged = gather(OpKind::kAlltoall, "a2a", rows);
    exchanged.operation->splits = {1000, 1000, 1000, 1000};
    ASSERT_TRUE(program.wait(program.submit(exchanged.operation)).is_ok());
    for (const auto& [result, each] : {std::pair{all.result, 8000}, {exchanged.result, 2000}}) {
      const auto values = (*result)->read(program);
      program.put([values, each = each, keep = result] {
        for (std::size_t i = 0; i < values->size(); ++i)
          ASSERT_EQ(values->at(i), static_cast<int>(i) / each);
      });
    }
    program.synchronize();
  });
  EXPECT_GT(DeviceTransport::from_device(), 0);
  EXPECT_EQ(fake_gpu::pinned_allocations(), made_before);
}

// The host reduces in its own memory, in which device pointers would be read.
TEST(DeviceDirect, ReductionsGoThroughPinnedMemory) {
  const auto made_before = fake_gpu::pinned_allocations();
  DeviceTransport::from_device() = 0;
  directly([](DeviceProgram& program) {
    DeviceTensor<float> tensor(40000);
    tensor.fill_late(program, std::vector<float>(tensor.size(), 2));
    ASSERT_TRUE(
        program.wait(program.submit(device_operation(OpKind::kAllreduce, "x", tensor))).is_ok());
    const auto sums = tensor.read(program);
    program.put([sums] { EXPECT_THAT(*sums, Each(8.0F)); });
    auto scattered = device_operation(OpKind::kReducescatter, "rs", tensor);
    ASSERT_TRUE(program.wait(program.submit(scattered)).is_ok());
    const auto values = tensor.read(program);
    program.put([values, begin = 10000 * program.rank()] {
      for (int i = begin; i < begin + 10000; ++i)
        ASSERT_EQ(values->at(static_cast<std::size_t>(i)), 32.0F);
    });
    program.synchronize();
  });
  EXPECT_EQ(DeviceTransport::from_device(), 0);
  EXPECT_GT(fake_gpu::pinned_allocations(), made_before);
}

}  // namespace
}  // namespace kolo
