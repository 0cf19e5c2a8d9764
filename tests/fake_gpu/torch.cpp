// LibTorch's CUDA half, as far as a program needs it that trains something small: streams and
// events, an allocator whose memory is reused as soon as the streams that used it have gone on,
// copies that are put on streams, and all else computed on the CPU when the stream has come there.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_cpu_dispatch.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "fake_gpu/fake_gpu.hpp"

namespace fake_gpu {
namespace {

// A stream's id is its address; that of the default stream is 0.
thread_local std::map<int, c10::StreamId> current_streams;  // by device

// LibTorch makes no context where none is needed: a device without one that was current before is
// only noted.
thread_local int noted_device = -1;

cudaStream_t native(c10::StreamId id) {
  return reinterpret_cast<cudaStream_t>(static_cast<std::intptr_t>(id));
}
cudaStream_t native(const c10::Stream& stream) {
  return stream.id() == 0 ? default_stream(stream.device_index()) : native(stream.id());
}

int current_device() {
  int device = noted_device;
  if (device < 0) cudaGetDevice(&device);
  return device;
}

c10::StreamId current_stream(int device) {
  const auto found = current_streams.find(device);
  return found == current_streams.end() ? 0 : found->second;
}
cudaStream_t native_current_stream(int device) {
  const c10::StreamId id = current_stream(device);
  return id == 0 ? default_stream(device) : native(id);
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return at_device(current_device()); }
  void setDevice(c10::Device device) const override {
    noted_device = -1;
    int now = 0;
    cudaGetDevice(&now);
    if (now != device.index()) cudaSetDevice(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (has_context(device.index())) return setDevice(device);
    noted_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    const int index = device.index() < 0 ? current_device() : device.index();
    return stream(at_device(index), current_stream(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    cudaStream_t made = nullptr;
    cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, 0);
    return stream(device, static_cast<c10::StreamId>(reinterpret_cast<std::intptr_t>(made)));
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    const c10::Stream before = getStream(to.device());
    current_streams[to.device_index()] = to.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream one) const override { return native(one.id()); }
  c10::DeviceIndex deviceCount() const noexcept override {
    int count = 0;
    cudaGetDeviceCount(&count);
    return static_cast<c10::DeviceIndex>(count);
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    if (event != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
  void record(void** event, const c10::Stream& on, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    auto* one = static_cast<cudaEvent_t>(*event);
    if (one == nullptr) cudaEventCreateWithFlags(&one, cudaEventDisableTiming);
    const c10::DeviceGuard guard(on.device());
    cudaEventRecord(one, native(on));
    *event = one;
  }
  void block(void* event, const c10::Stream& on) const override {
    const c10::DeviceGuard guard(on.device());
    if (event != nullptr) cudaStreamWaitEvent(native(on), static_cast<cudaEvent_t>(event), 0);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || cudaEventQuery(static_cast<cudaEvent_t>(event)) == cudaSuccess;
  }
  void synchronizeStream(const c10::Stream& on) const override { drain(native(on)); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& on) const override;

 private:
  static c10::Device at_device(int index) {
    return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)};
  }
  static c10::Stream stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
};

// Memory is the current stream's of who allocates it.
class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device(c10::DeviceType::CUDA,
                             static_cast<c10::DeviceIndex>(current_device()));
    if (bytes == 0) return {nullptr, nullptr, &free_block, device};
    void* const data = fake_gpu::allocate(bytes);
    TORCH_CHECK(data != nullptr, "fake CUDA: out of memory");
    const std::lock_guard lock(mutex_);
    users_[data] = {native_current_stream(current_device())};
    return {data, data, &free_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                    native_current_stream(current_device()));
  }

  void used_by(void* data, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    if (const auto found = users_.find(data); found != users_.end()) found->second.insert(stream);
  }

  static DeviceAllocator& the_one() {
    static auto* const one = new DeviceAllocator;
    return *one;
  }

