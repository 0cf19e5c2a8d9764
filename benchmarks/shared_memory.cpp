#include "benchmarks/shared_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kolo::bench {

SharedMemory::SharedMemory(std::size_t bytes)
    : bytes_(bytes), file_(cli::check(::memfd_create("kolo-bench", 0), "memfd_create")) {
  cli::check(::ftruncate(file_.get(), static_cast<off_t>(bytes)), "ftruncate");
  data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (data_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
}

SharedMemory::~SharedMemory() {
  ::munmap(data_, bytes_);
}

}  // namespace kolo::bench
