// libFuzzer's entry to the decoder of images; built with clang when KOLO_FUZZ is ON. Only a
// DataError, or all pixels of the image, may come out of a file, whatever is in it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "data/image.hpp"
#include "kolo/error.h"

namespace {

constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 16U;  // so that time and memory are small

}  // namespace

// The first byte chooses the number of channels.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t channels = data[0] % 2 == 0 ? 1 : 3;
  try {
    const kolo::data::Image image =
        kolo::data::decode_image({data + 1, data + size}, channels, "fuzz", kMostPixels);
    if (image.channels != channels) std::abort();
    if (image.pixels.size() != image.height * image.width * channels) std::abort();
  } catch (const kolo::DataError&) {
    return 0;
  }
  return 0;
}
