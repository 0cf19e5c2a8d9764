// Two reservations of the same size: pointers that are given out lie in the first one, where
// nothing may be touched; what they point to is at the same place in the second one.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

#include "fake_gpu/fake_gpu.hpp"

namespace fake_gpu {
namespace {

constexpr std::size_t kReserved = std::size_t{1} << 36;
constexpr std::size_t kAlignment = 256;
constexpr int kGarbage = 0xdb;

std::byte* reserve(int protection) {
  void* const memory =
      mmap(nullptr, kReserved, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("fake GPU: no address space");
  return static_cast<std::byte*>(memory);
}

class Memory {
 public:
  void* allocate(std::size_t bytes) {
    bytes = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    const std::lock_guard lock(mutex_);
    if (allocated_ + bytes > limit_) return nullptr;
    std::size_t at = 0;
    for (const auto& [begin, length] : blocks_) {  // the first gap
      if (begin - at >= bytes) break;
      at = begin + length;
    }
    blocks_[at] = bytes;
    allocated_ += bytes;
    std::memset(host_ + at, kGarbage, bytes);
    return device_ + at;
  }

  void release(void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(pointer) - device_);
    if (found == blocks_.end()) throw std::runtime_error("fake GPU: freed what is not allocated");
    std::memset(host_ + found->first, kGarbage, found->second);
    allocated_ -= found->second;
    blocks_.erase(found);
  }

  void* on_host(const void* pointer) const {
    const auto* const bytes = static_cast<const std::byte*>(pointer);
    const bool is_ours = bytes >= device_ && bytes < device_ + kReserved;
    return const_cast<std::byte*>(is_ours ? host_ + (bytes - device_) : bytes);
  }

  void limit(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }
  std::size_t allocated() {
    const std::lock_guard lock(mutex_);
    return allocated_;
  }

 private:
  std::byte* const device_ = reserve(PROT_NONE);
  std::byte* const host_ = reserve(PROT_READ | PROT_WRITE);
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> blocks_;  // offset, length
  std::size_t allocated_ = 0;
  std::size_t limit_ = kReserved;
};

// Never destroyed: streams may still work when the process ends.
Memory& memory() {
  static auto* const one = new Memory;
  return *one;
}

}  // namespace

void* on_host(const void* pointer) {
  return memory().on_host(pointer);
}
bool is_on_device(const void* pointer) {
  return memory().on_host(pointer) != pointer;
}
void* checked(const void* pointer) {
  if (is_on_device(pointer)) return memory().on_host(pointer);
  std::fputs("fake GPU: an illegal address\n", stderr);
  std::abort();
}
void* allocate(std::size_t bytes) {
  return memory().allocate(bytes);
}
void release(void* pointer) {
  memory().release(pointer);
}
std::size_t allocated_bytes() {
  return memory().allocated();
}
void limit_memory(std::size_t bytes) {
  memory().limit(bytes);
}

}  // namespace fake_gpu
