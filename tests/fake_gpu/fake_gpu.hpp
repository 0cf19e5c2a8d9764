// A GPU that is none: as much of CUDA's runtime and of NCCL as kolo uses, on the CPU, so that what
// kolo does with streams, events, memory and communicators is tested where there is no GPU. Linked,
// or preloaded, in place of the real libraries.
//
// It is stricter than a GPU: a stream is a thread, so what is not ordered races (and the thread
// sanitizer sees it); the host cannot touch device memory; ranks that call NCCL in different order
// are found out; a communicator is busy for a while after each call, and says no to others
// meanwhile. It says nothing of speed, of memory models, or of what the real libraries do
// otherwise.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace fake_gpu {

// Where the CPU finds what a device pointer points to; other pointers stay as they are.
void* on_host(const void* pointer);
template <typename T>
T* on_host(T* pointer) {
  return static_cast<T*>(on_host(static_cast<const void*>(pointer)));
}

bool is_on_device(const void* pointer);
// As on_host(), of what must be on the device: an illegal address ends the process.
void* checked(const void* pointer);
template <typename T>
T* checked(T* pointer) {
  return static_cast<T*>(checked(static_cast<const void*>(pointer)));
}

// Device memory, 256 bytes aligned; null if there is none left. Freed memory is overwritten.
void* allocate(std::size_t bytes);
void release(void* pointer);
std::size_t allocated_bytes();

// The stream that is null in CUDA's calls while the device is current.
cudaStream_t default_stream(int device);

// Whether something has made a context on the device, as nearly all of CUDA's calls do on the
// current one.
bool has_context(int device);
void forget_contexts();

// Runs the task behind what is on the stream.
void enqueue(cudaStream_t stream, std::function<void()> task);
// Waits until all on the stream is done.
void drain(cudaStream_t stream);

// How many events have been recorded on the stream, and waited for by it.
struct EventCounts {
  std::size_t recorded = 0;
  std::size_t waited = 0;
};
EventCounts event_counts(cudaStream_t stream);

// How often pinned memory has been got.
std::size_t pinned_allocations();

// The stream has no room for more, as CUDA's have it: who records an event there waits. Null: all
// have room.
void fill_up(cudaStream_t stream);

// From now on allocations that would go beyond this fail.
void limit_memory(std::size_t bytes);

// Copies from the host take their time.
void slow_copies(bool slow);

// All streams are as if they were being captured into a graph, in the strictest mode.
void capture(bool captures);

// The communicators of this rank are cut off from the others', as if its process had died: what
// waits for it ends when it is aborted.
void cut_off(int rank);
// How often NCCL has been told to carry something out, by all ranks of this process: a group of
// calls is one.
std::size_t nccl_launches();
// How often memory has been got of NCCL.
std::size_t nccl_allocations();
// From now on ncclMemAlloc() fails, whatever memory there is.
void refuse_nccl_memory(bool refuse);
// As if other ranks did not come to the end of communicators: who destroys one waits.
void hold_ends(bool holds);
// The most ranks that a communicator has had since.
int largest_communicator();
void forget_communicators();
// Whether communicators say then that a rank is gone; the real ones may, or not.
void tell_of_lost_ranks(bool tells);

}  // namespace fake_gpu
