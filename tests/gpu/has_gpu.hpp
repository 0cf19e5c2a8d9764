// Whether tests can use a GPU.
#pragma once

#ifndef KOLO_FAKE_CUDA
#include <dlfcn.h>
#endif

namespace kolo {

inline constexpr const char* kNoGpu = "no GPU: there is no driver of CUDA, or it knows no device";

#ifdef KOLO_FAKE_CUDA
inline bool has_gpu() {
  return true;
}
#else
// Asks the driver: where LibTorch cannot use a GPU that is there, tests fail.
inline bool has_gpu() {
  static const bool has = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) return false;
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
    int devices = 0;
    return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 &&
           devices > 0;
  }();
  return has;
}
#endif

}  // namespace kolo
