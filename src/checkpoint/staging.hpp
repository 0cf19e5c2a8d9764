// Memory for a copy of the state, kept from one save to the next: what is new from the system costs
// several times what copying costs.
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

  // Room for so many bytes; what was in it is lost. Throws std::bad_alloc.
  unsigned char* reserve(std::size_t bytes);

 private:
  void release();

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kolo::checkpoint
