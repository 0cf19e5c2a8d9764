#include <ATen/ATen.h>

#include <array>
#include <utility>

#include "data/data_file.hpp"
#include "data/image.hpp"
#include "data/image_files.hpp"
#include "kolo/data/image_folder.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

ImageFolderOptions checked(const ImageFolderOptions& options) {
  if (options.channels() != 1 && options.channels() != 3) {
    throw InvalidArgumentError("ImageFolder: channels is " + std::to_string(options.channels()) +
                               "; give 1 for grey or 3 for colours");
  }
  const bool has_both = options.height() > 0 && options.width() > 0;
  const bool has_none = options.height() == 0 && options.width() == 0;
  if (!has_both && !has_none) {
    throw InvalidArgumentError("ImageFolder: height is " + std::to_string(options.height()) +
                               " and width " + std::to_string(options.width()) +
                               "; give both in pixels, or neither");
  }
  return options;
}

std::vector<std::uint8_t> read_file(const std::string& path) {
  const DataFile file(path);
  std::vector<std::uint8_t> bytes(file.size());
  std::vector<iovec> whole{{bytes.data(), bytes.size()}};
  file.read(0, whole);
  return bytes;
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, const ImageFolderOptions& options)
    : options_(checked(options)) {
  ImageFiles files = list_images(folder);
  if (!can_decode_images()) decode_image({}, 1, files.paths.front());  // throws
  classes_ = std::move(files.classes);
  paths_ = std::move(files.paths);
  labels_ = std::move(files.labels);
}

torch::data::Example<> ImageFolder::get(std::size_t index) {
  if (index >= paths_.size()) {
    throw InvalidArgumentError("ImageFolder: index " + std::to_string(index) + " of " +
                               std::to_string(paths_.size()) + " images");
  }
  Image image = decode_image(read_file(paths_[index]),
                             static_cast<std::size_t>(options_.channels()), paths_[index]);
  const std::array<std::int64_t, 3> shape{static_cast<std::int64_t>(image.height),
                                          static_cast<std::int64_t>(image.width),
                                          static_cast<std::int64_t>(image.channels)};
  at::Tensor pixels = at::from_blob(image.pixels.data(), shape, at::kByte)
                          .permute({2, 0, 1})
                          .clone(at::MemoryFormat::Contiguous);
  const std::array<std::int64_t, 2> wanted{options_.height(), options_.width()};
  if (options_.height() > 0 && (shape[0] != wanted[0] || shape[1] != wanted[1])) {
    const at::Tensor scaled =
        at::_upsample_bilinear2d_aa(pixels.to(at::kFloat).unsqueeze(0), wanted, false);
    pixels = scaled.squeeze(0).round().clamp(0, 255).to(at::kByte);
  }
  return {pixels, at::tensor(labels_[index], at::kLong)};
}

std::optional<std::size_t> ImageFolder::size() const {
  return paths_.size();
}

}  // namespace kolo::data
