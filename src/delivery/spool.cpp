#include "delivery/spool.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/fd.hpp"
#include "core/thread_annotations.hpp"
#include "delivery/places.hpp"
#include "kolo/error.h"

namespace kolo::delivery {
namespace {

[[noreturn]] void fail(const std::string& folder, const std::string& what, int error) {
  throw FileError("the spool of a loader in '" + folder + "': " + what + ": " +
                  std::generic_category().message(error) +
                  "; give --spool a folder on a disk with room, or --units fewer samples");
}

// Creates a file without a name, if the file system supports that; otherwise removes the name.
Fd nameless_file(const std::string& folder) {
  Fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open()) return file;
  std::string name = folder + "/kolo-spool-XXXXXX";
  file = Fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) fail(folder, "making a file", errno);
  if (::unlink(name.c_str()) != 0) fail(folder, "removing the name of '" + name + "'", errno);
  return file;
}

// Calls pread or pwrite until all bytes are transferred. Returns 0 or the error.
template <typename Call, typename Pointer>
int all(Call call, int file, Pointer at, std::size_t bytes, std::uint64_t offset) {
  while (bytes > 0) {
    const ssize_t done = call(file, at, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? errno : EIO;
    at += done;
    bytes -= static_cast<std::size_t>(done);
    offset += static_cast<std::uint64_t>(done);
  }
  return 0;
}

}  // namespace

struct Spool::State {
  State(std::size_t bytes, std::string in) : memory_bytes(bytes), folder(std::move(in)) {
    if (!folder.empty()) file = nameless_file(folder);
  }

  // Constant after construction.
  const std::size_t memory_bytes;
  const std::string folder;
  Fd file;

  Mutex mutex;
  std::size_t used KOLO_GUARDED_BY(mutex) = 0;        // bytes of memory
  std::uint64_t file_end KOLO_GUARDED_BY(mutex) = 0;  // where the next batch goes
};

Spool::Spool(std::size_t memory_bytes, const std::string& folder)
    : state_(std::make_shared<State>(memory_bytes, folder)) {}

bool Spool::is_full() const {
  const MutexLock lock(state_->mutex);
  return !state_->file.is_open() && state_->used >= state_->memory_bytes;
}

Spool::Kept Spool::keep(Parcel parcel) {
  Kept kept;
  kept.state_ = state_;
  kept.memory_ = bytes_of(parcel);
  const BatchPlaces places = place(parcel);
  {
    const MutexLock lock(state_->mutex);
    const bool fits = state_->used + kept.memory_ <= state_->memory_bytes;
    if (fits || !state_->file.is_open()) {
      state_->used += kept.memory_;
      kept.parcel_ = std::move(parcel);
      return kept;
    }
    kept.offset_ = state_->file_end;
    state_->file_end += places.size;
  }
  kept.places_ = places;
  for (std::size_t i = 0; i < parcel.arrays.size(); ++i) {
    const std::span<std::byte> bytes = parcel.arrays[i].bytes;
    const int error = all(::pwrite, state_->file.get(), bytes.data(), bytes.size(),
                          kept.offset_ + places.arrays[i].offset);
    if (error != 0) fail(state_->folder, "writing", error);
  }
  return kept;
}

Spool::Kept::Kept(Kept&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)),
      memory_(other.memory_),
      parcel_(std::move(other.parcel_)),
      places_(std::move(other.places_)),
      offset_(other.offset_) {}

Spool::Kept& Spool::Kept::operator=(Kept&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  state_ = std::exchange(other.state_, nullptr);
  memory_ = other.memory_;
  parcel_ = std::move(other.parcel_);
  places_ = std::move(other.places_);
  offset_ = other.offset_;
  return *this;
}

Spool::Kept::~Kept() {
  give_back();
}

void Spool::Kept::give_back() noexcept {
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  if (state == nullptr) return;
  if (parcel_) {
    const MutexLock lock(state->mutex);
    state->used -= memory_;
  } else if (places_.size > 0) {
    // If the file system cannot free the space, it becomes free when the process ends.
    (void)::fallocate(state->file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(offset_), static_cast<off_t>(places_.size));
  }
}

Parcel Spool::Kept::take() {
  Parcel parcel;
  if (parcel_) {
    parcel = *parcel_;
  } else {
    const auto size = static_cast<std::size_t>(places_.size);
    const std::shared_ptr<std::byte> memory = allocate(size);
    parcel = parcel_in({memory.get(), size}, places_, memory);
    for (std::size_t i = 0; i < parcel.arrays.size(); ++i) {
      const std::span<std::byte> bytes = parcel.arrays[i].bytes;
      const int error = all(::pread, state_->file.get(), bytes.data(), bytes.size(),
                            offset_ + places_.arrays[i].offset);
      if (error != 0) fail(state_->folder, "reading", error);
    }
  }
  give_back();
  parcel_.reset();
  return parcel;
}

}  // namespace kolo::delivery
