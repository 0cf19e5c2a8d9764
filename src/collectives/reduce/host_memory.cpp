#include <cstring>

#include "collectives/memory.hpp"
#include "collectives/reduce/reduce.hpp"

namespace kolo {
namespace {

class HostMemory final : public Memory {
 public:
  Status put(std::span<const Piece> pieces, DType dtype, ReduceOp op, double factor) override {
    for (const Piece& piece : pieces) {
      const std::size_t count = piece.bytes / size_of(dtype);
      if (piece.from == nullptr) {
        fill_with_identity(piece.at, count, dtype, op);
        continue;
      }
      move(piece.at, piece.from, piece.bytes);
      scale(piece.at, count, dtype, factor);
    }
    return Status::ok();
  }
  Status take(std::span<const Piece> pieces, DType /*dtype*/) override {
    for (const Piece& piece : pieces) {
      if (piece.to != nullptr) move(piece.to, piece.at, piece.bytes);
    }
    return Status::ok();
  }
  Status copy(void* to, const void* from, std::size_t bytes) override {
    move(to, from, bytes);
    return Status::ok();
  }

 private:
  // An empty tensor may have no address.
  static void move(void* to, const void* from, std::size_t bytes) {
    if (to != from && bytes > 0) std::memcpy(to, from, bytes);
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace kolo
