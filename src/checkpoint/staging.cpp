#include "checkpoint/staging.hpp"

#include <sys/mman.h>

#include <new>

namespace kolo::checkpoint {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

unsigned char* Staging::reserve(std::size_t bytes) {
  if (bytes > size_) {
    release();
    const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* const got =
        ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    data_ = got;
    size_ = rounded;
    // Causes fewer page faults in the first save if the system has huge pages; harmless otherwise.
    ::madvise(data_, size_, MADV_HUGEPAGE);
  }
  return static_cast<unsigned char*>(data_);
}

void Staging::release() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace kolo::checkpoint
