// Collectives of tensors on a device through the whole engine.
#include <gmock/gmock.h>

#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> counted(std::size_t count, int rank) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(i % 7 + static_cast<std::size_t>(rank));
  return values;
}

template <typename T>
std::vector<T> counted_sum(std::size_t count, int size) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (int rank = 0; rank < size; ++rank)
      values[i] = static_cast<T>(values[i] + static_cast<T>(i % 7) + static_cast<T>(rank));
  }
  return values;
}

template <typename T>
class DeviceReductions : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::int16_t, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(DeviceReductions, Types);

TYPED_TEST(DeviceReductions, SumWaitsForLateValuesAndTheReaderForTheSum) {
  for (const int size : {1, 2, 3, 4}) {
    on_all_devices(size, [](DeviceProgram& program) {
      for (const std::size_t count : {0, 1, 1000, 40000}) {
        DeviceTensor<TypeParam> tensor(count);
        for (int repeat = 0; repeat < 2; ++repeat) {
          tensor.fill_late(program, counted<TypeParam>(count, program.rank()));
          const auto operation = program.submit(
              device_operation(OpKind::kAllreduce, "sum" + std::to_string(count), tensor));
          ASSERT_TRUE(program.wait(operation).is_ok()) << operation->status().message();
          const auto values = tensor.read(program);
          program.put([values, size = program.size(), count] {
            EXPECT_EQ(*values, counted_sum<TypeParam>(count, size));
          });
        }
      }
    });
  }
}

// The engine only adds integers up to average them; see torch_ops/ops/integers.hpp.
TYPED_TEST(DeviceReductions, AveragesAndScales) {
  on_all_devices(3, [](DeviceProgram& program) {
    for (const ReduceOp op : {ReduceOp::Average, ReduceOp::Sum}) {
      DeviceTensor<TypeParam> tensor(100);
      tensor.fill_late(program,
                       std::vector<TypeParam>(100, static_cast<TypeParam>(program.rank() + 1)));
      auto operation = device_operation(OpKind::kAllreduce, name_of(op), tensor, op);
      operation->descriptor.prescale = 3;
      operation->descriptor.postscale = 2;
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
      const auto values = tensor.read(program);
      int wanted = 36;
      if (op == ReduceOp::Average) wanted = std::is_integral_v<TypeParam> ? 6 : 12;
      program.put([values, wanted] { EXPECT_THAT(*values, Each(static_cast<TypeParam>(wanted))); });
    }
  });
}

TYPED_TEST(DeviceReductions, MinMaxAndProduct) {
  on_all_devices(3, [](DeviceProgram& program) {
    const std::pair<ReduceOp, int> all[] = {
        {ReduceOp::Min, 2}, {ReduceOp::Max, 4}, {ReduceOp::Product, 24}};
    for (const auto& [op, wanted] : all) {
      DeviceTensor<TypeParam> tensor(33);
      tensor.fill_late(program,
                       std::vector<TypeParam>(33, static_cast<TypeParam>(program.rank() + 2)));
      auto operation = device_operation(OpKind::kAllreduce, name_of(op), tensor, op);
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
      const auto values = tensor.read(program);
      program.put([values, wanted = wanted] {
        EXPECT_THAT(*values, Each(static_cast<TypeParam>(wanted)));
      });
    }
  });
}

// As gradients: by name in the first step, by number in the second, in buckets from the third on.
// The program overwrites them as soon as its stream has read them.
TEST(DeviceEngine, StepsOfManyTensors) {
  for (const int size : {1, 2, 4}) {
    on_all_devices(size, [](DeviceProgram& program) {
      constexpr std::size_t kTensors = 20;
      std::vector<std::unique_ptr<DeviceTensor<float>>> tensors;
      for (std::size_t i = 0; i < kTensors; ++i)
        tensors.push_back(std::make_unique<DeviceTensor<float>>(i * i * 10 + 1));
      for (int step = 0; step < 8; ++step) {
        std::vector<std::shared_ptr<Operation>> operations;
        for (std::size_t i = 0; i < kTensors; ++i) {
          tensors[i]->fill_late(
              program,
              std::vector<float>(tensors[i]->size(), static_cast<float>(step + program.rank())));
          operations.push_back(program.submit(
              device_operation(OpKind::kAllreduce, "g" + std::to_string(i), *tensors[i])));
        }
        for (const auto& operation : operations) ASSERT_TRUE(program.wait(operation).is_ok());
        for (const auto& tensor : tensors) {
          const auto values = tensor->read(program);
          program.put([values, step, size = program.size()] {
            EXPECT_THAT(*values, Each(static_cast<float>(step * size + size * (size - 1) / 2)));
          });
        }
      }
    });
  }
}

