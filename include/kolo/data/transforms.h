// Transforms for kolo::DataLoader. Batches of images are [N, C, H, W]. A DataLoader throws what a
// transform throws within a DataError.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <kolo/data/loader.h>

#include <cstdint>
#include <vector>

namespace kolo::data {

// Converts the samples to `dtype`, a floating-point one if there is a `scale`, and multiplies them
// by it: to_dtype(at::kFloat, 1.0 / 255) for images in uint8.
Transform to_dtype(at::ScalarType dtype, double scale = 1);

// (x - mean) / deviation, for each channel (dimension 1). A single mean and deviation apply to all
// channels. InvalidArgumentError if there are not as many deviations as means, if a deviation is 0
// or below, for samples whose number of channels differs, and for integers.
Transform normalize(const std::vector<double>& mean, const std::vector<double>& deviation);

// Cuts height x width from a random place of each image, after `padding` zeros were put around it.
// InvalidArgumentError for sizes below 1 and a padding below 0; and for images that are smaller.
Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t padding = 0);

// Mirrors each image left to right, with this probability from 0 to 1.
Transform random_flip(double probability = 0.5);

// Sets a square of `size` at a random place of each image to 0; the part of it that is outside the
// image is left out (T. DeVries, G. Taylor, arXiv:1708.04552). InvalidArgumentError for a size
// below 1.
Transform cutout(std::int64_t size);

}  // namespace kolo::data
