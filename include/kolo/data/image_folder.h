// Dataset of images in folders.
#pragma once

#include <torch/arg.h>
#include <torch/data/datasets/base.h>
#include <torch/data/example.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kolo::data {

// Options for images.
struct ImageFolderOptions {
  // 3: red, green and blue; 1: grey. Images in the other form are converted.
  TORCH_ARG(std::int64_t, channels) = 3;
  // Pixels to which each image is scaled (bilinear, with antialiasing). 0: as in the file; then all
  // images of a batch must have the same size.
  TORCH_ARG(std::int64_t, height) = 0;
  // See height; give both or neither.
  TORCH_ARG(std::int64_t, width) = 0;
};

// Images in a folder with one subfolder for each class, as for torchvision's ImageFolder:
// FOLDER/cat/001.jpg, FOLDER/dog/first/7.png. Files that end in .jpg, .jpeg or .png count, in upper
// case too; subfolders of a class belong to it; hidden names do not count. The images of a class
// are in the order of their paths. An image is decoded when it is asked for. An alpha channel is
// dropped, 16 bits become 8, and colour profiles are ignored.
//
//   kolo::data::ImageFolder train("train", kolo::data::ImageFolderOptions().height(64).width(64));
//
// Several threads may call get() at once. Not collective.
class ImageFolder : public torch::data::datasets::Dataset<ImageFolder> {
 public:
  // Lists the files. Throws DataError, which names the folder and a remedy, if the folder is
  // missing or cannot be read, if there is no class or a class without images, or if kolo was built
  // without libjpeg and libpng. InvalidArgumentError for options out of range.
  explicit ImageFolder(const std::string& folder, const ImageFolderOptions& options = {});

  // Returns the image, uint8 [channels, height, width], and the number of its class, int64 [].
  // Throws InvalidArgumentError if there is no such index, and DataError for a file that is missing
  // or damaged.
  torch::data::Example<> get(std::size_t index) override;

  // The number of images.
  std::optional<std::size_t> size() const override;
  // The names of the classes, sorted by their bytes. Class i is classes()[i].
  const std::vector<std::string>& classes() const noexcept { return classes_; }
  // The class of each image; for SampleOrder::stratified().
  const std::vector<std::int64_t>& labels() const noexcept { return labels_; }

 private:
  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<std::string> paths_;
  std::vector<std::int64_t> labels_;
};

}  // namespace kolo::data
