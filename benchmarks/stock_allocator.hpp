#pragma once

#include <c10/core/CPUAllocator.h>

namespace kolo::bench {

// While an object lives, tensors are allocated by LibTorch's own allocator, as in a program without
// kolo.
class StockAllocator {
 public:
  StockAllocator() : before_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator());
  }
  ~StockAllocator() { c10::SetCPUAllocator(before_); }
  StockAllocator(const StockAllocator&) = delete;
  StockAllocator& operator=(const StockAllocator&) = delete;

 private:
  c10::Allocator* const before_;
};

}  // namespace kolo::bench
