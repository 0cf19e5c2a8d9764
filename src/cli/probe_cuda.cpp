// The CUDA driver, without CUDA's headers: its interface is stable and loaded by name.
#include <dlfcn.h>

#include <array>

#include "cli/probe.hpp"

namespace kolo::cli {
namespace {

template <typename Function>
Function load(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

int refuse(const char* call, int code) {
  report("cuda.failure", std::string(call) + " says error " + std::to_string(code));
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  if (code != kNoDevice) return 1;
  report("cuda.devices", "0");
  return 0;
}

}  // namespace

int probe_cuda() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    report("cuda.driver", "none");
    return 0;
  }
  const auto init = load<int (*)(unsigned)>(driver, "cuInit");
  const auto version = load<int (*)(int*)>(driver, "cuDriverGetVersion");
  const auto count = load<int (*)(int*)>(driver, "cuDeviceGetCount");
  const auto name = load<int (*)(char*, int, int)>(driver, "cuDeviceGetName");
  if (init == nullptr || version == nullptr || count == nullptr || name == nullptr) return 1;
  int number = 0;
  if (version(&number) == 0) {
    report("cuda.driver", std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10));
  }
  if (const int code = init(0); code != 0) return refuse("cuInit", code);
  int devices = 0;
  if (const int code = count(&devices); code != 0) return refuse("cuDeviceGetCount", code);
  report("cuda.devices", std::to_string(devices));
  for (int device = 0; device < devices; ++device) {
    std::array<char, 256> text{};
    if (name(text.data(), static_cast<int>(text.size()) - 1, device) != 0) continue;
    report("cuda.device." + std::to_string(device), text.data());
  }
  return 0;
}

}  // namespace kolo::cli
