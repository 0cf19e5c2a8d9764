// Any pickle gives tensors or a DataError.
#include <cstddef>
#include <cstdint>

#include "kolo/error.h"
#include "tools/checkpoint/state_dict.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kolo::tools;
  try {
    const Pickle pickle({reinterpret_cast<const char*>(data), size});
    contents_of(
        pickle,
        [](const std::string& key) { return std::vector<unsigned char>(key.size() * 8, 1); },
        1 << 16);
  } catch (const kolo::DataError&) {
    return 0;
  }
  return 0;
}
