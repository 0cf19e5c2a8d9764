// Images in folders. The files are written with libpng and libjpeg-turbo; tests/tools/data.sh
// compares with what Pillow decodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/data/image_folder.h>
#include <kolo/data/loader.h>
#include <png.h>
#include <torch/torch.h>
#include <turbojpeg.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "kolo/error.h"
#include "temporary_folder.hpp"

namespace kolo::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::TemporaryFolder;

// A picture of smooth colours, [3, height, width].
at::Tensor picture(std::int64_t height, std::int64_t width, int shade) {
  const at::Tensor down = torch::linspace(0, 200, height).view({height, 1}).expand({height, width});
  const at::Tensor right = torch::linspace(200, 0, width).view({1, width}).expand({height, width});
  return torch::stack({down, right, torch::full({height, width}, shade)}).to(at::kByte);
}

std::vector<std::uint8_t> interleaved(const at::Tensor& image) {
  const at::Tensor last = image.permute({1, 2, 0}).contiguous();
  const auto* const begin = last.data_ptr<std::uint8_t>();
  return {begin, begin + last.numel()};
}

void write_png(const std::string& path, const at::Tensor& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.height = static_cast<png_uint_32>(image.size(1));
  png.width = static_cast<png_uint_32>(image.size(2));
  png.format = image.size(0) == 4   ? PNG_FORMAT_RGBA
               : image.size(0) == 1 ? PNG_FORMAT_GRAY
                                    : PNG_FORMAT_RGB;
  ASSERT_NE(png_image_write_to_file(&png, path.c_str(), 0, interleaved(image).data(), 0, nullptr),
            0);
}

void write_jpeg(const std::string& path, const at::Tensor& image) {
  const tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's
  ASSERT_EQ(
      tjCompress2(encoder, interleaved(image).data(), static_cast<int>(image.size(2)), 0,
                  static_cast<int>(image.size(1)), TJPF_RGB, &bytes, &size, TJSAMP_444, 95, 0),
      0);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  tjFree(bytes);
  tjDestroy(encoder);
}

