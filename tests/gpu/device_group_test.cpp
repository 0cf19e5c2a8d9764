// Operations on several tensors of a device.
#include <gmock/gmock.h>

#include <numeric>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;

TEST(DeviceGroups, AGroupOfTensors) {
  on_all_devices(3, [](DeviceProgram& program) {
    DeviceTensor<float> first(10);
    DeviceTensor<float> second(70000);
    for (int step = 0; step < 3; ++step) {
      first.fill_late(program, std::vector<float>(first.size(), 1));
      second.fill_late(program, std::vector<float>(second.size(), 2));
      auto operation = device_operation(OpKind::kAllreduce, "group", first);
      operation->descriptor.tensors.push_back({DType::kFloat32, {70000}});
      operation->tensors.push_back({second.data(), 0});
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
      const auto of_first = first.read(program);
      const auto of_second = second.read(program);
      program.put([of_first, of_second] {
        EXPECT_THAT(*of_first, Each(3.0F));
        EXPECT_THAT(*of_second, Each(6.0F));
      });
    }
    program.synchronize();
  });
}

// As a net that is moved to the device between two steps: tensors of the host had places in a
// bucket.
TEST(DeviceGroups, TensorsThatMoveToTheDevice) {
  on_all_devices(2, [](DeviceProgram& program) {
    std::vector<float> on_host[3] = {std::vector<float>(10), std::vector<float>(20),
                                     std::vector<float>(30)};
    for (int step = 0; step < 5; ++step) {
      std::vector<std::shared_ptr<Operation>> operations;
      for (std::vector<float>& tensor : on_host) {
        std::fill(tensor.begin(), tensor.end(), 1);
        operations.push_back(allreduce("g" + std::to_string(tensor.size()), tensor));
        ASSERT_TRUE(program.engine().submit(operations.back()).is_ok());
      }
      for (const auto& operation : operations) ASSERT_TRUE(program.wait(operation).is_ok());
      for (const std::vector<float>& tensor : on_host) EXPECT_THAT(tensor, Each(2.0F));
    }
    for (const std::vector<float>& tensor : on_host) {
      DeviceTensor<float> moved(tensor.size());
      moved.fill_late(program, std::vector<float>(tensor.size(), 2));
      ASSERT_TRUE(program
                      .wait(program.submit(device_operation(
                          OpKind::kAllreduce, "g" + std::to_string(tensor.size()), moved)))
                      .is_ok());
      const auto values = moved.read(program);
      program.put([values] { EXPECT_THAT(*values, Each(4.0F)); });
    }
    program.synchronize();
  });
}

TEST(DeviceGroups, AGroupOfManyTypesIsOneLaunch) {
  const std::size_t launches = launches_of(3, [](DeviceProgram& program) {
    DeviceTensor<float> first(10);
    DeviceTensor<std::int16_t> second(3000);
    DeviceTensor<double> third(50000);
    first.fill_late(program, std::vector<float>(first.size(), 1));
    second.fill_late(program, std::vector<std::int16_t>(second.size(), 20000));
    third.fill_late(program, std::vector<double>(third.size(), 2));
    auto operation = device_operation(OpKind::kAllreduce, "group", first);
    operation->descriptor.tensors.push_back({DType::kInt16, {3000}});
    operation->descriptor.tensors.push_back({DType::kFloat64, {50000}});
    operation->descriptor.prescale = 2;
    operation->tensors.push_back({second.data(), 0});
    operation->tensors.push_back({third.data(), 0});
    ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
    const auto of_first = first.read(program);
    const auto of_second = second.read(program);
    const auto of_third = third.read(program);
    program.put([of_first, of_second, of_third] {
      EXPECT_THAT(*of_first, Each(6.0F));
      EXPECT_THAT(*of_second, Each(static_cast<std::int16_t>(3 * 32767)));
      EXPECT_THAT(*of_third, Each(12.0));
    });
    program.synchronize();
  });
  if (is_nccl_alone()) {
    EXPECT_EQ(launches, 3);
  }
}

