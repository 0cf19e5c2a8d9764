// What is done with a program's tensors before a collective and after it, in the memory where they
// lie. On the host all is done when a call returns; a device does it later, in the order of calls.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/status.hpp"
#include "core/types.hpp"

namespace kolo {

// A tensor, and the place where it is worked on.
struct Piece {
  std::byte* at = nullptr;          // where it is worked on
  const std::byte* from = nullptr;  // its values; `at` if they are there; null: it has none
  std::byte* to = nullptr;          // where the result goes; `at` if it stays; null: nowhere
  std::size_t bytes = 0;            // of the place
  // What `from` and `to` have, where that is not the place's: float32 or float64, of a place of
  // float16 or bfloat16. On a device alone.
  std::optional<DType> outside = std::nullopt;
};

class Memory {
 public:
  virtual ~Memory() = default;
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Fills each piece's place: with its values times the factor, or, where it has none, with what
  // changes nothing in such a reduction.
  virtual Status put(std::span<const Piece> pieces, DType dtype, ReduceOp op, double factor) = 0;
  // Hands the results out.
  virtual Status take(std::span<const Piece> pieces, DType dtype) = 0;
  // The two ranges do not overlap.
  virtual Status copy(void* to, const void* from, std::size_t bytes) = 0;
};

// The host's; has no state.
Memory& host_memory();

}  // namespace kolo
