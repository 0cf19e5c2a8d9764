// Starting kernels: what nvcc's host code calls. The bodies are those of the real ones, a thread
// after the other.
#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include "collectives/nccl/move.hpp"
#include "fake_gpu/fake_gpu.hpp"

namespace fake_gpu {
namespace {

using namespace kolo::nccl;

// Demangled names. Filled before main(), by what registers device code.
struct Kernels {
  std::mutex mutex;
  std::map<const void*, std::string> by_host_function;
  std::set<const void*> loaded;
};
Kernels& kernels() {
  static auto* const all = new Kernels;
  return *all;
}

template <typename Body>
void run(const Body& body, dim3 grid, dim3 block) {
  for (unsigned b = 0; b < grid.x; ++b) {
    for (unsigned t = 0; t < block.x; ++t) body(Place{b, t, block.x});
  }
}

MoveTable table_of(void** arguments) {
  MoveTable table;
  std::memcpy(&table, arguments[0], sizeof table);
  for (int i = 0; i < table.count; ++i) {
    table.moves[i].to = checked(table.moves[i].to);
    if (table.moves[i].from != nullptr) table.moves[i].from = checked(table.moves[i].from);
  }
  return table;
}

template <typename T>
T argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

using Task = std::function<void()>;

template <typename From, typename To>
Task convert_task(const MoveTable& table, double factor, dim3 grid, dim3 block) {
  return [=] {
    run([&](Place place) { convert_elements<From, To>(table, factor, place); }, grid, block);
  };
}

using Convert = Task (*)(const MoveTable& table, double factor, dim3 grid, dim3 block);

// By the types that the kernel's name has.
Convert convert_task_of(const std::string& types) {
  static const std::map<std::string, Convert> all = {
      {"<unsigned char, unsigned char>", &convert_task<std::uint8_t, std::uint8_t>},
      {"<signed char, signed char>", &convert_task<std::int8_t, std::int8_t>},
      {"<short, short>", &convert_task<std::int16_t, std::int16_t>},
      {"<int, int>", &convert_task<std::int32_t, std::int32_t>},
      {"<long, long>", &convert_task<std::int64_t, std::int64_t>},
      {"<__half, __half>", &convert_task<__half, __half>},
      {"<__nv_bfloat16, __nv_bfloat16>", &convert_task<__nv_bfloat16, __nv_bfloat16>},
      {"<float, float>", &convert_task<float, float>},
      {"<double, double>", &convert_task<double, double>},
      {"<short, int>", &convert_task<std::int16_t, std::int32_t>},
      {"<int, short>", &convert_task<std::int32_t, std::int16_t>},
      {"<float, __half>", &convert_task<float, __half>},
      {"<float, __nv_bfloat16>", &convert_task<float, __nv_bfloat16>},
      {"<double, __half>", &convert_task<double, __half>},
      {"<double, __nv_bfloat16>", &convert_task<double, __nv_bfloat16>},
      {"<__half, float>", &convert_task<__half, float>},
      {"<__nv_bfloat16, float>", &convert_task<__nv_bfloat16, float>},
      {"<__half, double>", &convert_task<__half, double>},
      {"<__nv_bfloat16, double>", &convert_task<__nv_bfloat16, double>},
  };
  return all.at(types);
}

Task task_of(const std::string& name, void** arguments, dim3 grid, dim3 block) {
  const MoveTable table = table_of(arguments);
  const auto is = [&](const char* text) { return name.find(text) != std::string::npos; };
  if (is("move_kernel"))
    return [=] { run([&](Place place) { move_bytes(table, place); }, grid, block); };
  const auto types = name.find('<');
  if (is("convert_kernel")) {
    const Convert task = convert_task_of(name.substr(types, name.find('>') + 1 - types));
    return task(table, argument<double>(arguments, 1), grid, block);
  }
  throw std::runtime_error("fake GPU: does not know the kernel " + name);
}

}  // namespace
}  // namespace fake_gpu

using namespace fake_gpu;

extern "C" {

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}

void __cudaRegisterFunction(void** /*handle*/, const char* host_function, char* /*device_function*/,
                            const char* name, int /*thread_limit*/, uint3* /*tid*/, uint3* /*bid*/,
                            dim3* /*block*/, dim3* /*grid*/, int* /*size*/) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  all.by_host_function[host_function] = status == 0 ? plain : name;
  std::free(plain);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* /*attributes*/, const void* host_function) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  all.loaded.insert(host_function);
  return cudaSuccess;
}

// To be loaded when it is started, a kernel may have to wait for all that is on the device.
cudaError_t cudaLaunchKernel(const void* host_function, dim3 grid, dim3 block, void** arguments,
                             std::size_t /*shared*/, cudaStream_t stream) {
  std::string name;
  {
    Kernels& all = kernels();
    const std::lock_guard lock(all.mutex);
    name = all.by_host_function.at(host_function);
    if (all.loaded.count(host_function) == 0)
      throw std::runtime_error("fake GPU: was not loaded before: the kernel " + name);
  }
  enqueue(stream, task_of(name, arguments, grid, block));
  return cudaSuccess;
}

// What <<<>>> would call, which kolo's kernels are not started with.
cudaError_t __cudaGetKernel(cudaKernel_t* /*kernel*/, const void* /*host_function*/) {
  std::abort();
}
unsigned __cudaPushCallConfiguration(dim3 /*grid*/, dim3 /*block*/, std::size_t /*shared*/,
                                     CUstream_st* /*stream*/) {
  std::abort();
}
cudaError_t __cudaPopCallConfiguration(dim3* /*grid*/, dim3* /*block*/, std::size_t* /*shared*/,
                                       void* /*stream*/) {
  std::abort();
}
cudaError_t __cudaLaunchKernel(cudaKernel_t /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                               void** /*arguments*/, std::size_t /*shared*/,
                               cudaStream_t /*stream*/) {
  std::abort();
}

}  // extern "C"
