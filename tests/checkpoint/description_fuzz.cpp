// Any header, with the checksum that belongs to it, and any bytes behind it: a description or a
// DataError. (Metadata whose checksum is right come from kolo; HDF5 sees no others.)
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "checkpoint/header.hpp"
#include "checkpoint/memory_files.hpp"
#include "checkpoint/reading.hpp"
#include "kolo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kolo::checkpoint;
  constexpr std::size_t kChecksumAt = 120;
  std::vector<unsigned char> bytes(data, data + size);
  // What is unlikely to be guessed: the magic, and the two numbers that depend on others.
  if (size > 64) {
    std::memcpy(bytes.data(), "KOLOCKPT", 8);
    if (bytes[12] % 2 == 0) {
      const std::uint64_t whole = size;
      std::memcpy(bytes.data() + 16, &whole, sizeof whole);
    }
  }
  if (size >= kChecksumAt + 8) {
    const std::uint64_t sum = checksum(bytes.data(), kChecksumAt);
    std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
  }
  test::MemoryFiles files;
  files.set_content("f/fuzz", bytes);
  try {
    read_description(files, "f/fuzz");
  } catch (const kolo::DataError&) {
    return 0;
  }
  return 0;
}