class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() {
    std::filesystem::create_directories(folder / "dog/young");
    std::filesystem::create_directories(folder / "cat");
    std::filesystem::create_directories(folder / ".hidden");
    write_png(folder / "cat/b.PNG", picture(6, 8, 10));
    write_jpeg(folder / "cat/a.jpg", picture(6, 8, 20));
    write_png(folder / "dog/young/1.png", picture(6, 8, 30));
    std::ofstream(folder / "dog/notes.txt") << "no image";
    std::ofstream(folder / "dog/.2.png") << "no image either";
  }
  std::string refusal(const std::function<void()>& function) {
    try {
      function();
    } catch (const DataError& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  TemporaryFolder folder;
};

TEST_F(ImageFolderTest, ImagesAndTheirClasses) {
  ImageFolder images(folder.path());
  EXPECT_THAT(images.classes(), ElementsAre("cat", "dog"));
  EXPECT_THAT(images.labels(), ElementsAre(0, 0, 1));
  ASSERT_EQ(images.size(), 3U);
  EXPECT_TRUE(images.get(1).data.equal(picture(6, 8, 10))) << "PNG loses nothing";
  EXPECT_TRUE(images.get(2).data.equal(picture(6, 8, 30)));
  EXPECT_EQ(images.get(2).target.item<std::int64_t>(), 1);
  const at::Tensor error =
      (images.get(0).data.to(at::kInt) - picture(6, 8, 20).to(at::kInt)).abs().max();
  EXPECT_LE(error.item<int>(), 6) << "JPEG of quality 95";
  EXPECT_THROW(images.get(3), InvalidArgumentError);
}

TEST_F(ImageFolderTest, AlphaIsDroppedAndGreyBecomesColours) {
  const at::Tensor colours = picture(4, 5, 99);
  const at::Tensor alpha = torch::arange(20).view({1, 4, 5}).to(at::kByte);
  write_png(folder / "dog/alpha.png", torch::cat({colours, alpha}));
  write_png(folder / "dog/grey.png", colours.slice(0, 0, 1));
  ImageFolder images(folder.path());
  EXPECT_TRUE(images.get(2).data.equal(colours));
  EXPECT_TRUE(images.get(3).data.equal(colours.slice(0, 0, 1).expand({3, 4, 5})));

  ImageFolder grey(folder.path(), ImageFolderOptions().channels(1));
  EXPECT_TRUE(grey.get(3).data.equal(colours.slice(0, 0, 1)));
  const at::Tensor luma = colours[0] * 0.299 + colours[1] * 0.587 + colours[2] * 0.114;
  EXPECT_LE((grey.get(2).data[0].to(at::kFloat) - luma).abs().max().item<float>(), 0.51F);
  EXPECT_EQ(grey.get(0).data.size(0), 1);
}

// Writes a grey PNG of one row, with 8 or 16 bits, and a gamma that readers of training data
// ignore.
void write_grey(const std::string& path, int bits, std::vector<png_byte> row) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file);
  const auto width = static_cast<png_uint_32>(row.size() * 8 / static_cast<std::size_t>(bits));
  png_set_IHDR(png, info, width, 1, bits, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_gAMA(png, info, 1.0);
  png_write_info(png, info);
  png_write_row(png, row.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  std::fclose(file);
}

// As Pillow has them: 0x8000 of 65535 is 128 of 255.
TEST_F(ImageFolderTest, SixteenBitsBecomeEightAndGammaIsIgnored) {
  write_grey(folder / "dog/16.png", 16, {0x80, 0x00, 0x10, 0x00, 0xFF, 0xFF});
  write_grey(folder / "dog/8.png", 8, {128, 16, 255});
  ImageFolder images(folder.path(), ImageFolderOptions().channels(1));
  const at::Tensor expected = torch::tensor({128, 16, 255}).to(at::kByte).view({1, 1, 3});
  EXPECT_TRUE(images.get(2).data.equal(expected)) << images.get(2).data;
  EXPECT_TRUE(images.get(3).data.equal(expected)) << images.get(3).data;
}

TEST_F(ImageFolderTest, ImagesAreScaledToOneSize) {
  write_png(folder / "dog/large.png", picture(60, 90, 40));
  ImageFolder images(folder.path(), ImageFolderOptions().height(12).width(16));
  DataLoader loader(images, DistributedSampler(4, {}),
                    DataLoaderOptions().batch_size(4).workers(1));
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch.data.sizes(), (at::IntArrayRef{4, 3, 12, 16}));
    EXPECT_EQ(batch.target.sum().item<std::int64_t>(), 2);
  }
  const at::Tensor large = images.get(2).data.to(at::kFloat);
  EXPECT_TRUE(large[2].equal(torch::full({12, 16}, 40.0F)));
  EXPECT_LE((large - picture(12, 16, 40).to(at::kFloat)).abs().max().item<float>(), 15.0F);
}

TEST_F(ImageFolderTest, WhatCannotBeReadIsNamed) {
  std::ofstream(folder / "cat/c.jpg") << "no image";
  std::ofstream(folder / "cat/d.png") << "";
  write_jpeg(folder / "cat/e.jpg", picture(60, 80, 1));
  std::filesystem::resize_file(folder / "cat/e.jpg", 900);
  write_png(folder / "cat/f.png", picture(60, 80, 1));
  std::filesystem::resize_file(folder / "cat/f.png", 100);
  ImageFolder images(folder.path());
  const auto of = [&](std::size_t index) { return refusal([&] { images.get(index); }); };
  EXPECT_THAT(of(2), AllOf(HasSubstr("c.jpg"), HasSubstr("neither a JPEG nor a PNG")));
  EXPECT_THAT(of(3), AllOf(HasSubstr("d.png"), HasSubstr("is empty")));
  EXPECT_THAT(of(4), AllOf(HasSubstr("e.jpg"), HasSubstr("is damaged")));
  EXPECT_THAT(of(5), AllOf(HasSubstr("f.png"), HasSubstr("is damaged")));

  const auto in = [&](const std::string& path) {
    return refusal([&] { ImageFolder(folder / path); });
  };
  std::filesystem::create_directories(folder / "empty/class");
  EXPECT_THAT(in("cat"), AllOf(HasSubstr("cat: "), HasSubstr("has no subfolders")));
  EXPECT_THAT(in("empty"), AllOf(HasSubstr("empty/class: "), HasSubstr("has no images")));
  EXPECT_THAT(in("missing"), AllOf(HasSubstr("missing: "), HasSubstr("cannot be read")));
  EXPECT_THROW(ImageFolder(folder.path(), ImageFolderOptions().channels(2)), InvalidArgumentError);
  EXPECT_THROW(ImageFolder(folder.path(), ImageFolderOptions().height(2)), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::data
