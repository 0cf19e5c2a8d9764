// Any bytes give tensors or a DataError.
#include <cstddef>
#include <cstdint>

#include "kolo/error.h"
#include "tools/checkpoint/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    kolo::tools::parse_safetensors({data, data + size}, "fuzz");
  } catch (const kolo::DataError&) {
    return 0;
  }
  return 0;
}
