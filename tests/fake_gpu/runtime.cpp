// CUDA's runtime: devices, streams and events.
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "fake_gpu/fake_gpu.hpp"

namespace fake_gpu {
namespace {

int device_count() {
  const char* const text = std::getenv("KOLO_FAKE_GPUS");
  return text == nullptr ? 4 : std::atoi(text);
}

constexpr int kMostDevices = 64;

thread_local int current_device = 0;
std::array<std::atomic<bool>, kMostDevices> contexts{};
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
std::atomic<bool> captures{false};
std::atomic<bool> copies_are_slow{false};
std::atomic<std::size_t> pinned{0};
std::atomic<cudaStream_t> full{nullptr};

cudaError_t fail(cudaError_t error) {
  return last_error = error;
}

class Stream {
 public:
  Stream() {
    std::thread([this] { run(); }).detach();
  }

  void enqueue(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  void count(std::size_t EventCounts::*what) {
    const std::lock_guard lock(mutex_);
    ++(counts_.*what);
  }
  EventCounts counts() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
  }
  // What is on it still ends. Deletes it.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  void run() {
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
        if (tasks_.empty()) break;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        busy_ = true;
      }
      task();
      task = nullptr;
      const std::lock_guard lock(mutex_);
      busy_ = false;
      changed_.notify_all();
    }
    delete this;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;
  bool closed_ = false;
  EventCounts counts_;
};

// One time that an event was recorded.
class Flag {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    at_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }
  bool is_set() {
    const std::lock_guard lock(mutex_);
    return set_;
  }
  std::chrono::steady_clock::time_point at() {
    const std::lock_guard lock(mutex_);
    return at_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
  std::chrono::steady_clock::time_point at_;
};

struct Event {
  explicit Event(bool is_timed) : timed(is_timed) {}

  const bool timed;
  std::mutex mutex;
  std::shared_ptr<Flag> flag;  // of the last time

  std::shared_ptr<Flag> get() {
    const std::lock_guard lock(mutex);
    return flag;
  }
};

// CUDA's calls work with the current device's context, and make it.
void use_context() {
  contexts[static_cast<std::size_t>(current_device)] = true;
}

Stream& stream_of(cudaStream_t stream) {
  return *reinterpret_cast<Stream*>(stream == nullptr ? default_stream(current_device) : stream);
}

Event& event_of(cudaEvent_t event) {
  return *reinterpret_cast<Event*>(event);
}

}  // namespace

cudaStream_t default_stream(int device) {
  static std::mutex mutex;
  static auto* const streams = new std::map<int, Stream*>;
  const std::lock_guard lock(mutex);
  Stream*& stream = (*streams)[device];
  if (stream == nullptr) stream = new Stream;
  return reinterpret_cast<cudaStream_t>(stream);
}

bool has_context(int device) {
  return contexts[static_cast<std::size_t>(device)];
}
void forget_contexts() {
  for (std::atomic<bool>& one : contexts) one = false;
}

void enqueue(cudaStream_t stream, std::function<void()> task) {
  stream_of(stream).enqueue(std::move(task));
}
void drain(cudaStream_t stream) {
  stream_of(stream).drain();
}
EventCounts event_counts(cudaStream_t stream) {
  return stream_of(stream).counts();
}
void capture(bool now) {
  captures = now;
}
std::size_t pinned_allocations() {
  return pinned;
}
void fill_up(cudaStream_t stream) {
  full = stream;
}
void slow_copies(bool slow) {
  copies_are_slow = slow;
}

}  // namespace fake_gpu

using namespace fake_gpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return fail(cudaErrorInvalidDevice);
  current_device = device;
  use_context();
  return cudaSuccess;
}
// The driver's, of which kolo has one call.
static int primary_context_state(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = has_context(device) ? 1 : 0;
  return 0;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool known = std::strcmp(symbol, "cuDevicePrimaryCtxGetState") == 0;
  *function = known ? reinterpret_cast<void*>(&primary_context_state) : nullptr;
  *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (device < 0 || device >= device_count()) return fail(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
  return std::exchange(last_error, cudaSuccess);
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory"
         : error == cudaErrorInvalidDevice  ? "invalid device ordinal"
                                            : "an error of the fake GPU";
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/,
                                         int /*priority*/) {
  use_context();
  *stream = reinterpret_cast<cudaStream_t>(new Stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  use_context();
  stream_of(stream).close();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t /*stream*/, cudaStreamCaptureStatus* status) {
  use_context();
  *status = captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  use_context();
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  use_context();
  drain(stream);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  use_context();
  *event = reinterpret_cast<cudaEvent_t>(new Event((flags & cudaEventDisableTiming) == 0));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  use_context();
  delete &event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  use_context();
  while (stream != nullptr && full == stream)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto flag = std::make_shared<Flag>();
  {
    Event& one = event_of(event);
    const std::lock_guard lock(one.mutex);
    one.flag = flag;
  }
  stream_of(stream).count(&EventCounts::recorded);
  enqueue(stream, [flag] { flag->set(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  use_context();
  if (captures && capture_mode != cudaStreamCaptureModeRelaxed)
    return fail(cudaErrorStreamCaptureUnsupported);
  const std::shared_ptr<Flag> flag = event_of(event).get();
  return flag == nullptr || flag->is_set() ? cudaSuccess : fail(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  use_context();
  if (captures && capture_mode != cudaStreamCaptureModeRelaxed)
    return fail(cudaErrorStreamCaptureUnsupported);
  if (!event_of(from).timed || !event_of(to).timed) return fail(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Flag> first = event_of(from).get();
  const std::shared_ptr<Flag> second = event_of(to).get();
  if (first == nullptr || second == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (!first->is_set() || !second->is_set()) return fail(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(second->at() - first->at()).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  use_context();
  stream_of(stream).count(&EventCounts::waited);
  if (std::shared_ptr<Flag> flag = event_of(event).get())
    enqueue(stream, [flag = std::move(flag)] { flag->wait(); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  use_context();
  const bool to_device = kind != cudaMemcpyDeviceToHost;
  const bool from_device = kind != cudaMemcpyHostToDevice;
  if (is_on_device(to) != to_device || is_on_device(from) != from_device)
    return fail(cudaErrorInvalidMemcpyDirection);
  enqueue(stream, [=] {
    if (!from_device && copies_are_slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::memcpy(on_host(to), on_host(from), bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  use_context();
  enqueue(stream, [=] { std::memset(on_host(data), value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  use_context();
  *data = std::malloc(bytes);
  ++pinned;
  return *data != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* data) {
  use_context();
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  use_context();
  *data = allocate(bytes);
  return *data != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* data) {
  use_context();
  release(data);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t /*stream*/) {
  use_context();
  *data = allocate(bytes);
  return *data != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  use_context();
  enqueue(stream, [=] { release(data); });
  return cudaSuccess;
}

}  // extern "C"
