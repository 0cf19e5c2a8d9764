#include "collectives/shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace kolo::shm {
namespace {

Status system_error(const std::string& what) {
  return Status::internal(what + ": " + std::generic_category().message(errno));
}

// Whether a file may have this size. Growing a file beyond the limit would end the process with a
// signal.
bool file_may_have(std::size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

}  // namespace

Segment::~Segment() {
  close_all();
}

Segment::Segment(Segment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  close_all();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

void Segment::close_all() {
  if (data_ != nullptr) munmap(data_, size_);
  if (descriptor_ >= 0) close(descriptor_);
}

Status Segment::create(const std::string& name, std::size_t bytes, Segment& segment) {
  Segment made;
  made.size_ = bytes;
  made.descriptor_ = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made.descriptor_ < 0) return system_error("memfd_create");
  if (!file_may_have(bytes)) {
    return Status::internal(
        "the limit on the size of files (ulimit -f) is below the " + std::to_string(bytes) +
        " bytes of shared memory; raise it, for example by ulimit -f unlimited");
  }
  if (ftruncate(made.descriptor_, static_cast<off_t>(bytes)) != 0)
    return system_error("ftruncate of shared memory to " + std::to_string(bytes) + " bytes");
  // Seals the size: a process that shortened the file would end the others with a signal.
  if (fcntl(made.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return system_error("sealing the size of shared memory");
  if (Status s = made.map(); !s.is_ok()) return s;
  segment = std::move(made);
  return Status::ok();
}

Status Segment::adopt(int descriptor, Segment& segment) {
  Segment made;
  made.descriptor_ = descriptor;
  struct stat about {};
  if (fstat(descriptor, &about) != 0) return system_error("fstat of shared memory");
  made.size_ = static_cast<std::size_t>(about.st_size);
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status::internal("a peer has sent a file that is not shared memory of kolo");
  if (Status s = made.map(); !s.is_ok()) return s;
  segment = std::move(made);
  return Status::ok();
}

Status Segment::map() {
  void* at =
      mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (at == MAP_FAILED)
    return system_error("mapping " + std::to_string(size_) + " bytes of shared memory");
  data_ = static_cast<std::byte*>(at);
  // Takes effect if the system's settings allow it, and does no harm otherwise.
  (void)madvise(data_, size_, MADV_HUGEPAGE);
  return Status::ok();
}

void Segment::close_descriptor() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

bool Segment::make_private() const {
  return mmap(data_, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED,
              descriptor_, 0) != MAP_FAILED;
}

Status Segment::release_pages(std::size_t offset, std::size_t bytes) const {
  const int punched = fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(offset), static_cast<off_t>(bytes));
  return punched == 0 ? Status::ok() : system_error("giving shared memory back");
}

}  // namespace kolo::shm
