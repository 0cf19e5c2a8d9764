// How communicators end, for which NCCL waits for other ranks.
#include <gmock/gmock.h>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;

// As long as it lives, other ranks do not come to the ends of communicators.
struct HeldEnds {
  HeldEnds() { fake_gpu::hold_ends(true); }
  ~HeldEnds() { fake_gpu::hold_ends(false); }
};

Status change_sets(Engine& engine, OpKind kind, std::vector<std::int64_t> shape) {
  auto operation = plain(kind, name_of(kind));
  operation->descriptor.tensors = {{DType::kInt64, std::move(shape)}};
  operation->tensors.emplace_back();
  return submit_and_wait(engine, operation);
}

Status reduce(DeviceProgram& program, DeviceTensor<float>& tensor, int process_set) {
  tensor.fill_late(program, std::vector<float>(tensor.size(), 1));
  auto operation = device_operation(OpKind::kAllreduce, "in" + std::to_string(process_set), tensor);
  operation->process_set = process_set;
  return program.wait(program.submit(operation));
}

// Two ranks may come to the ends of two sets in different order.
TEST(DeviceEnds, ASetThatEndsHoldsNobodyUp) {
  if (!is_nccl_alone()) GTEST_SKIP() << "it is NCCL's end";
  std::optional<HeldEnds> held(std::in_place);
  on_all_devices(2, [&held](DeviceProgram& program) {
    DeviceTensor<float> tensor(1000);
    ASSERT_TRUE(change_sets(program.engine(), OpKind::kAddProcessSet, {0, 1}).is_ok());
    for (const int set : {0, 1}) ASSERT_TRUE(reduce(program, tensor, set).is_ok());
    ASSERT_TRUE(change_sets(program.engine(), OpKind::kRemoveProcessSet, {1}).is_ok());
    ASSERT_TRUE(reduce(program, tensor, 0).is_ok());
    const auto values = tensor.read(program);
    program.put([values] { EXPECT_THAT(*values, Each(2.0F)); });
    program.synchronize();
    std::vector<float> all_are_here(1, 0);
    ASSERT_TRUE(submit_and_wait(program.engine(), allreduce("all", all_are_here)).is_ok());
    if (program.rank() == 0) held.reset();
  });
}

TEST(DeviceEnds, AnEndThatNeverComesIsWaitedForSomeSeconds) {
  if (!is_nccl_alone()) GTEST_SKIP() << "it is NCCL's end";
  const HeldEnds held;
  on_all_devices(2, [](DeviceProgram& program) {
    DeviceTensor<float> tensor(1000);
    ASSERT_TRUE(reduce(program, tensor, 0).is_ok());
    const Clock::time_point begin = Clock::now();
    EXPECT_TRUE(program.engine().shut_down());
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  });
}

}  // namespace
}  // namespace kolo
