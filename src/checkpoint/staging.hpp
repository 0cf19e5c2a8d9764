// Memory for a copy of the state, kept between saves: getting fresh memory from the system costs
// several times as much as copying.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kolo::checkpoint {

class Staging {
 public:
  Staging() = default;
  ~Staging() { release(); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Returns room for this many bytes; earlier contents are lost. Throws std::bad_alloc.
  unsigned char* reserve(std::size_t bytes);

 private:
  void release();

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kolo::checkpoint
