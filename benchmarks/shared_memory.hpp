// Memory that a child process shares, through a descriptor that it inherits. Without a name, so
// nothing is left of it in whatever way the processes end.
#pragma once

#include <cstddef>

#include "cli/process/system.hpp"

namespace kolo::bench {

class SharedMemory {
 public:
  // Zeros, which take no room until they are touched. Throws std::system_error.
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int descriptor() const { return file_.get(); }  // does not close on exec

 private:
  const std::size_t bytes_;
  const Fd file_;
  void* data_ = nullptr;  // mapped until the destructor
};

}  // namespace kolo::bench
