// The MNIST dataset (LeCun, Cortes, Burges, http://yann.lecun.com/exdb/mnist), and others in the
// same format, such as Fashion-MNIST and KMNIST.
#pragma once

#include <c10/util/ArrayRef.h>
#include <torch/data/datasets/base.h>
#include <torch/data/example.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace kolo::data {

// Reads MNIST's images and labels for training or for testing from a folder, each an IDX file,
// plain or gzip: train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz], or
// t10k-images-idx3-ubyte[.gz] and t10k-labels-idx1-ubyte[.gz]. If a file exists with and without
// .gz, the plain one is read. Any number of images is accepted. Holds all of them in memory; copies
// share them. Normalisation is a transform:
// dataset.map(torch::data::transforms::Normalize<>(0.1307, 0.3081)).
class MNIST : public torch::data::datasets::Dataset<MNIST> {
 public:
  // The 60,000 images to train with, or the 10,000 to test with.
  enum class Mode { kTrain, kTest };

  // Throws DataError, naming the file and the reason, if a file is missing or damaged, if images
  // are not uint8 [N, 28, 28] with N above 0, if labels are not uint8 [N] in 0 to 9, or if the
  // numbers of images and labels differ. Not collective.
  explicit MNIST(const std::string& folder, Mode mode = Mode::kTrain);

  // The image [1, 28, 28] and its label [], views into images() and labels(): safe from several
  // threads. Throws InvalidArgumentError if there is no such index.
  torch::data::Example<> get(std::size_t index) override;

  // The images of these indices [n, 1, 28, 28] and their labels [n], for kolo::data::Dataset:
  // faster than stacking what get() returns. Throws InvalidArgumentError if there is no such index.
  torch::data::Example<> get_stacked_batch(c10::ArrayRef<std::size_t> indices) const;

  // The number of images.
  std::optional<std::size_t> size() const override;
  // Whether these are the images to train with.
  bool is_train() const noexcept { return mode_ == Mode::kTrain; }
  // All images: float32 [N, 1, 28, 28], 0 to 1.
  const torch::Tensor& images() const noexcept { return images_; }
  // All labels: int64 [N], 0 to 9.
  const torch::Tensor& labels() const noexcept { return labels_; }

 private:
  std::int64_t row(std::size_t index) const;

  Mode mode_;
  torch::Tensor images_;
  torch::Tensor labels_;
};

}  // namespace kolo::data
