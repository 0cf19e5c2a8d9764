#include "hdf5/library.hpp"

#include "kolo/error.h"

namespace kolo::hdf5 {
namespace {

// Returns the library's mutex. There is one library per process.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

LibraryGuard::LibraryGuard() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

LibraryGuard::~LibraryGuard() {
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

std::string last_error() {
  std::string text;
  // Walks upwards, because the first entry is where the error occurred.
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned position, const H5E_error2_t* entry, void* to) -> herr_t {
        if (position == 0) {
          *static_cast<std::string*>(to) =
              std::string(entry->func_name) + ": " + (entry->desc == nullptr ? "" : entry->desc);
        }
        return 0;
      },
      &text);
  return text.empty() ? "no reason given" : text;
}

void fail(const char* call) {
  throw InternalError(std::string("HDF5's ") + call + " failed: " + last_error());
}

}  // namespace kolo::hdf5