 private:
  static void free_block(void* data) {
    if (data != nullptr) the_one().free_when_unused(data);
  }
  void free_when_unused(void* data) {
    std::vector<std::future<void>> passed;
    {
      const std::lock_guard lock(mutex_);
      for (cudaStream_t stream : users_[data]) {
        auto here = std::make_shared<std::promise<void>>();
        passed.push_back(here->get_future());
        enqueue(stream, [here] { here->set_value(); });
      }
      users_.erase(data);
    }
    std::thread([data, passed = std::move(passed)]() mutable {
      for (std::future<void>& one : passed) one.wait();
      release(data);
    }).detach();
  }

  std::mutex mutex_;
  std::map<void*, std::set<cudaStream_t>> users_;
};

void Guard::recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& on) const {
  DeviceAllocator::the_one().used_by(data.get(), native(on));
}

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs /*arguments*/) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex device) const override { return has_context(device); }
  c10::DeviceIndex deviceCount() const override { return Guard().deviceCount(); }
  c10::DeviceIndex current_device() const override {
    return static_cast<c10::DeviceIndex>(fake_gpu::current_device());
  }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  // The fake GPU reaches all of the host's memory.
  at::Allocator* getPinnedMemoryAllocator() const override {
    return c10::GetAllocator(c10::DeviceType::CPU);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*device*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
};

// --- operators ---

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                 std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_generic(size, &DeviceAllocator::the_one(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> device, std::optional<bool> /*pinned*/) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_strided_generic(size, stride, &DeviceAllocator::the_one(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           c10::dtype_or_default(dtype));
}

// The same memory as a CPU tensor, to be used by tasks on streams.
at::Tensor alias_of(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return tensor;
  return at::from_blob(on_host(tensor.data_ptr()), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU).requires_grad(false));
}

// What comes next on `then` comes after all that is on `first`.
void order(cudaStream_t first, cudaStream_t then) {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, first);
  cudaStreamWaitEvent(then, event, 0);
  cudaEventDestroy(event);
}

// Between devices both streams wait for each other, as LibTorch has them.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool /*non_blocking*/) {
  const at::AutoDispatchBelowAutograd below;
  const c10::Device device = self.is_cuda() ? self.device() : source.device();
  cudaStream_t const stream = native_current_stream(device.index());
  if (!self.is_cuda()) {
    drain(stream);
    self.copy_(alias_of(source));
    return self;
  }
  const at::Tensor from = source.is_cuda() ? alias_of(source) : source.clone();
  const bool between = source.is_cuda() && source.device() != self.device();
  cudaStream_t const other = between ? native_current_stream(source.device().index()) : stream;
  if (between) order(other, stream);
  enqueue(stream, [to = alias_of(self), from] {
    const at::NoGradGuard no_grad;
    to.copy_(from);
  });
  if (between) order(stream, other);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  at::Tensor to = target;
  copy(to, self, non_blocking);
  return target;
}

const at::Tensor& resize_storage(const at::Tensor& self, at::IntArrayRef size,
                                 std::optional<at::MemoryFormat> /*format*/) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const std::size_t bytes =
      (static_cast<std::size_t>(self.storage_offset()) + static_cast<std::size_t>(self.numel())) *
      self.element_size();
  const c10::Storage& storage = self.storage();
  if (bytes > storage.nbytes()) {
    storage.unsafeGetStorageImpl()->set_data_ptr(DeviceAllocator::the_one().allocate(bytes));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (target.sizes() != self.sizes()) resize_storage(target, self.sizes(), std::nullopt);
  return copy_from(self, target, false);
}

at::Tensor& set_source(at::Tensor& self, at::Storage source, std::int64_t offset,
                       at::IntArrayRef size, at::IntArrayRef stride) {
  return at::cpu::set_(self, std::move(source), offset, size, stride);
}

