// Tensors that travel in another dtype than the program has them in.
#include <gmock/gmock.h>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;

// A gradient and the room in which it travels.
template <typename Wide>
struct CastTensor {
  explicit CastTensor(std::size_t count) : values(count), place(count) {}
  std::shared_ptr<Operation> operation(const std::string& name, ReduceOp op = ReduceOp::Sum) const {
    return cast_operation(name, place, values, op);
  }

  DeviceTensor<Wide> values;
  DeviceTensor<Bfloat16> place;
};

void expect_later(DeviceProgram& program, DeviceTensor<Bfloat16>& tensor, float wanted) {
  program.put([values = tensor.read(program), wanted] {
    for (const Bfloat16 value : *values) EXPECT_EQ(to_float(value), wanted);
  });
}
template <typename T>
void expect_later(DeviceProgram& program, DeviceTensor<T>& tensor, float wanted) {
  program.put([values = tensor.read(program), wanted] {
    EXPECT_THAT(*values, Each(static_cast<T>(wanted)));
  });
}

// Alone at first, then in one bucket with a tensor that lies in that dtype; one rank has no values
// of one of them, one has them as they travel, and from some step on nobody has any of another.
TEST(DeviceCasts, StepsOfGradients) {
  for (const int size : {2, 3}) {
    on_all_devices(size, [](DeviceProgram& program) {
      CastTensor<float> single(1001);
      CastTensor<double> twice(40);
      DeviceTensor<Bfloat16> as_it_is(10);
      CastTensor<float> seldom(7);
      CastTensor<float> of_others(5);
      CastTensor<float> no_longer(11);
      const bool is_last = program.rank() == program.size() - 1;
      for (int step = 0; step < 6; ++step) {
        const auto mine = static_cast<float>(program.rank() + step);
        single.values.fill_late(program, std::vector<float>(1001, mine));
        twice.values.fill_late(program, std::vector<double>(40, mine));
        as_it_is.fill_late(program, std::vector<Bfloat16>(10, to_bfloat16(mine)));
        seldom.values.fill_late(program, std::vector<float>(7, -1));
        of_others.values.fill_late(program, std::vector<float>(5, mine));
        no_longer.values.fill_late(program, std::vector<float>(11, 0.1F));
        of_others.place.fill_late(program, std::vector<Bfloat16>(5, to_bfloat16(mine)));
        std::vector<std::shared_ptr<Operation>> operations = {
            single.operation("single"),
            twice.operation("twice"),
            device_operation(OpKind::kAllreduce, "as it is", as_it_is),
            seldom.operation("seldom"),
            is_last ? device_operation(OpKind::kAllreduce, "of others", of_others.place)
                    : of_others.operation("of others"),
            no_longer.operation("no longer")};
        operations[3]->absent = is_last;
        operations[5]->absent = step > 3;
        for (const auto& operation : operations) program.submit(operation);
        for (const auto& operation : operations) ASSERT_TRUE(program.wait(operation).is_ok());
        float sum = 0;
        for (int rank = 0; rank < program.size(); ++rank) sum += static_cast<float>(rank + step);
        expect_later(program, single.values, sum);
        expect_later(program, twice.values, sum);
        expect_later(program, as_it_is, sum);
        expect_later(program, seldom.values, static_cast<float>(1 - program.size()));
        if (step > 3) expect_later(program, no_longer.values, 0.1F);
        if (is_last) {
          expect_later(program, of_others.place, sum);
        } else {
          expect_later(program, of_others.values, sum);
        }
      }
      program.synchronize();
    });
  }
}

TEST(DeviceCasts, WhatNobodyHasIsNotTouched) {
  on_all_devices(2, [](DeviceProgram& program) {
    CastTensor<float> tensor(9);
    tensor.values.fill_late(program, std::vector<float>(9, 0.1F));
    const auto operation = tensor.operation("nobody's");
    operation->absent = true;
    ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
    EXPECT_TRUE(operation->absent_everywhere());
    expect_later(program, tensor.values, 0.1F);
    program.synchronize();
  });
}

TEST(DeviceCasts, SomeTensorsOfAGroup) {
  on_all_devices(3, [](DeviceProgram& program) {
    CastTensor<float> first(300);
    DeviceTensor<std::int32_t> second(20);
    CastTensor<double> third(50000);
    for (int step = 0; step < 2; ++step) {
      first.values.fill_late(program, std::vector<float>(300, 1));
      second.fill_late(program, std::vector<std::int32_t>(20, 2));
      third.values.fill_late(program, std::vector<double>(50000, 4));
      const auto operation = first.operation("group");
      operation->descriptor.tensors.push_back({DType::kInt32, {20}});
      operation->descriptor.tensors.push_back({DType::kBfloat16, {50000}});
      operation->tensors.push_back({second.data(), 0});
      operation->tensors.push_back({third.place.data(), 0});
      operation->on_device->outside.push_back({});
      operation->on_device->outside.push_back(
          {reinterpret_cast<std::byte*>(third.values.data()), DType::kFloat64});
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
      expect_later(program, first.values, 3);
      expect_later(program, second, 6);
      expect_later(program, third.values, 12);
    }
    program.synchronize();
  });
}

// NCCL adds what was divided before it was rounded: more than float16 has becomes a number in it.
TEST(DeviceCasts, AnAverageIsRoundedWhenItHasBeenDivided) {
  if (!is_nccl_alone()) GTEST_SKIP() << "the host divides what has travelled";
  on_all_devices(2, [](DeviceProgram& program) {
    DeviceTensor<float> values(16);
    DeviceTensor<Float16> place(16);
    values.fill_late(program, std::vector<float>(16, program.rank() == 0 ? 1e5F : 0));
    ASSERT_TRUE(
        program.wait(program.submit(cast_operation("large", place, values, ReduceOp::Average)))
            .is_ok());
    expect_later(program, values, to_float(to_float16(5e4F)));
    program.synchronize();
  });
}

}  // namespace
}  // namespace kolo
