#include "data/batch_reader.hpp"

#include <exception>
#include <utility>

#include "core/exception.hpp"
#include "kolo/error.h"

namespace kolo::data {

void apply(const std::vector<Transform>& transforms, std::size_t first, std::uint64_t seed,
           std::uint64_t epoch, c10::ArrayRef<std::size_t> indices, Batch& batch) {
  for (std::size_t i = 0; i < transforms.size(); ++i)
    transforms[i](batch, BatchInfo(seed, first + i, epoch, indices));
}

void throw_not_loaded(const std::string& samples, std::uint64_t epoch) {
  const std::string start =
      "DataLoader: " + samples + " of epoch " + std::to_string(epoch) + " cannot be loaded: ";
  std::throw_with_nested(DataError(start + text_of(std::current_exception())));
}

std::string name_all(c10::ArrayRef<std::size_t> indices) {
  std::string all = indices.size() == 1 ? "the batch of sample" : "the batch of samples";
  for (const std::size_t index : indices) all += " " + std::to_string(index);
  return all;
}

BatchReader::BatchReader(Dataset dataset, std::vector<Transform> transforms, std::uint64_t seed)
    : dataset_(std::move(dataset)), transforms_(std::move(transforms)), seed_(seed) {}

Batch BatchReader::read(std::uint64_t epoch, c10::ArrayRef<std::size_t> indices) const {
  try {
    Batch batch = dataset_.get_batch(indices);
    apply(transforms_, 0, seed_, epoch, indices, batch);
    return batch;
  } catch (...) {
    throw_not_loaded(culprit(indices), epoch);
  }
}

// Returns the sample that the dataset cannot load, or the whole batch if each sample loads alone.
std::string BatchReader::culprit(c10::ArrayRef<std::size_t> indices) const {
  for (const std::size_t index : indices) {
    try {
      dataset_.get_batch(index);
    } catch (...) {
      return "sample " + std::to_string(index);
    }
  }
  return name_all(indices);
}

}  // namespace kolo::data
