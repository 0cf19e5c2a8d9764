#include "collectives/nccl/kernels.hpp"

#include <cstring>
#include <limits>

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

template <typename T>
__global__ void scale_kernel(const __grid_constant__ MoveTable table, double factor) {
  scale_elements<T>(table, factor, here());
}

template <typename T>
__global__ void divide_kernel(const __grid_constant__ MoveTable table, std::int64_t divisor) {
  divide_elements<T>(table, divisor, here());
}

template <typename From, typename To>
__global__ void convert_kernel(const __grid_constant__ MoveTable table) {
  convert_elements<From, To>(table, here());
}

// <<<>>> tells of an error through cudaGetLastError(), which may have one of somebody else's call.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, cudaStream_t stream,
                   const Arguments&... arguments) {
  void* all[] = {const_cast<Arguments*>(&arguments)...};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(kThreads), all,
                          0, stream);
}

// Calls start(table) for as many of the transfers at a time as a table holds. `unit`: how
// many of what a block takes are in an element; `a_block`: how many of these it takes.
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

template <typename From, typename To>
Status enqueue_conversion(To* to, const From* from, std::size_t count, cudaStream_t stream) {
  const Transfer all{reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                     count};
  return in_tables({all}, 1, kElementsABlock, {}, [&](const MoveTable& table) {
    return launch(&convert_kernel<From, To>, table.blocks, stream, table);
  });
}

}  // namespace

Status enqueue_moves(const std::vector<Transfer>& transfers, DType dtype, const Pattern& fill,
                     cudaStream_t stream) {
  return in_tables(transfers, size_of(dtype), kBytesABlock, fill, [&](const MoveTable& table) {
    return launch(&move_kernel, table.blocks, stream, table);
  });
}

Status enqueue_scaled(const std::vector<Transfer>& transfers, DType dtype, double factor,
                      cudaStream_t stream) {
  return in_tables(transfers, 1, kElementsABlock, {}, [&](const MoveTable& table) {
    cudaError_t code = cudaErrorInvalidValue;
    visit<__half, __nv_bfloat16>(dtype, [&](auto type) {
      code = launch(&scale_kernel<decltype(type)>, table.blocks, stream, table, factor);
    });
    return code;
  });
}

Status enqueue_division(void* data, std::size_t count, DType dtype, std::int64_t divisor,
                        cudaStream_t stream) {
  auto* const bytes = static_cast<std::byte*>(data);
  const Transfer all{bytes, bytes, count};
  return in_tables({all}, 1, kElementsABlock, {}, [&](const MoveTable& table) {
    cudaError_t code = cudaErrorInvalidValue;
    visit<__half, __nv_bfloat16>(dtype, [&](auto type) {
      if constexpr (std::is_integral_v<decltype(type)>)
        code = launch(&divide_kernel<decltype(type)>, table.blocks, stream, table, divisor);
    });
    return code;
  });
}

Status enqueue_widening(std::int32_t* to, const std::int16_t* from, std::size_t count,
                        cudaStream_t stream) {
  return enqueue_conversion(to, from, count, stream);
}

Status enqueue_narrowing(std::int16_t* to, const std::int32_t* from, std::size_t count,
                         cudaStream_t stream) {
  return enqueue_conversion(to, from, count, stream);
}

}  // namespace kolo::nccl