// It changes the running statistics, which its schema does not say.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(
    const at::Tensor& input, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& mean,
    const std::optional<at::Tensor>& variance, bool training, double momentum, double epsilon) {
  const auto alias = [](const std::optional<at::Tensor>& one) {
    return one && one->defined() ? std::optional(alias_of(*one)) : std::nullopt;
  };
  drain(native_current_stream(input.device().index()));
  const auto [output, saved_mean, saved_deviation] =
      at::native_batch_norm(alias_of(input), alias(weight), alias(bias), alias(mean),
                            alias(variance), training, momentum, epsilon);
  const at::Device device = input.device();
  return {output.to(device), saved_mean.to(device), saved_deviation.to(device)};
}

// LibTorch's LSTM on a GPU is made of cells that the CPU does not have: these, by their formulas.
// The workspace is the four gates.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  at::Tensor gates = input_gates + hidden_gates;
  if (input_bias && input_bias->defined()) gates = gates + *input_bias + *hidden_bias;
  const std::vector<at::Tensor> parts = gates.chunk(4, 1);
  const at::Tensor input = parts[0].sigmoid();
  const at::Tensor forget = parts[1].sigmoid();
  const at::Tensor cell = parts[2].tanh();
  const at::Tensor output = parts[3].sigmoid();
  const at::Tensor cy = forget * cx + input * cell;
  return {output * cy.tanh(), cy, at::cat({input, forget, cell, output}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const std::optional<at::Tensor>& grad_hy, const std::optional<at::Tensor>& grad_cy,
    const at::Tensor& cx, const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  const std::vector<at::Tensor> parts = workspace.chunk(4, 1);
  const at::Tensor input = parts[0];
  const at::Tensor forget = parts[1];
  const at::Tensor cell = parts[2];
  const at::Tensor output = parts[3];
  const auto or_zeros = [&](const std::optional<at::Tensor>& gradient) {
    return gradient && gradient->defined() ? *gradient : at::zeros_like(cx);
  };
  const at::Tensor of_output = or_zeros(grad_hy);
  const at::Tensor of_cell = or_zeros(grad_cy) + of_output * output * (1 - cy.tanh() * cy.tanh());
  const at::Tensor gates =
      at::cat({of_cell * cell * input * (1 - input), of_cell * cx * forget * (1 - forget),
               of_cell * input * (1 - cell * cell), of_output * cy.tanh() * output * (1 - output)},
              1);
  return {gates, of_cell * forget, has_bias ? gates.sum(0) : at::Tensor()};
}

void compute_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

}  // namespace

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace fake_gpu

namespace at {
using CUDAHooks = fake_gpu::Hooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at

namespace fake_gpu {
namespace {
const bool allocator_is_set = [] {
  c10::SetAllocator(c10::DeviceType::CUDA, &DeviceAllocator::the_one());
  return true;
}();
}  // namespace
}  // namespace fake_gpu

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fake_gpu::compute_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &fake_gpu::empty);
  m.impl("empty_strided", &fake_gpu::empty_strided);
  m.impl("as_strided", &at::cpu::as_strided);
  m.impl("view", &at::cpu::view);
  m.impl("_reshape_alias", &at::cpu::_reshape_alias);
  m.impl("set_.source_Storage_storage_offset", &fake_gpu::set_source);
  m.impl("resize_", &fake_gpu::resize_storage);
  m.impl("copy_", &fake_gpu::copy);
  m.impl("native_batch_norm", &fake_gpu::batch_norm);
  // LibTorch would look for CUDA kernels of parts of it.
  m.impl("convolution_backward",
         torch::CppFunction::makeFromBoxedFunction<&fake_gpu::compute_on_cpu>());
  m.impl("_thnn_fused_lstm_cell", &fake_gpu::lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &fake_gpu::lstm_cell_backward);
  m.impl("_copy_from", &fake_gpu::copy_from);
  m.impl("_copy_from_and_resize", &fake_gpu::copy_from_and_resize);
}
