#include "data/image.hpp"

#include <png.h>
#include <setjmp.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "data/data_error.hpp"

namespace kolo::data {
namespace {

constexpr std::size_t kColours = 3;
// libpng allocates a chunk's stated length before it reads the chunk. It never needs as much as
// this: a row has at most 1,000,000 pixels of 8 bytes.
constexpr png_alloc_size_t kMostBytesAtOnce = png_alloc_size_t{16} << 20U;

void require_size(std::uint64_t width, std::uint64_t height, std::uint64_t most_pixels,
                  const std::string& path) {
  if (width > 0 && height > 0 && width <= most_pixels / height) return;
  fail(path, "has " + std::to_string(width) + " x " + std::to_string(height) + " pixels",
       "give an image of 1 to " + std::to_string(most_pixels) + " pixels");
}

Image decode_jpeg(const std::vector<std::uint8_t>& file, std::size_t channels,
                  const std::string& path, std::uint64_t most_pixels) {
  using Decoder = std::unique_ptr<void, int (*)(tjhandle)>;
  const Decoder decoder(tjInitDecompress(), tjDestroy);
  if (decoder == nullptr) throw std::bad_alloc();
  const auto require = [&](int code) {
    // Treats a warning as an error, because the decoder fills missing parts with grey.
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
    fail(path, "has CMYK colours", "convert it to RGB");
  require_size(static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(height), most_pixels,
               path);
  Image image{static_cast<std::size_t>(height), static_cast<std::size_t>(width), channels, {}};
  image.pixels.resize(image.height * image.width * channels);
  require(tjDecompress2(decoder.get(), file.data(), file.size(), image.pixels.data(), width, 0,
                        height, channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT));
  return image;
}

// Returns the luma of ITU-R BT.601, as JPEG defines it.
std::uint8_t grey(const std::uint8_t* pixel) {
  return static_cast<std::uint8_t>(
      (pixel[0] * 19595U + pixel[1] * 38470U + pixel[2] * 7471U + (1U << 15U)) >> 16U);
}

// A file that libpng reads from memory.
struct PngSource {
  PngSource(const std::vector<std::uint8_t>& bytes)
      : file(bytes),
        png(png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, &PngSource::on_error,
                                     &PngSource::on_warning, nullptr, &PngSource::on_malloc,
                                     &PngSource::on_free)) {
    if (png == nullptr) throw std::bad_alloc();
    info = png_create_info_struct(png);
    png_set_read_fn(png, this, &PngSource::on_read);
  }
  ~PngSource() { png_destroy_read_struct(&png, &info, nullptr); }
  PngSource(const PngSource&) = delete;
  PngSource& operator=(const PngSource&) = delete;

  static void on_error(png_structp png, png_const_charp message) {
    static_cast<PngSource*>(png_get_error_ptr(png))->reason = message;
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}
  static png_voidp on_malloc(png_structp /*png*/, png_alloc_size_t size) {
    return size > kMostBytesAtOnce ? nullptr : std::malloc(size);
  }
  static void on_free(png_structp /*png*/, png_voidp memory) { std::free(memory); }
  static void on_read(png_structp png, png_bytep to, std::size_t size) {
    auto* const source = static_cast<PngSource*>(png_get_io_ptr(png));
    if (size > source->file.size() - source->at) png_error(png, "it ends too early");
    std::copy_n(source->file.data() + source->at, size, to);
    source->at += size;
  }

  const std::vector<std::uint8_t>& file;
  std::size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string reason;  // of the last error
};

// read_header() and read_rows() return false after an error. libpng jumps to them, so they must not
// own objects with destructors.
bool read_header(PngSource& source) {
  if (setjmp(png_jmpbuf(source.png)) != 0) return false;
  png_read_info(source.png, source.info);
  png_set_expand(source.png);
  png_set_scale_16(source.png);
  png_set_strip_alpha(source.png);
  png_set_interlace_handling(source.png);
  return true;
}
bool read_rows(PngSource& source, std::vector<png_bytep>& rows) {
  if (setjmp(png_jmpbuf(source.png)) != 0) return false;
  png_read_image(source.png, rows.data());
  png_read_end(source.png, nullptr);
  return true;
}

Image decode_png(const std::vector<std::uint8_t>& file, std::size_t channels,
                 const std::string& path, std::uint64_t most_pixels) {
  PngSource source(file);
  const auto require = [&](bool succeeded) {
    if (!succeeded) fail(path, "is damaged (" + source.reason + ")", kGetAgain);
  };
  require(read_header(source));
  Image image{png_get_image_height(source.png, source.info),
              png_get_image_width(source.png, source.info),
              channels,
              {}};
  require_size(image.width, image.height, most_pixels, path);
  const bool is_grey = (png_get_color_type(source.png, source.info) & PNG_COLOR_MASK_COLOR) == 0;
  const std::size_t stored = is_grey ? 1 : kColours;
  const std::size_t count = image.height * image.width;
  std::vector<std::uint8_t> pixels(count * stored);
  std::vector<png_bytep> rows;
  for (std::size_t row = 0; row < image.height; ++row)
    rows.push_back(pixels.data() + row * image.width * stored);
  require(read_rows(source, rows));
  if (stored == channels) {
    image.pixels = std::move(pixels);
    return image;
  }
  image.pixels.reserve(count * channels);
  for (std::size_t i = 0; i < count; ++i) {
    if (is_grey) {
      image.pixels.insert(image.pixels.end(), kColours, pixels[i]);
    } else {
      image.pixels.push_back(grey(pixels.data() + i * kColours));
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
                   const std::string& path, std::uint64_t most_pixels) {
  constexpr std::array<std::uint8_t, 2> kJpeg{0xFF, 0xD8};
  constexpr std::array<std::uint8_t, 4> kPng{0x89, 'P', 'N', 'G'};
  if (begins_with(file, kJpeg)) return decode_jpeg(file, channels, path, most_pixels);
  if (begins_with(file, kPng)) return decode_png(file, channels, path, most_pixels);
  fail(path, file.empty() ? "is empty" : "is neither a JPEG nor a PNG image", kGetAgain);
}

}  // namespace kolo::data
