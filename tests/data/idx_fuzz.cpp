// libFuzzer's entry to the IDX reader; built with clang when KOLO_FUZZ is ON. Only a DataError may
// come out of a file, whatever is in it.
#include <cstddef>
#include <cstdint>

#include "kolo/data/idx.h"
#include "kolo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    kolo::data::parse_idx(data, size, "fuzz");
  } catch (const kolo::DataError&) {
    return 0;
  }
  return 0;
}
