// The work of one thread of the kernels. Tests run the same code on the CPU.
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

// A thread of a launch.
struct Place {
  unsigned block = 0;
  unsigned thread = 0;
  unsigned threads = 0;  // per block
};

// Moves bytes from one place to another or, without a source, fills with a pattern.
struct Move {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t count = 0;     // bytes; in conversions, elements
  unsigned first_block = 0;  // of the blocks that do the move
};

// The moves of a launch: as many as a kernel's parameters, which may take 4 KiB, can hold.
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

// Returns the move that the block works for: the last one that does not begin after it.
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

template <typename Word>
KOLO_HOST_DEVICE inline bool is_multiple(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Word) == 0;
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

// Moves as many whole words as are left of the range, if both addresses are aligned to words.
template <typename Word>
KOLO_HOST_DEVICE inline void move_words(const MoveTable& table, const Move& move, Range& range,
                                        Place place) {
  if (!is_multiple<Word>(move.to) || !is_multiple<Word>(move.from)) return;
  const std::size_t count = (range.end - range.begin) / sizeof(Word);
  Word* const to = reinterpret_cast<Word*>(move.to + range.begin);
  if (move.from != nullptr) {
    const Word* const from = reinterpret_cast<const Word*>(move.from + range.begin);
    for (std::size_t i = place.thread; i < count; i += place.threads) to[i] = from[i];
  } else {
    for (std::size_t i = place.thread; i < count; i += place.threads) {
      const std::size_t at = (range.begin + i * sizeof(Word)) % sizeof table.pattern;
      to[i] = *reinterpret_cast<const Word*>(table.pattern + at);
    }
  }
  range.begin += count * sizeof(Word);
}

// Moves bytes unchanged. A block's range begins at a multiple of every word's size.
KOLO_HOST_DEVICE inline void move_bytes(const MoveTable& table, Place place) {
  const Move& move = move_of(table, place.block);
  Range range = range_of(move, place.block, kBytesABlock);
  move_words<Wide>(table, move, range, place);
  move_words<std::uint32_t>(table, move, range, place);
  move_words<std::uint16_t>(table, move, range, place);
  for (std::size_t i = range.begin + place.thread; i < range.end; i += place.threads) {
    move.to[i] = move.from != nullptr
                     ? move.from[i]
                     : static_cast<std::byte>(table.pattern[i % sizeof table.pattern]);
  }
}

template <typename T>
KOLO_HOST_DEVICE inline auto real_of(T value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return value;
  }
}

template <typename To, typename Real>
KOLO_HOST_DEVICE inline To rounded(Real value) {
  if constexpr (std::is_same_v<To, __half>) {
    if constexpr (std::is_same_v<Real, double>) return __double2half(value);
    return __float2half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, __nv_bfloat16>) {
    if constexpr (std::is_same_v<Real, double>) return __double2bfloat16(value);
    return __float2bfloat16(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
inline constexpr bool kAreHalfAndWhole =
    (std::is_same_v<From, __half> ||
     std::is_same_v<From, __nv_bfloat16>)&&(std::is_same_v<To, float> ||
                                            std::is_same_v<To, double>);

// Whether converted() converts between the two types.
template <typename From, typename To>
inline constexpr bool kConverts = std::is_same_v<From, To> || kAreHalfAndWhole<From, To> ||
                                  kAreHalfAndWhole<To, From> ||
                                  (std::is_integral_v<From> && std::is_integral_v<To> &&
                                   sizeof(From) + sizeof(To) == 2 + 4);

// Converts a value and multiplies it by the factor, as scale() of reduce.hpp does: floating point
// in float32, or float64 if either type is that; integers in float64, rounded towards zero and held
// within the range. Between integers of different widths there is no factor, and values wrap
// around.
template <typename To, typename From>
KOLO_HOST_DEVICE inline To converted(From value, double factor) {
  if constexpr (!std::is_integral_v<From>) {
    using Real = std::conditional_t<std::is_same_v<From, double> || std::is_same_v<To, double>,
                                    double, float>;
    return rounded<To>(static_cast<Real>(real_of(value)) * static_cast<Real>(factor));
  } else if constexpr (!std::is_same_v<From, To>) {
    return static_cast<To>(value);
  } else {
    constexpr To kLeast = std::numeric_limits<To>::min();
    constexpr To kMost = std::numeric_limits<To>::max();
    const double product = static_cast<double>(value) * factor;
    if (!(product > static_cast<double>(kLeast))) return product != product ? To{0} : kLeast;
    if (product >= static_cast<double>(kMost)) return kMost;
    return static_cast<To>(product);
  }
}

template <typename T, std::size_t kCount>
struct alignas(sizeof(Wide)) Lanes {
  T values[kCount];
};

// Converts as many elements at a time as a Wide holds of the narrower type.
template <typename From, typename To>
KOLO_HOST_DEVICE inline void convert_elements(const MoveTable& table, double factor, Place place) {
  constexpr std::size_t kTogether =
      sizeof(Wide) / (sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
  const Move& move = move_of(table, place.block);
  const Range range = range_of(move, place.block, kElementsABlock);
  To* const to = reinterpret_cast<To*>(move.to);
  const From* const from = reinterpret_cast<const From*>(move.from);
  std::size_t done = range.begin;
  if (is_multiple<Wide>(move.to) && is_multiple<Wide>(move.from)) {
    const std::size_t wide = (range.end - range.begin) / kTogether;
    const auto* const wide_from =
        reinterpret_cast<const Lanes<From, kTogether>*>(from + range.begin);
    auto* const wide_to = reinterpret_cast<Lanes<To, kTogether>*>(to + range.begin);
    for (std::size_t i = place.thread; i < wide; i += place.threads) {
      const Lanes<From, kTogether> loaded = wide_from[i];
      Lanes<To, kTogether> results;
      for (std::size_t k = 0; k < kTogether; ++k)
        results.values[k] = converted<To>(loaded.values[k], factor);
      wide_to[i] = results;
    }
    done += wide * kTogether;
  }
  for (std::size_t i = done + place.thread; i < range.end; i += place.threads)
    to[i] = converted<To>(from[i], factor);
}

}  // namespace kolo::nccl
