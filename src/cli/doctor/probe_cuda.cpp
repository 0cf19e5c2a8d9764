// Probes the CUDA driver without CUDA's headers: its interface is stable, and is loaded by name.
#include <dlfcn.h>

#include <array>
#include <cstdio>

#include "cli/doctor/findings.hpp"
#include "cli/doctor/probe.hpp"

namespace kolo::cli {
namespace {

template <typename Function>
Function load(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

int refuse(const char* call, int code) {
  report("cuda.failure", std::string(call) + " returned error " + std::to_string(code));
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  if (code != kNoDevice) return 1;
  report("cuda.devices", "0");
  return 0;
}

// Returns "GPU-1a2b3c4d at 0000:3b:00.0": the beginning of the name in nvidia-smi -L, and the PCI
// address.
std::string name_of(void* driver, int device) {
  const auto uuid =
      load<int (*)(std::array<unsigned char, 16>*, int)>(driver, "cuDeviceGetUuid_v2");
  const auto address = load<int (*)(char*, int, int)>(driver, "cuDeviceGetPCIBusId");
  std::array<unsigned char, 16> bytes{};
  std::array<char, 64> place{};
  if (uuid == nullptr || address == nullptr || uuid(&bytes, device) != 0 ||
      address(place.data(), static_cast<int>(place.size()) - 1, device) != 0) {
    return std::to_string(device);
  }
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "GPU-%02x%02x%02x%02x at %s", bytes[0], bytes[1],
                bytes[2], bytes[3], place.data());
  return text.data();
}

}  // namespace

std::vector<std::string> visible_devices(const Lookup& environment) {
  if (void* driver = ::dlopen("libcuda.so.1", RTLD_NOW); driver != nullptr) {
    const auto init = load<int (*)(unsigned)>(driver, "cuInit");
    const auto count = load<int (*)(int*)>(driver, "cuDeviceGetCount");
    int devices = 0;
    std::vector<std::string> names;
    if (init == nullptr || count == nullptr || init(0) != 0 || count(&devices) != 0) return {};
    names.reserve(static_cast<std::size_t>(devices));
    for (int device = 0; device < devices; ++device) names.push_back(name_of(driver, device));
    return names;
  }
  return listed_devices(environment("CUDA_VISIBLE_DEVICES").value_or(""));
}

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