TEST(DeviceEngine, TensorsOnTheHostAndOnTheDeviceAtOnce) {
  on_all_devices(3, [](DeviceProgram& program) {
    std::vector<std::vector<float>> on_host(6, std::vector<float>(5000, 1));
    DeviceTensor<float> tensor(5000);
    for (int step = 0; step < 5; ++step) {
      std::vector<std::shared_ptr<Operation>> host;
      std::vector<std::shared_ptr<Operation>> device;
      for (std::size_t i = 0; i < on_host.size(); ++i) {
        std::fill(on_host[i].begin(), on_host[i].end(), 1.0F);
        host.push_back(allreduce("h" + std::to_string(i), on_host[i]));
        ASSERT_TRUE(program.engine().submit(host.back()).is_ok());
      }
      tensor.fill_late(program, std::vector<float>(5000, 2));
      const auto operation = program.submit(device_operation(OpKind::kAllreduce, "d", tensor));
      for (const auto& one : host)
        ASSERT_TRUE(program.engine().wait(one, std::chrono::seconds(30)).is_ok());
      ASSERT_TRUE(program.wait(operation).is_ok());
      const auto values = tensor.read(program);
      program.put([values] { EXPECT_THAT(*values, Each(6.0F)); });
      for (const auto& one : on_host) EXPECT_THAT(one, Each(3.0F));
    }
  });
}

// The handle's end is that all is enqueued: the host does not wait for values that come late.
TEST(DeviceEngine, TheHostDoesNotWaitForTheDevice) {
  if (!is_nccl_alone()) GTEST_SKIP() << "the host has to";
  on_all_devices(2, [](DeviceProgram& program) {
    DeviceTensor<float> tensor(10);
    // Found the others before.
    tensor.fill_late(program, std::vector<float>(10, 1));
    ASSERT_TRUE(
        program.wait(program.submit(device_operation(OpKind::kAllreduce, "a", tensor))).is_ok());
    const auto may_go_on = program.block();
    const auto operation = program.submit(device_operation(OpKind::kAllreduce, "b", tensor));
    ASSERT_TRUE(program.wait(operation).is_ok());
    const auto values = tensor.read(program);
    EXPECT_TRUE(values->empty());
    *may_go_on = true;
    program.put([values] { EXPECT_THAT(*values, Each(4.0F)); });
  });
}

// Also where nothing has to be moved the results come after the values.
TEST(DeviceEngine, ResultsOfARankAloneComeAfterItsValues) {
  on_all_devices(1, [](DeviceProgram& program) {
    DeviceTensor<float> tensor(10);
    const auto may_go_on = program.block();
    auto operation = device_operation(OpKind::kBroadcast, "alone", tensor);
    ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Status status;
    EXPECT_EQ(operation->results()->look(status), Progress::kWaiting);
    *may_go_on = true;
  });
}

TEST(DeviceEngine, BroadcastAndSend) {
  on_all_devices(3, [](DeviceProgram& program) {
    for (int root = 0; root < program.size(); ++root) {
      DeviceTensor<float> tensor(777);
      tensor.fill_late(program, std::vector<float>(777, static_cast<float>(program.rank())));
      auto operation = device_operation(OpKind::kBroadcast, "b" + std::to_string(root), tensor);
      operation->descriptor.root = root;
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
      const auto values = tensor.read(program);
      program.put([values, root] { EXPECT_THAT(*values, Each(static_cast<float>(root))); });
    }
    if (program.rank() == 1) return;
    DeviceTensor<float> tensor(99);
    tensor.fill_late(program, std::vector<float>(99, static_cast<float>(program.rank())));
    auto operation = device_operation(OpKind::kSend, "from 2 to 0", tensor);
    operation->descriptor.root = 2;
    operation->descriptor.destination = 0;
    ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
    const auto values = tensor.read(program);
    program.put([values] { EXPECT_THAT(*values, Each(2.0F)); });
  });
}

