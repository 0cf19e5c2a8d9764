// What kolo does on a device while the program captures a graph.
#include <gmock/gmock.h>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;

TEST(DeviceCapture, ACapturedStreamIsRefused) {
  std::shared_ptr<Device> device;
  ASSERT_TRUE(nccl::make_device(0, {}, device).is_ok());
  fake_gpu::capture(true);
  std::shared_ptr<DevicePoint> point;
  const Status status = device->record(nullptr, point);
  fake_gpu::capture(false);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no_sync()"));
}

// What was enqueued before goes on while the program captures, and does not look at streams in a
// way that would break the capture.
TEST(DeviceCapture, ACaptureBesideWhatIsUnderWay) {
  std::atomic<int> enqueued{0};
  on_all_devices(2, [&enqueued](DeviceProgram& program) {
    DeviceTensor<float> tensor(10);
    const auto may_go_on = program.block();
    const auto operation = program.submit(device_operation(OpKind::kBroadcast, "x", tensor));
    if (device_options(0).over_host.empty()) {
      ASSERT_TRUE(program.wait(operation).is_ok());
      ++enqueued;
      while (enqueued < 2) std::this_thread::yield();
      fake_gpu::capture(true);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    *may_go_on = true;
    std::vector<float> on_host(4, 1);
    EXPECT_TRUE(submit_and_wait(program.engine(), allreduce("y", on_host)).is_ok());
    EXPECT_TRUE(program.engine().shut_down());
  });
  fake_gpu::capture(false);
}

}  // namespace
}  // namespace kolo
