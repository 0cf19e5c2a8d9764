// Engines of several ranks in one process, each with a device of the fake GPU.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl/nccl.hpp"
#include "collectives/reduce/half.hpp"
#include "engine/engine_fixture.hpp"
#include "engine/holding.hpp"
#include "fake_gpu/fake_gpu.hpp"

namespace kolo {

// A rank's program, as one that uses a GPU: it has a stream of its own, on which tensors get their
// values late and are read.
class DeviceProgram {
 public:
  DeviceProgram(Engine& engine, Device& device) : engine_(engine), device_(device) {
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
  }
  ~DeviceProgram() {
    for (std::thread& thread : threads_) thread.join();
    fake_gpu::drain(stream_);
    cudaStreamDestroy(stream_);
  }
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  Engine& engine() { return engine_; }
  Device& device() { return device_; }
  int rank() const { return engine_.rank(); }
  int size() const { return engine_.size(); }

  // Puts a task behind what is on the stream.
  void put(std::function<void()> task) { fake_gpu::enqueue(stream_, std::move(task)); }

  // Waits for all that is on the stream.
  void synchronize() { fake_gpu::drain(stream_); }

  // Holds the stream up until the value is true.
  std::shared_ptr<std::atomic<bool>> block() {
    auto may_go_on = std::make_shared<std::atomic<bool>>(false);
    put([may_go_on] {
      while (!*may_go_on) std::this_thread::yield();
    });
    return may_go_on;
  }

  // On a thread of its own.
  void later(std::function<void()> task) { threads_.emplace_back(std::move(task)); }

  // Submits what is on the device when the stream will have come here.
  std::shared_ptr<Operation> submit(std::shared_ptr<Operation> operation) {
    return submit(std::move(operation), stream_);
  }
  std::shared_ptr<Operation> submit(std::shared_ptr<Operation> operation, cudaStream_t stream) {
    operation->descriptor.device = DeviceKind::kCuda;
    if (operation->on_device == nullptr)
      operation->on_device = std::make_unique<OperationOnDevice>();
    const Status recorded = device_.record(stream, operation->on_device->ready);
    EXPECT_TRUE(recorded.is_ok()) << recorded.message();
    const Status status = engine_.submit(operation);
    EXPECT_TRUE(status.is_ok() || status.code() == StatusCode::kPeerLost) << status.message();
    if (!status.is_ok()) operation->complete(status, false);
    return operation;
  }

  // The stream waits for the results; this thread only until they are enqueued.
  Status wait(const std::shared_ptr<Operation>& operation) {
    const Status status = engine_.wait(operation, std::chrono::seconds(30));
    if (!status.is_ok() || operation->results() == nullptr) return status;
    return device_.wait(stream_, *operation->results());
  }

 private:
  Engine& engine_;
  Device& device_;
  cudaStream_t stream_ = nullptr;
  std::vector<std::thread> threads_;
};

// A tensor in device memory, which lives as long as it, tasks on streams and operations need it.
template <typename T>
class DeviceTensor {
 public:
  explicit DeviceTensor(std::size_t count)
      : count_(count),
        memory_(static_cast<T*>(fake_gpu::allocate(count * sizeof(T))), fake_gpu::release) {}

  T* data() const { return memory_.get(); }
  std::size_t size() const { return count_; }
  const std::shared_ptr<T>& memory() const { return memory_; }

  // On the program's stream, and late.
  void fill_late(DeviceProgram& program, std::vector<T> values) {
    program.put([memory = memory_, values = std::move(values)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::copy(values.begin(), values.end(), fake_gpu::on_host(memory.get()));
    });
  }
  // What is there when the program's stream comes here: filled by then.
  std::shared_ptr<std::vector<T>> read(DeviceProgram& program) {
    auto values = std::make_shared<std::vector<T>>();
    program.put([memory = memory_, values, count = count_] {
      const T* const begin = fake_gpu::on_host(memory.get());
      values->assign(begin, begin + count);
    });
    return values;
  }

 private:
  const std::size_t count_;
  const std::shared_ptr<T> memory_;
};

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kFloat64;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType kValue = DType::kInt16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType kValue = DType::kInt32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType kValue = DType::kInt64;
};

template <>
struct DTypeOf<Float16> {
  static constexpr DType kValue = DType::kFloat16;
};
template <>
struct DTypeOf<Bfloat16> {
  static constexpr DType kValue = DType::kBfloat16;
};

template <typename T>
std::shared_ptr<Operation> device_operation(OpKind kind, const std::string& name,
                                            const DeviceTensor<T>& tensor,
                                            ReduceOp op = ReduceOp::Sum) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  operation->descriptor.kind = kind;
  operation->descriptor.op = op;
  operation->descriptor.tensors = {
      {DTypeOf<T>::kValue, {static_cast<std::int64_t>(tensor.size())}}};
  operation->tensors = {{tensor.data(), 0}};
  operation->holder = std::make_unique<Holding<T>>(tensor.memory());
  return operation;
}

// One that takes its values from another tensor, and puts its result there.
template <typename T, typename Wide>
std::shared_ptr<Operation> cast_operation(const std::string& name, const DeviceTensor<T>& tensor,
                                          const DeviceTensor<Wide>& values,
                                          ReduceOp op = ReduceOp::Sum) {
  auto operation = device_operation(OpKind::kAllreduce, name, tensor, op);
  operation->on_device = std::make_unique<OperationOnDevice>();
  operation->on_device->outside = {
      {reinterpret_cast<std::byte*>(values.data()), DTypeOf<Wide>::kValue}};
  return operation;
}

