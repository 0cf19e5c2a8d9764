// Tensors that go their way in pieces: over the host, and in stages.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;
using ::testing::FloatNear;

// Larger than what goes through the stages at a time, and nothing that divides it.
void tensors_of_many_chunks(DeviceProgram& program) {
  const std::size_t count = 80011;
  const int size = program.size();
  DeviceTensor<float> tensor(count);
  for (const ReduceOp op : {ReduceOp::Average, ReduceOp::Sum, ReduceOp::Max}) {
    std::vector<float> mine(count);
    for (std::size_t i = 0; i < count; ++i)
      mine[i] = static_cast<float>(i % 7) + static_cast<float>(program.rank());
    tensor.fill_late(program, mine);
    auto operation = device_operation(OpKind::kAllreduce, name_of(op), tensor, op);
    operation->descriptor.prescale = 2;
    operation->descriptor.postscale = 3;
    ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
    const auto values = tensor.read(program);
    program.put([values, op, size] {
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values->size(); ++i) {
        const auto base = static_cast<float>(i % 7);
        const auto ranks = static_cast<float>(size);
        const float sum = ranks * base + ranks * (ranks - 1) / 2;
        const float wanted = op == ReduceOp::Sum   ? sum
                             : op == ReduceOp::Max ? base + ranks - 1
                                                   : sum / ranks;
        wrong += std::abs(values->at(i) - 6 * wanted) < 1e-4F ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0U);
    });
  }
  program.synchronize();
}

TEST(DevicePieces, TensorsOfManyChunks) {
  const std::size_t launches = launches_of(4, tensors_of_many_chunks);
  // In stages each rank has two for each chunk of 128 KiB, if there is another one on its node.
  const bool has_node = device_options(0).hierarchical_allreduce && ranks_per_node() == 2;
  EXPECT_EQ(launches, is_nccl_alone() ? 3 * 4 : has_node ? 3 * 4 * 2 * 3 : 0);
}

// Nodes of three ranks and of two, which have as many slices.
TEST(DevicePieces, TensorsOfManyChunksOnUnevenNodes) {
  if (!device_options(0).hierarchical_allreduce || ranks_per_node() != 2)
    GTEST_SKIP() << "once is enough";
  setenv("KOLO_TEST_RANKS_PER_NODE", "3", 1);
  setenv("KOLO_FAKE_GPUS", "5", 1);
  on_all_devices(5, tensors_of_many_chunks);
  setenv("KOLO_TEST_RANKS_PER_NODE", "2", 1);
  unsetenv("KOLO_FAKE_GPUS");
}

// Through the host in several pieces, with Adasum whole.
TEST(DevicePieces, LargeTensors) {
  on_all_devices(2, [](DeviceProgram& program) {
    constexpr std::size_t kCount = 40'000;
    DeviceTensor<float> tensor(kCount);
    // One half is the same on both ranks, the other opposite. Adasum looks at all of it:
    // 1 - (3 * 3 - 1 * 1) / (2 * (3 * 3 + 1 * 1)) = 0.6 of the sum; a half by itself would be
    // averaged.
    std::vector<float> mine(kCount, 3);
    std::fill(mine.begin() + kCount / 2, mine.end(), program.rank() == 0 ? 1.0F : -1.0F);
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Adasum}) {
      const float wanted = op == ReduceOp::Sum ? 6.0F : 3.6F;
      tensor.fill_late(program, mine);
      ASSERT_TRUE(
          program
              .wait(program.submit(device_operation(OpKind::kAllreduce, name_of(op), tensor, op)))
              .is_ok());
      const auto values = tensor.read(program);
      program.put([values, wanted] {
        const auto half = values->begin() + kCount / 2;
        EXPECT_THAT(std::vector<float>(values->begin(), half), Each(FloatNear(wanted, 1e-4)));
        EXPECT_THAT(std::vector<float>(half, values->end()), Each(FloatNear(0, 1e-4)));
      });
    }
    // More pieces than have memory at a time, each of which differs from the others; the host gets
    // them sooner than the device copies them.
    fake_gpu::slow_copies(true);
    constexpr std::size_t kMany = 170'000;
    DeviceTensor<std::int32_t> many(kMany);
    std::vector<std::int32_t> numbers(kMany, 0);
    if (program.rank() == 1) std::iota(numbers.begin(), numbers.end(), 0);
    many.fill_late(program, numbers);
    auto operation = device_operation(OpKind::kBroadcast, "many", many);
    operation->descriptor.root = 1;
    ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
    ASSERT_TRUE(
        program.wait(program.submit(device_operation(OpKind::kAllreduce, "sum", many))).is_ok());
    const auto values = many.read(program);
    program.put([values] {
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kMany; ++i)
        wrong += values->at(i) == static_cast<std::int32_t>(2 * i) ? 0 : 1;
      EXPECT_EQ(wrong, 0);
    });
    program.synchronize();
  });
  fake_gpu::slow_copies(false);
}

}  // namespace
}  // namespace kolo
