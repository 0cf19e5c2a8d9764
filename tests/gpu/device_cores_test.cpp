// Where a device computes, the program's threads leave cores free.
#include <gmock/gmock.h>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

// How long rank 1 takes to find out that rank 0 has submitted a tensor, too, while none of its
// threads waits for it. The program says that all cores are taken. The lower quartile of
// some times.
Clock::duration time_until_noticed(double cores_per_rank) {
  Engine::Options options = test_options();
  options.submitters_drive = true;
  options.backoff.cores_per_rank = cores_per_rank;
  std::vector<Clock::duration> times;
  std::atomic<Clock::time_point> submitted{};
  on_all_devices(
      2,
      [&](DeviceProgram& program) {
        DeviceTensor<float> tensor(10);
        for (int i = 0; i < 41; ++i) {
          auto operation = device_operation(OpKind::kAllreduce, "x", tensor);
          if (program.rank() == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            submitted = Clock::now();
          }
          program.submit(operation);
          while (program.rank() == 1 && !operation->done())
            std::this_thread::sleep_for(std::chrono::microseconds(20));
          if (program.rank() == 1) times.push_back(Clock::now() - submitted.load());
          ASSERT_TRUE(program.wait(operation).is_ok());
        }
        program.synchronize();
      },
      options);
  std::nth_element(times.begin(), times.begin() + times.size() / 4, times.end());
  return times[times.size() / 4];
}

TEST(DeviceCores, AreForTheEnginesThread) {
  if (!is_nccl_alone()) GTEST_SKIP() << "it does not depend on who carries operations out";
  // Other processes may take the cores meanwhile.
  bool is_sooner = false;
  for (int attempt = 0; attempt < 3 && !is_sooner; ++attempt)
    is_sooner = time_until_noticed(2) * 2 < time_until_noticed(1);
  EXPECT_TRUE(is_sooner);
}

}  // namespace
}  // namespace kolo
