// Ranges for NVIDIA's profilers: NVTX, domain "kolo". If no profiler listens, or in a build without
// CUDA, there are none.
#pragma once

#include <cstdint>

namespace kolo::timeline::nvtx {

// Whether a profiler listens. If none does, callers need not build names of ranges. Does not change
// while the process runs.
bool on();

// A range of the process, which may end on another thread. For use only while on().
using Range = std::uint64_t;
Range begin(const char* text);
void end(Range range);

// A range of this thread, for as long as the object lives.
class Scope {
 public:
  explicit Scope(const char* text);
  ~Scope();  // NOLINT(performance-trivially-destructible): with NVTX it has something to do
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace kolo::timeline::nvtx
