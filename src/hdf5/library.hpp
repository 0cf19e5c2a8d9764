// HDF5's C interface: return codes are checked, identifiers are closed, and one thread at a time
// calls it.
#pragma once

// Uses the names of 1.10, because newer libraries change what they stand for.
#define H5_USE_110_API
#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace kolo::hdf5 {

// Returns HDF5's description of its last error on this thread: "H5Dcreate2: name already exists".
std::string last_error();

// Throws InternalError with last_error() if HDF5 returned a failure.
template <typename Result>
Result checked(Result result, const char* call);

// Locks HDF5's library for this thread and keeps HDF5 from printing errors. Every function that
// calls HDF5 holds a guard for as long as it has identifiers. A library built without thread safety
// must not be called by two threads at once; one built with it has a lock of its own, so nothing is
// lost. Not recursive: a thread that holds a guard must not make another one, which would block
// forever.
class LibraryGuard {
 public:
  LibraryGuard();
  ~LibraryGuard();
  LibraryGuard(const LibraryGuard&) = delete;
  LibraryGuard& operator=(const LibraryGuard&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;  // the program's
};

// Owns an identifier of any kind.
class Id {
 public:
  Id() = default;
  // Throws InternalError with the name of the call if the identifier is invalid.
  Id(hid_t id, const char* call) : id_(checked(id, call)) {}
  ~Id() { reset(); }
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Id& operator=(Id&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }

  hid_t get() const { return id_; }
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }
  void reset() {
    if (id_ >= 0) H5Idec_ref(id_);
    id_ = H5I_INVALID_HID;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

[[noreturn]] void fail(const char* call);

template <typename Result>
Result checked(Result result, const char* call) {
  if (result < 0) fail(call);
  return result;
}

}  // namespace kolo::hdf5
