// libFuzzer's entry to the header of NumPy's files; built with clang when KOLO_FUZZ is ON. Only a
// DataError, or an array that lies within the file, may come out of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "data/npy.hpp"
#include "kolo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const kolo::data::NpyArray array = kolo::data::parse_npy({data, data + size}, size, "fuzz");
    const std::uint64_t bytes = kolo::elements_of(array.shape).value() * kolo::size_of(array.type);
    if (array.offset > size || bytes > size - array.offset) std::abort();
  } catch (const kolo::DataError&) {
    return 0;
  }
  return 0;
}
