#include "torch_ops/session/arena.hpp"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>

#include "collectives/shm/layout.hpp"
#include "core/thread_annotations.hpp"
#include "kolo/memory.h"

namespace kolo {
namespace {

// Live until the process ends, because tensors refer to them.
struct Process {
  Mutex mutex;
  std::shared_ptr<shm::Arena> arena KOLO_GUARDED_BY(mutex);
  std::atomic<shm::Arena*> made{nullptr};  // the same; a forked child must not wait for the lock
  c10::Allocator* before KOLO_GUARDED_BY(mutex) = nullptr;  // while the arena's is installed
};
Process& process() {
  static auto* const one = new Process;
  return *one;
}

// The allocator in the form that LibTorch requires: with one deleter for everything it returns. The
// deleter's argument is the address of the data, or null.
class TensorAllocator final : public c10::Allocator {
 public:
  TensorAllocator(shm::Arena& arena, c10::Allocator& other) : arena_(arena), other_(other) {
    the_one_ = this;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = arena_.allocate(bytes);
    if (data == nullptr) data = other_.raw_allocate(bytes);
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free_block(void* data) {
    if (data == nullptr) return;
    if (the_one_->arena_.owns(data)) return the_one_->arena_.free(data);
    the_one_->other_.raw_deallocate(data);
  }

  // A deleter is a plain function. Set before the first allocation.
  static TensorAllocator* the_one_;

  shm::Arena& arena_;
  c10::Allocator& other_;
};

TensorAllocator* TensorAllocator::the_one_ = nullptr;

}  // namespace

Status process_arena(std::size_t capacity, std::shared_ptr<shm::Arena>& arena) {
  Process& here = process();
  const MutexLock lock(here.mutex);
  if (here.arena == nullptr) {
    std::unique_ptr<shm::Arena> made;
    Status status = shm::Arena::create(shm::kControlBytes, capacity, made);
    if (!status.is_ok()) return status;
    here.arena = std::move(made);
    here.made = here.arena.get();
  }
  arena = here.arena;
  return Status::ok();
}

shm::Arena* existing_arena() {
  return process().made;
}

void put_tensors_into_arena() {
  Process& here = process();
  const MutexLock lock(here.mutex);
  if (here.before != nullptr || here.arena == nullptr) return;
  c10::Allocator* const before = c10::GetCPUAllocator();
  if (before->raw_deleter() == nullptr) return;  // a custom one without plain memory
  static auto* const ours = new TensorAllocator(*here.arena, *before);
  here.before = before;
  c10::SetCPUAllocator(ours);
}

ArenaStatistics arena_statistics() {
  const shm::Arena* const arena = existing_arena();
  if (arena == nullptr) return {};
  const shm::Arena::Statistics now = arena->statistics();
  return {now.capacity, now.allocated, now.peak, now.kept, now.allocations, now.refusals};
}

std::size_t trim_arena() {
  shm::Arena* const arena = existing_arena();
  return arena == nullptr ? 0 : arena->trim();
}

bool is_shared(const at::Tensor& tensor) {
  const shm::Arena* const arena = existing_arena();
  return arena != nullptr && tensor.defined() && tensor.is_cpu() && tensor.has_storage() &&
         arena->owns(tensor.const_data_ptr());
}

void put_tensors_elsewhere() {
  Process& here = process();
  const MutexLock lock(here.mutex);
  if (here.before == nullptr) return;
  c10::SetCPUAllocator(std::exchange(here.before, nullptr));
}

}  // namespace kolo