inline std::set<OpKind> all_operations() {
  return {OpKind::kAllreduce, OpKind::kBroadcast,     OpKind::kAllgather,
          OpKind::kAlltoall,  OpKind::kReducescatter, OpKind::kSend};
}

// With KOLO_TEST_OVER_HOST in the environment the host carries all out, with KOLO_TEST_DIRECTLY,
// too, over a transport that takes device memory; with KOLO_TEST_IN_STAGES it carries out what is
// between nodes of an allreduce.
inline nccl::Options device_options(int rank) {
  nccl::Options options;
  options.rank = rank;
  options.hierarchical_allreduce = std::getenv("KOLO_TEST_IN_STAGES") != nullptr;
  if (std::getenv("KOLO_TEST_OVER_HOST") != nullptr) options.over_host = all_operations();
  options.piece_bytes = 64 << 10;
  return options;
}

// Whether NCCL alone carries an allreduce out, and the host only enqueues it.
inline bool is_nccl_alone() {
  const nccl::Options options = device_options(0);
  return options.over_host.empty() && !options.hierarchical_allreduce;
}

using RankDeviceProgram = std::function<void(DeviceProgram&)>;

// As an MPI that is CUDA-aware: messages may lie on the device.
class DeviceTransport final : public Transport {
 public:
  explicit DeviceTransport(std::unique_ptr<Transport> host) : host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  Tag max_tag() const override { return host_->max_tag(); }
  bool takes_device_memory() const override { return true; }
  Status send(const void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    if (fake_gpu::is_on_device(data)) ++from_device();
    return host_->send(fake_gpu::on_host(data), bytes, peer, tag, ticket);
  }
  Status receive(void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    return host_->receive(fake_gpu::on_host(data), bytes, peer, tag, ticket);
  }
  Progress poll(Ticket& ticket, Status& status) override { return host_->poll(ticket, status); }
  int world_peer(const Ticket& ticket) const override { return host_->world_peer(ticket); }
  Status probe(Tag tag, std::optional<Arrival>& arrival) override {
    return host_->probe(tag, arrival);
  }

  // Messages that lay there, of all ranks.
  static std::atomic<int>& from_device() {
    static std::atomic<int> messages = 0;
    return messages;
  }

 private:
  const std::unique_ptr<Transport> host_;
};

// `first_device`: rank 0's; those of the others follow. If it is not 0, a rank's thread has its
// device as the current one from the first.
struct DeviceSetting {
  int first_device = 0;
  bool takes_device_memory = std::getenv("KOLO_TEST_DIRECTLY") != nullptr;
  std::function<void(nccl::Options&)> change = [](nccl::Options& /*as they are*/) {};
};

inline void on_all_devices(int size, const RankDeviceProgram& program,
                           Engine::Options options = test_options(),
                           const DeviceSetting& setting = {}) {
  std::vector<std::unique_ptr<Transport>> transports = make_local_transports(size);
  const std::vector<std::shared_ptr<shm::Node>> nodes = make_nodes(size, options.group.nodes);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      if (setting.takes_device_memory)
        transports[at] = std::make_unique<DeviceTransport>(std::move(transports[at]));
      const int index = setting.first_device + rank;
      if (setting.first_device > 0) cudaSetDevice(index);
      nccl::Options device_setting = device_options(rank);
      setting.change(device_setting);
      std::shared_ptr<Device> device;
      const Status made = nccl::make_device(index, device_setting, device);
      ASSERT_TRUE(made.is_ok()) << made.message();
      Engine::Options mine = options;
      mine.group.find_device = [&device](std::shared_ptr<Device>& found) {
        found = device;
        return Status::ok();
      };
      Engine engine(std::move(transports[at]), nodes[at], mine);
      DeviceProgram rank_program(engine, *device);
      program(rank_program);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Launches of NCCL that `program` needs; each rank has one where tensors are carried out as one.
inline std::size_t launches_of(int size, const RankDeviceProgram& program) {
  const std::size_t before = fake_gpu::nccl_launches();
  on_all_devices(size, program);
  return fake_gpu::nccl_launches() - before;
}

// A gather of rows of two, into memory that is there when the ranks' sizes are known.
struct DeviceGather {
  std::shared_ptr<Operation> operation;
  std::shared_ptr<std::unique_ptr<DeviceTensor<std::int32_t>>> result =
      std::make_shared<std::unique_ptr<DeviceTensor<std::int32_t>>>();
};
inline DeviceGather gather(OpKind kind, const std::string& name,
                           const DeviceTensor<std::int32_t>& input) {
  DeviceGather made;
  made.operation = device_operation(kind, name, input);
  made.operation->descriptor.tensors[0].shape = {2};
  made.operation->tensors[0].rows = static_cast<std::int64_t>(input.size() / 2);
  made.operation->make_result = [result = made.result](std::size_t /*index*/,
                                                       const std::vector<std::int64_t>& rows) {
    const auto all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    *result = std::make_unique<DeviceTensor<std::int32_t>>(static_cast<std::size_t>(all) * 2);
    return static_cast<void*>((*result)->data());
  };
  return made;
}

}  // namespace kolo
