// Packing and unpacking of a program's tensors before and after a collective, in the memory where
// they lie. On the host a call does all the work; a device does it later, in the order of the
// calls.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/status.hpp"
#include "core/types.hpp"

namespace kolo {

// A tensor, and its place in the memory that a collective works on.
struct Piece {
  std::byte* at = nullptr;          // its place
  const std::byte* from = nullptr;  // its values; `at` if they are in place; null: it has none
  std::byte* to = nullptr;          // destination of the result; `at` if it stays; null: none
  std::size_t bytes = 0;            // of the place
  // The dtype of `from` and `to` if it differs from that of the place: float32 or float64 for a
  // place in float16 or bfloat16. Only on a device.
  std::optional<DType> outside = std::nullopt;
};

class Memory {
 public:
  virtual ~Memory() = default;
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Fills each piece's place with its values times the factor or, if it has none, with the neutral
  // value of the reduction.
  virtual Status put(std::span<const Piece> pieces, DType dtype, ReduceOp op, double factor) = 0;
  // Copies the results to their destinations.
  virtual Status take(std::span<const Piece> pieces, DType dtype) = 0;
  // The two ranges do not overlap.
  virtual Status copy(void* to, const void* from, std::size_t bytes) = 0;
};

// Returns the host's memory, which has no state.
Memory& host_memory();

}  // namespace kolo
