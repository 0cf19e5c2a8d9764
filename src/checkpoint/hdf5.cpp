#include "checkpoint/hdf5.hpp"

#include "kolo/error.h"

namespace kolo::checkpoint::hdf5 {

std::string last_error() {
  std::string text;
  // Upwards: the first entry is where it went wrong.
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

}  // namespace kolo::checkpoint::hdf5
