// Decodes images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::data {

struct Image {
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t channels = 0;          // 1: grey; 3: red, green, blue
  std::vector<std::uint8_t> pixels;  // [height, width, channels]
};

inline constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 28U;

// Whether kolo was built with libjpeg-turbo and libpng.
bool can_decode_images();

// Decodes a JPEG or PNG file, recognized by its first bytes, into an image of 1 or 3 channels.
// Drops an alpha channel. Throws DataError, which names `path`, if the file is damaged, has another
// format or more than `most_pixels`, or if kolo was built without the libraries.
Image decode_image(const std::vector<std::uint8_t>& file, std::size_t channels,
                   const std::string& path, std::uint64_t most_pixels = kMostPixels);

}  // namespace kolo::data
