// Replaces image.cpp if libjpeg-turbo or libpng is missing.
#include "data/data_error.hpp"
#include "data/image.hpp"

namespace kolo::data {

bool can_decode_images() {
  return false;
}

Image decode_image(const std::vector<std::uint8_t>& /*file*/, std::size_t /*channels*/,
                   const std::string& path, std::uint64_t /*most_pixels*/) {
  fail(path, "is an image, and kolo was built without libjpeg-turbo and libpng",
       "install both with their headers and build kolo again");
}

}  // namespace kolo::data
