#include "data/image.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "data/data_error.hpp"

namespace kolo::data {
namespace {

constexpr std::size_t kColours = 3;

void require_size(std::uint64_t width, std::uint64_t height, const std::string& path) {
  constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 28U;
  if (width > 0 && height > 0 && width <= kMostPixels / height) return;
  fail(path, "has " + std::to_string(width) + " x " + std::to_string(height) + " pixels",
       "give an image of 1 to 268,435,456 pixels");
}

Image decode_jpeg(const std::vector<std::uint8_t>& file, std::size_t channels,
                  const std::string& path) {
  using Decoder = std::unique_ptr<void, int (*)(tjhandle)>;
  const Decoder decoder(tjInitDecompress(), tjDestroy);
  if (decoder == nullptr) throw std::bad_alloc();
  const auto require = [&](int code) {
    // A warning is an error, too: the decoder fills what is missing with grey.
    if (code == 0) return;
    fail(path, std::string("is damaged (") + tjGetErrorStr2(decoder.get()) + ")", kGetAgain);
  };
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  require(tjDecompressHeader3(decoder.get(), file.data(), file.size(), &width, &height,
                              &subsampling, &colours));
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    fail(path, "has the colours of a printer (CMYK)", "convert it to RGB");
  require_size(static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(height), path);
  Image image{static_cast<std::size_t>(height), static_cast<std::size_t>(width), channels, {}};
  image.pixels.resize(image.height * image.width * channels);
  require(tjDecompress2(decoder.get(), file.data(), file.size(), image.pixels.data(), width, 0,
                        height, channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT));
  return image;
}

// The luma of ITU-R BT.601, as JPEG has it.
std::uint8_t grey(const std::uint8_t* pixel) {
  return static_cast<std::uint8_t>(
      (pixel[0] * 19595U + pixel[1] * 38470U + pixel[2] * 7471U + (1U << 15U)) >> 16U);
}

Image decode_png(const std::vector<std::uint8_t>& file, std::size_t channels,
                 const std::string& path) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_imagep)> freed(&png, png_image_free);
  const auto require = [&](int succeeded) {
    if (succeeded == 0 || png.warning_or_error != 0)
      fail(path, std::string("is damaged (") + png.message + ")", kGetAgain);
  };
  require(png_image_begin_read_from_memory(&png, file.data(), file.size()));
  require_size(png.width, png.height, path);
  png.format = PNG_FORMAT_RGBA;  // with alpha, for libpng would blend it with a background
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png));
  require(png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr));
  Image image{png.height, png.width, channels, {}};
  image.pixels.reserve(image.height * image.width * channels);
  for (std::size_t at = 0; at < pixels.size(); at += kColours + 1) {
    const std::uint8_t* const pixel = pixels.data() + at;
    if (channels == 1) {
      image.pixels.push_back(grey(pixel));
    } else {
      image.pixels.insert(image.pixels.end(), pixel, pixel + kColours);
    }
  }
  return image;
}

template <std::size_t N>
bool begins_with(const std::vector<std::uint8_t>& file, const std::array<std::uint8_t, N>& magic) {
  return file.size() >= N && std::equal(magic.begin(), magic.end(), file.begin());
}

}  // namespace

bool can_decode_images() {
  return true;
}

Image decode_image(const std::vector<std::uint8_t>& file, std::size_t channels,
                   const std::string& path) {
  constexpr std::array<std::uint8_t, 2> kJpeg{0xFF, 0xD8};
  constexpr std::array<std::uint8_t, 4> kPng{0x89, 'P', 'N', 'G'};
  if (begins_with(file, kJpeg)) return decode_jpeg(file, channels, path);
  if (begins_with(file, kPng)) return decode_png(file, channels, path);
  fail(path, file.empty() ? "is empty" : "is neither a JPEG nor a PNG image", kGetAgain);
}

}  // namespace kolo::data