TEST(DeviceGroups, GroupsOfGathersAndReducescattersAreOneLaunch) {
  const std::size_t launches = launches_of(3, [](DeviceProgram& program) {
    const auto own = static_cast<std::size_t>(program.rank());
    DeviceTensor<std::int32_t> first(2);
    DeviceTensor<std::int32_t> second(own * 4);  // rank 0 has none
    first.fill_late(program, {program.rank(), program.rank()});
    second.fill_late(program, std::vector<std::int32_t>(own * 4, 10 + program.rank()));
    const auto results =
        std::make_shared<std::vector<std::unique_ptr<DeviceTensor<std::int32_t>>>>(2);
    auto gathers = gather(OpKind::kAllgather, "gathers", first).operation;
    gathers->descriptor.tensors.push_back({DType::kInt32, {4}});
    gathers->tensors.push_back({second.data(), program.rank()});
    gathers->make_result = [results](std::size_t index, const std::vector<std::int64_t>& rows) {
      const auto all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
      results->at(index) = std::make_unique<DeviceTensor<std::int32_t>>(
          static_cast<std::size_t>(all) * (index == 0 ? 2 : 4));
      return static_cast<void*>(results->at(index)->data());
    };
    ASSERT_TRUE(program.wait(program.submit(gathers)).is_ok());
    const auto of_first = results->at(0)->read(program);
    const auto of_second = results->at(1)->read(program);
    program.put([of_first, of_second, results] {
      EXPECT_THAT(*of_first, ::testing::ElementsAre(0, 0, 1, 1, 2, 2));
      std::vector<std::int32_t> wanted(4, 11);
      wanted.insert(wanted.end(), 8, 12);
      EXPECT_EQ(*of_second, wanted);
    });

    DeviceTensor<float> even(6);
    DeviceTensor<float> odd(7);
    even.fill_late(program, std::vector<float>(6, 1));
    odd.fill_late(program, std::vector<float>(7, 2));
    auto scatters = device_operation(OpKind::kReducescatter, "scatters", even);
    scatters->descriptor.tensors.push_back({DType::kFloat32, {7}});
    scatters->tensors.push_back({odd.data(), 0});
    ASSERT_TRUE(program.wait(program.submit(scatters)).is_ok());
    const auto of_even = even.read(program);
    const auto of_odd = odd.read(program);
    program.put([of_even, of_odd, own] {
      EXPECT_EQ(of_even->at(own * 2), 3.0F);
      EXPECT_EQ(of_odd->at(own == 0 ? 0 : own * 2 + 1), 6.0F);
    });
    program.synchronize();
  });
  EXPECT_EQ(launches, device_options(0).over_host.empty() ? 6 : 0);
}

// Over the host the tensors of a group go one after the other, through memory that is used again:
// what the device has still to copy from there must not be overwritten.
TEST(DeviceGroups, ABroadcastGroupToADeviceThatIsBusy) {
  constexpr int kRounds = 5;
  on_all_devices(2, [](DeviceProgram& program) {
    std::vector<DeviceTensor<std::int32_t>> tensors;
    for (int i = 0; i < 4; ++i) tensors.emplace_back(3000);
    for (int round = 0; round < kRounds; ++round) {
      for (std::int32_t i = 0; i < 4; ++i) {
        const std::int32_t value = program.rank() == 0 ? 10 * round + i : -1;
        tensors[static_cast<std::size_t>(i)].fill_late(program,
                                                       std::vector<std::int32_t>(3000, value));
      }
      auto operation = device_operation(OpKind::kBroadcast, "group", tensors[0]);
      for (int i = 1; i < 4; ++i) {
        operation->descriptor.tensors.push_back({DType::kInt32, {3000}});
        operation->tensors.push_back({tensors[static_cast<std::size_t>(i)].data(), 0});
      }
      if (program.rank() == 1) {
        const auto may_go_on = program.block();
        program.later([may_go_on] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          *may_go_on = true;
        });
      }
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
      for (std::int32_t i = 0; i < 4; ++i) {
        const auto values = tensors[static_cast<std::size_t>(i)].read(program);
        program.put([values, wanted = 10 * round + i] { EXPECT_THAT(*values, Each(wanted)); });
      }
    }
    program.synchronize();
  });
}

// Where the host carries out all else, NCCL is needed within nodes only.
TEST(DeviceGroups, InStagesNcclConnectsNoNodes) {
  if (!device_options(0).hierarchical_allreduce || ranks_per_node() != 2)
    GTEST_SKIP() << "an allreduce is not in stages here, or nodes have one rank";
  fake_gpu::forget_communicators();
  DeviceSetting setting;
  setting.change = [](nccl::Options& options) {
    options.over_host = {OpKind::kBroadcast, OpKind::kAllgather, OpKind::kAlltoall,
                         OpKind::kReducescatter, OpKind::kSend};
  };
  on_all_devices(
      4,
      [](DeviceProgram& program) {
        DeviceTensor<float> tensor(1000);
        tensor.fill_late(program, std::vector<float>(1000, 1));
        ASSERT_TRUE(program.wait(program.submit(device_operation(OpKind::kAllreduce, "x", tensor)))
                        .is_ok());
        const auto values = tensor.read(program);
        program.put([values] { EXPECT_THAT(*values, Each(4.0F)); });
        program.synchronize();
      },
      test_options(), setting);
  EXPECT_EQ(fake_gpu::largest_communicator(), 2);
}

}  // namespace
}  // namespace kolo
