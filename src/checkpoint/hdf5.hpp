// HDF5's C interface with its return codes looked at and its handles closed. HDF5 keeps no thread
// apart from others unless it was built for that, so all of this is called from the program's
// thread.
#pragma once

// Newer libraries change what names stand for; these are the names of 1.10.
#define H5_USE_110_API
#include <hdf5.h>

#include <string>
#include <utility>

namespace kolo::checkpoint::hdf5 {

// What HDF5 says of its last error on this thread: "H5Dcreate2: name already exists".
std::string last_error();

// Throws InternalError with last_error() if HDF5 returned a failure.
template <typename Result>
Result checked(Result result, const char* call);

// While it lives HDF5 prints no errors by itself.
class Quiet {
 public:
  Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;  // the program's
};

// Owns an identifier of any kind.
class Id {
 public:
  Id() = default;
  // Throws InternalError, which names the call that gave it, for an invalid one.
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

}  // namespace kolo::checkpoint::hdf5