// Two pairs of ranks, before there was anything that all ranks do, and again; each rank's data come
// late.
TEST(DeviceEngine, SendsBetweenTwoRanksDoNotWaitForOthers) {
  on_all_devices(4, [](DeviceProgram& program) {
    const int source = program.rank() / 2 * 2;
    DeviceTensor<float> tensor(1000);
    const auto send = [&](int from, int to, float value) {
      const bool is_source = program.rank() == from;
      tensor.fill_late(program, std::vector<float>(1000, is_source ? value : 0));
      auto operation =
          device_operation(OpKind::kSend, std::to_string(from) + ">" + std::to_string(to), tensor);
      operation->descriptor.root = from;
      operation->descriptor.destination = to;
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
      const auto values = tensor.read(program);
      program.put([values, value] { EXPECT_THAT(*values, Each(value)); });
    };
    // Ranks 2 and 3 have made all of theirs before the others begin.
    if (source == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int step = 1; step <= 3; ++step) {
      send(source, source + 1, static_cast<float>(step + source));
      send(source + 1, source, static_cast<float>(step + 10 + source));
    }
    if (program.rank() % 3 == 0) send(0, 3, 7);
    tensor.fill_late(program, std::vector<float>(1000, 1));
    ASSERT_TRUE(
        program.wait(program.submit(device_operation(OpKind::kAllreduce, "all", tensor))).is_ok());
    const auto values = tensor.read(program);
    program.put([values] { EXPECT_THAT(*values, Each(4.0F)); });
    if (program.rank() % 3 != 0) send(1, 2, 8);
  });
}

TEST(DeviceEngine, AllgatherOfEqualAndDifferentSizes) {
  for (const int size : {1, 2, 3, 4}) {
    on_all_devices(size, [](DeviceProgram& program) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        const auto rows_of_rank = [&](int rank) {
          return repeat % 2 == 0 ? std::size_t{5} : static_cast<std::size_t>((rank + repeat) % 4);
        };
        DeviceTensor<std::int32_t> input(rows_of_rank(program.rank()) * 2);
        input.fill_late(program, std::vector<std::int32_t>(input.size(), program.rank()));
        const DeviceGather made = gather(OpKind::kAllgather, "all", input);
        ASSERT_TRUE(program.wait(program.submit(made.operation)).is_ok());
        std::vector<std::int32_t> wanted;
        for (int rank = 0; rank < program.size(); ++rank)
          wanted.insert(wanted.end(), rows_of_rank(rank) * 2, rank);
        const auto values = (*made.result)->read(program);
        program.put([values, wanted, keep = made.result] { EXPECT_EQ(*values, wanted); });
      }
    });
  }
}

TEST(DeviceEngine, Alltoall) {
  for (const int size : {1, 2, 3, 4}) {
    on_all_devices(size, [](DeviceProgram& program) {
      const auto share = [](int from, int to) { return (from * 2 + to) % 4; };
      std::vector<std::int32_t> out;
      std::vector<std::int32_t> wanted;
      std::vector<std::int64_t> splits;
      for (int peer = 0; peer < program.size(); ++peer) {
        splits.push_back(share(program.rank(), peer));
        out.insert(out.end(), static_cast<std::size_t>(splits.back()) * 2,
                   program.rank() * 10 + peer);
        wanted.insert(wanted.end(), static_cast<std::size_t>(share(peer, program.rank())) * 2,
                      peer * 10 + program.rank());
      }
      DeviceTensor<std::int32_t> input(out.size());
      for (int repeat = 0; repeat < 3; ++repeat) {
        input.fill_late(program, out);
        const DeviceGather made = gather(OpKind::kAlltoall, "a2a", input);
        made.operation->splits = splits;
        ASSERT_TRUE(program.wait(program.submit(made.operation)).is_ok());
        const auto values = (*made.result)->read(program);
        program.put([values, wanted, keep = made.result] { EXPECT_EQ(*values, wanted); });
      }
    });
  }
}

TEST(DeviceEngine, Reducescatter) {
  for (const int size : {1, 2, 3}) {
    on_all_devices(size, [](DeviceProgram& program) {
      for (const std::int64_t rows : {0, 1, 6, 7}) {
        DeviceTensor<float> tensor(static_cast<std::size_t>(rows) * 3);
        tensor.fill_late(program, std::vector<float>(tensor.size(), 2));
        auto operation = device_operation(OpKind::kReducescatter, "rs" + std::to_string(rows),
                                          tensor, ReduceOp::Average);
        operation->descriptor.tensors[0].shape = {rows, 3};
        operation->descriptor.prescale = 2;
        ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
        const auto values = tensor.read(program);
        std::int64_t begin = 0;
        for (int rank = 0; rank < program.rank(); ++rank)
          begin += rows_of(rows, rank, program.size());
        const std::int64_t end = begin + rows_of(rows, program.rank(), program.size());
        program.put([values, begin, end] {
          for (std::int64_t i = begin * 3; i < end * 3; ++i)
            EXPECT_EQ(values->at(static_cast<std::size_t>(i)), 4.0F);
        });
      }
    });
  }
}

