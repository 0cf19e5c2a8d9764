#include "kolo/data/transforms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

#include "kolo/error.h"

namespace kolo::data {
namespace {

void require(bool condition, const std::string& otherwise) {
  if (!condition) throw InvalidArgumentError(otherwise);
}

void require_images(const Batch& batch, const char* transform) {
  if (batch.data.dim() == 4) return;
  throw InvalidArgumentError(std::string(transform) + ": the samples have " +
                             std::to_string(batch.data.dim() - 1) +
                             " dimensions; images have three [C, H, W]");
}

std::int64_t index_below(Random& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
}

}  // namespace

Transform to_dtype(at::ScalarType dtype, double scale) {
  return [=](Batch& batch, const BatchInfo& /*info*/) {
    batch.data = batch.data.to(dtype);
    if (scale != 1) batch.data = batch.data * scale;
  };
}

Transform normalize(const std::vector<double>& mean, const std::vector<double>& deviation) {
  require(!mean.empty() && mean.size() == deviation.size(),
          "normalize: there are " + std::to_string(mean.size()) + " means and " +
              std::to_string(deviation.size()) +
              " deviations; give one of each, or of each channel");
  require(std::all_of(deviation.begin(), deviation.end(), [](double one) { return one > 0; }),
          "normalize: a deviation is 0 or below; it must be above 0");
  const at::Tensor means = at::tensor(mean, at::kDouble);
  const at::Tensor deviations = at::tensor(deviation, at::kDouble);
  return [=](Batch& batch, const BatchInfo& /*info*/) {
    const at::Tensor& data = batch.data;
    require(data.is_floating_point(),
            "normalize: the samples are integers; put to_dtype(at::kFloat) before it");
    const bool fits = means.numel() == 1 || (data.dim() > 1 && data.size(1) == means.numel());
    require(fits, "normalize: there are means of " + std::to_string(means.numel()) +
                      " channels; dimension 1 of the batch must be as large");
    std::vector<std::int64_t> shape(static_cast<std::size_t>(data.dim()), 1);
    if (means.numel() > 1) shape[1] = means.numel();
    batch.data =
        (data - means.view(shape).to(data.options())) / deviations.view(shape).to(data.options());
  };
}

Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t padding) {
  require(height > 0 && width > 0 && padding >= 0,
          "random_crop: height and width must be 1 or more, and padding 0 or more");
  return [=](Batch& batch, const BatchInfo& info) {
    require_images(batch, "random_crop");
    const at::Tensor padded =
        padding > 0 ? at::constant_pad_nd(batch.data, {padding, padding, padding, padding})
                    : batch.data;
    const std::int64_t rows = padded.size(2) - height;
    const std::int64_t columns = padded.size(3) - width;
    require(rows >= 0 && columns >= 0, "random_crop: the images are smaller than " +
                                           std::to_string(height) + " x " + std::to_string(width));
    at::Tensor cut = at::empty({padded.size(0), padded.size(1), height, width}, padded.options());
    for (std::int64_t i = 0; i < padded.size(0); ++i) {
      Random random = info.random(static_cast<std::size_t>(i));
      const std::int64_t row = index_below(random, rows + 1);
      const std::int64_t column = index_below(random, columns + 1);
      cut[i].copy_(padded[i].narrow(1, row, height).narrow(2, column, width));
    }
    batch.data = cut;
  };
}

Transform random_flip(double probability) {
  require(probability >= 0 && probability <= 1, "random_flip: the probability must be from 0 to 1");
  return [=](Batch& batch, const BatchInfo& info) {
    require_images(batch, "random_flip");
    at::Tensor chosen = at::empty({batch.data.size(0)}, at::kBool);
    bool* const flags = chosen.data_ptr<bool>();
    for (std::int64_t i = 0; i < batch.data.size(0); ++i)
      flags[i] = info.random(static_cast<std::size_t>(i)).uniform() < probability;
    batch.data = at::where(chosen.view({-1, 1, 1, 1}).to(batch.data.device()), batch.data.flip({3}),
                           batch.data);
  };
}

Transform cutout(std::int64_t size) {
  require(size > 0, "cutout: the size must be 1 or more");
  return [=](Batch& batch, const BatchInfo& info) {
    require_images(batch, "cutout");
    at::Tensor data = batch.data.clone();
    for (std::int64_t i = 0; i < data.size(0); ++i) {
      Random random = info.random(static_cast<std::size_t>(i));
      at::Tensor square = data[i];
      for (const std::int64_t dimension : {1, 2}) {
        const std::int64_t extent = data.size(dimension + 1);
        const std::int64_t first = index_below(random, extent) - size / 2;
        const std::int64_t begin = std::max<std::int64_t>(first, 0);
        const std::int64_t end = std::min(first + size, extent);
        square = square.narrow(dimension, begin, end - begin);
      }
      square.zero_();
    }
    batch.data = data;
  };
}

}  // namespace kolo::data
