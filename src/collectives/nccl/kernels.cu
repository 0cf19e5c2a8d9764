#include "collectives/nccl/kernels.hpp"

#include <cstring>
#include <limits>
#include <string>

#include "collectives/nccl/check.hpp"
#include "collectives/nccl/move.hpp"
#include "collectives/reduce/visit.hpp"

namespace kolo::nccl {
namespace {

__device__ Place here() {
  return {blockIdx.x, threadIdx.x, blockDim.x};
}

__global__ void move_kernel(const __grid_constant__ MoveTable table) {
  move_bytes(table, here());
}

template <typename From, typename To>
__global__ void convert_kernel(const __grid_constant__ MoveTable table, double factor) {
  convert_elements<From, To>(table, factor, here());
}

// Starts a kernel, without <<<>>>: that reports errors through cudaGetLastError(), which may return
// an error of an unrelated call.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, cudaStream_t stream,
                   const Arguments&... arguments) {
  void* all[] = {const_cast<Arguments*>(&arguments)...};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(kThreads), all,
                          0, stream);
}

// Calls start(table) for as many of the transfers at a time as a table holds. A unit is a byte in
// moves and an element in conversions. `unit`: units in an element; `a_block`: units that a block
// handles.
template <typename Start>
Status in_tables(const std::vector<Transfer>& transfers, std::size_t unit, std::size_t a_block,
                 const Pattern& fill, const Start& start) {
  MoveTable table;
  std::memcpy(table.pattern, fill.bytes, sizeof table.pattern);
  const auto send = [&] {
    if (table.count == 0) return Status::ok();
    const cudaError_t code = start(table);
    table.count = 0;
    table.blocks = 0;
    return cuda_status(code, "starting a kernel");
  };
  for (const Transfer& transfer : transfers) {
    const std::size_t count = transfer.count * unit;
    if (count == 0) continue;
    const std::size_t blocks = (count + a_block - 1) / a_block;
    if (blocks > std::numeric_limits<int>::max() - table.blocks ||
        table.count == MoveTable::kMost) {
      if (Status s = send(); !s.is_ok()) return s;
    }
    table.moves[table.count++] = {transfer.to, transfer.from, count, table.blocks};
    table.blocks += static_cast<unsigned>(blocks);
  }
  return send();
}

template <typename... Parameters>
cudaError_t load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
}

using ConvertKernel = void (*)(MoveTable table, double factor);

// Returns null if there is no such kernel.
ConvertKernel convert_kernel_of(DType from, DType to) {
  ConvertKernel kernel = nullptr;
  visit<__half, __nv_bfloat16>(from, [&](auto one) {
    visit<__half, __nv_bfloat16>(to, [&](auto other) {
      using From = decltype(one);
      using To = decltype(other);
      if constexpr (kConverts<From, To>) kernel = &convert_kernel<From, To>;
    });
  });
  return kernel;
}

}  // namespace

Status load_kernels() {
  cudaError_t code = load(&move_kernel);
  for (int from = 0; from < kDTypeCount; ++from) {
    for (int to = 0; to < kDTypeCount; ++to) {
      const ConvertKernel kernel =
          convert_kernel_of(static_cast<DType>(from), static_cast<DType>(to));
      if (code == cudaSuccess && kernel != nullptr) code = load(kernel);
    }
  }
  return cuda_status(code, "cudaFuncGetAttributes of a kernel");
}

Status enqueue_moves(const std::vector<Transfer>& transfers, DType dtype, const Pattern& fill,
                     cudaStream_t stream) {
  return in_tables(transfers, size_of(dtype), kBytesABlock, fill, [&](const MoveTable& table) {
    return launch(&move_kernel, table.blocks, stream, table);
  });
}

Status enqueue_conversion(const std::vector<Transfer>& transfers, DType from, DType to,
                          double factor, cudaStream_t stream) {
  const ConvertKernel kernel = convert_kernel_of(from, to);
  if (kernel == nullptr)
    return Status::internal(std::string("no kernel converts ") + name_of(from) + " to " +
                            name_of(to));
  return in_tables(transfers, 1, kElementsABlock, {}, [&](const MoveTable& table) {
    return launch(kernel, table.blocks, stream, table, factor);
  });
}

}  // namespace kolo::nccl
