// What the kernels do, a thread at a time; tests run the same code on the CPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifdef __CUDACC__
#define KOLO_HOST_DEVICE __host__ __device__
#else
#define KOLO_HOST_DEVICE
#endif

namespace kolo::nccl {

// One of a launch's threads.
struct Place {
  unsigned block = 0;
  unsigned thread = 0;
  unsigned threads = 0;  // of a block
};

// Bytes from one place to another, or, without a source, a pattern.
struct Move {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t count = 0;     // bytes; of kernels with a type, elements
  unsigned first_block = 0;  // of those that do it
};

// A kernel's parameters, which may take 4 KiB, hold so many moves.
struct MoveTable {
  static constexpr int kMost = 120;
  Move moves[kMost];
  int count = 0;
  unsigned blocks = 0;
  alignas(16) unsigned char pattern[16] = {};
};
static_assert(sizeof(MoveTable) <= 4096 - 2 * sizeof(double));

constexpr unsigned kThreads = 256;
constexpr std::size_t kBytesABlock = std::size_t{32} << 10;
constexpr std::size_t kElementsABlock = std::size_t{8} << 10;

// The move that the block works for: the last one that does not begin after it.
KOLO_HOST_DEVICE inline const Move& move_of(const MoveTable& table, unsigned block) {
  int low = 0;
  int high = table.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.moves[middle].first_block <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return table.moves[low];
}

struct alignas(16) Wide {
  std::uint64_t halves[2];
};

KOLO_HOST_DEVICE inline bool is_wide(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Wide) == 0;
}

// This block's part of its move.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};
KOLO_HOST_DEVICE inline Range range_of(const Move& move, unsigned block, std::size_t a_block) {
  const std::size_t begin = (block - move.first_block) * a_block;
  const std::size_t left = move.count - begin;
  return {begin, begin + (left < a_block ? left : a_block)};
}

// Bytes as they are.
KOLO_HOST_DEVICE inline void move_bytes(const MoveTable& table, Place place) {
  const Move& move = move_of(table, place.block);
  const Range range = range_of(move, place.block, kBytesABlock);
  std::size_t done = range.begin;
  if (is_wide(move.to) && (move.from == nullptr || is_wide(move.from))) {
    const std::size_t wide = (range.end - range.begin) / sizeof(Wide);
    Wide* const to = reinterpret_cast<Wide*>(move.to + range.begin);
    if (move.from != nullptr) {
      const Wide* const from = reinterpret_cast<const Wide*>(move.from + range.begin);
      for (std::size_t i = place.thread; i < wide; i += place.threads) to[i] = from[i];
    } else {
      const Wide pattern = *reinterpret_cast<const Wide*>(table.pattern);
      for (std::size_t i = place.thread; i < wide; i += place.threads) to[i] = pattern;
    }
    done += wide * sizeof(Wide);
  }
  for (std::size_t i = done + place.thread; i < range.end; i += place.threads) {
    move.to[i] =
        move.from != nullptr ? move.from[i] : static_cast<std::byte>(table.pattern[i % 16]);
  }
}

// As scale() of reduce.hpp: floating point in float32, or float64; integers in float64, rounded
// towards zero and held within the range.
template <typename T>
KOLO_HOST_DEVICE inline T scaled(T value, double factor) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half(__half2float(value) * static_cast<float>(factor));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16(__bfloat162float(value) * static_cast<float>(factor));
  } else if constexpr (std::is_same_v<T, float>) {
    return value * static_cast<float>(factor);
  } else if constexpr (std::is_same_v<T, double>) {
    return value * factor;
  } else {
    constexpr T kLeast = std::numeric_limits<T>::min();
    constexpr T kMost = std::numeric_limits<T>::max();
    const double product = static_cast<double>(value) * factor;
    if (!(product > static_cast<double>(kLeast))) return product != product ? T{0} : kLeast;
    if (product >= static_cast<double>(kMost)) return kMost;
    return static_cast<T>(product);
  }
}

// As many elements as are loaded at once.
template <typename T>
struct alignas(16) Lanes {
  static constexpr std::size_t kCount = sizeof(Wide) / sizeof(T);
  T values[kCount];
};

// Elements times the factor.
template <typename T>
KOLO_HOST_DEVICE inline void scale_elements(const MoveTable& table, double factor, Place place) {
  const Move& move = move_of(table, place.block);
  const Range range = range_of(move, place.block, kElementsABlock);
  T* const to = reinterpret_cast<T*>(move.to);
  const T* const from = reinterpret_cast<const T*>(move.from);
  std::size_t done = range.begin;
  if (is_wide(move.to) && is_wide(move.from)) {
    const std::size_t wide = (range.end - range.begin) / Lanes<T>::kCount;
    const auto* const wide_from = reinterpret_cast<const Lanes<T>*>(from + range.begin);
    auto* const wide_to = reinterpret_cast<Lanes<T>*>(to + range.begin);
    for (std::size_t i = place.thread; i < wide; i += place.threads) {
      Lanes<T> lanes = wide_from[i];
      for (std::size_t k = 0; k < Lanes<T>::kCount; ++k)
        lanes.values[k] = scaled(lanes.values[k], factor);
      wide_to[i] = lanes;
    }
    done += wide * Lanes<T>::kCount;
  }
  for (std::size_t i = done + place.thread; i < range.end; i += place.threads)
    to[i] = scaled(from[i], factor);
}

// Integers, divided and rounded towards zero.
template <typename T>
KOLO_HOST_DEVICE inline void divide_elements(const MoveTable& table, std::int64_t divisor,
                                             Place place) {
  const Move& move = move_of(table, place.block);
  const Range range = range_of(move, place.block, kElementsABlock);
  T* const to = reinterpret_cast<T*>(move.to);
  for (std::size_t i = range.begin + place.thread; i < range.end; i += place.threads)
    to[i] = static_cast<T>(static_cast<std::int64_t>(to[i]) / divisor);
}

// Integers of another width; what does not fit wraps around.
template <typename From, typename To>
KOLO_HOST_DEVICE inline void convert_elements(const MoveTable& table, Place place) {
  const Move& move = move_of(table, place.block);
  const Range range = range_of(move, place.block, kElementsABlock);
  To* const to = reinterpret_cast<To*>(move.to);
  const From* const from = reinterpret_cast<const From*>(move.from);
  for (std::size_t i = range.begin + place.thread; i < range.end; i += place.threads)
    to[i] = static_cast<To>(from[i]);
}

}  // namespace kolo::nccl
