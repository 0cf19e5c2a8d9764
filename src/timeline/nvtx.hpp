// Ranges for NVIDIA's profilers: NVTX, domain "kolo". Where none listens, and in a build without
// CUDA, there are none.
#pragma once

#include <cstdint>

namespace kolo::timeline::nvtx {

// Whether somebody listens: else what a range is called need not be made up. The same as long as
// the process runs.
bool on();

// A range of the process, which may end on another thread. Only while on().
using Range = std::uint64_t;
Range begin(const char* text);
void end(Range range);

// A range of this thread, as long as this lives.
class Scope {
 public:
  explicit Scope(const char* text);
  ~Scope();  // NOLINT(performance-trivially-destructible): with NVTX it has something to do
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace kolo::timeline::nvtx