// A rank without values gives zeros, alone and in a bucket, and one that has joined does.
TEST(DeviceEngine, AbsentAndJoinedRanks) {
  on_all_devices(3, [](DeviceProgram& program) {
    DeviceTensor<float> first(10);
    DeviceTensor<float> second(20);
    const auto tensors = {&first, &second};
    for (int step = 0; step < 5; ++step) {
      std::vector<std::shared_ptr<Operation>> operations;
      for (DeviceTensor<float>* tensor : tensors) {
        tensor->fill_late(program, std::vector<float>(tensor->size(), 1));
        auto operation =
            device_operation(OpKind::kAllreduce, "t" + std::to_string(tensor->size()), *tensor);
        operation->absent = program.rank() == step % 3;
        operations.push_back(program.submit(operation));
      }
      for (const auto& operation : operations) ASSERT_TRUE(program.wait(operation).is_ok());
      for (DeviceTensor<float>* tensor : tensors) {
        const auto values = tensor->read(program);
        program.put([values] { EXPECT_THAT(*values, Each(2.0F)); });
      }
    }
    if (program.rank() != 2) {
      first.fill_late(program, std::vector<float>(10, 1));
      ASSERT_TRUE(
          program.wait(program.submit(device_operation(OpKind::kAllreduce, "t10", first))).is_ok());
      const auto values = first.read(program);
      program.put([values] { EXPECT_THAT(*values, Each(2.0F)); });
    }
    ASSERT_TRUE(submit_and_wait(program.engine(), plain(OpKind::kJoin, "join")).is_ok());
  });
}

// CUDA lets who puts something into a full stream wait. Others go on.
TEST(DeviceEngine, AStreamThatIsFullHoldsUpWhoUsesIt) {
  on_all_devices(2, [](DeviceProgram& program) {
    cudaStream_t full = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&full, cudaStreamNonBlocking, 0), cudaSuccess);
    std::thread records;
    if (program.rank() == 0) {
      fake_gpu::fill_up(full);
      records = std::thread([&program, full] {
        std::shared_ptr<DevicePoint> point;
        EXPECT_TRUE(program.device().record(full, point).is_ok());
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // now it waits
    }
    DeviceTensor<float> tensor(1000);
    for (int i = 0; i < 3; ++i) {
      tensor.fill_late(program, std::vector<float>(1000, 1));
      const auto operation = program.submit(device_operation(OpKind::kAllreduce, "x", tensor));
      const Status status = program.wait(operation);
      EXPECT_TRUE(status.is_ok()) << status.message();
    }
    if (program.rank() == 0) {
      fake_gpu::fill_up(nullptr);
      records.join();
    }
    cudaStreamDestroy(full);
  });
}

// The end waits for the device, which still works with what operations referred to.
TEST(DeviceEngine, ShutDownWaitsForTheDevice) {
  on_all_devices(2, [](DeviceProgram& program) {
    DeviceTensor<float> tensor(10);
    const auto may_go_on = program.block();
    auto operation = device_operation(OpKind::kBroadcast, "last", tensor);
    program.submit(operation);
    std::thread later([may_go_on] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      *may_go_on = true;
    });
    EXPECT_TRUE(program.wait(operation).is_ok());
    EXPECT_TRUE(program.engine().shut_down());
    Status status;
    EXPECT_EQ(operation->results()->look(status), Progress::kDone);
    later.join();
  });
}

TEST(DeviceEngine, AMismatchOfDevicesIsAnErrorOfThatTensor) {
  on_all_devices(2, [](DeviceProgram& program) {
    DeviceTensor<float> tensor(4);
    std::vector<float> on_host(4, 1);
    std::shared_ptr<Operation> operation;
    if (program.rank() == 0) {
      operation = program.submit(device_operation(OpKind::kAllreduce, "x", tensor));
    } else {
      operation = allreduce("x", on_host);
      ASSERT_TRUE(program.engine().submit(operation).is_ok());
    }
    const Status status = program.engine().wait(operation, std::chrono::seconds(30));
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr("device: cuda on rank 0; cpu on rank 1"));
    tensor.fill_late(program, {1, 1, 1, 1});
    ASSERT_TRUE(
        program.wait(program.submit(device_operation(OpKind::kAllreduce, "y", tensor))).is_ok());
  });
}

}  // namespace
}  // namespace kolo
