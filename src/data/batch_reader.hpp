// Reads batches of a dataset, and applies the transforms.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kolo/data/dataset.h"
#include "kolo/data/loader.h"

namespace kolo::data {

// Applies the transforms to a batch of these samples. `first` is the number of the first of these
// transforms among all that the batch gets.
void apply(const std::vector<Transform>& transforms, std::size_t first, std::uint64_t seed,
           std::uint64_t epoch, c10::ArrayRef<std::size_t> indices, Batch& batch);

// Throws a DataError that says which samples cannot be loaded, and nests the current exception.
// Call it in a catch block.
[[noreturn]] void throw_not_loaded(const std::string& samples, std::uint64_t epoch);
// Returns "the batch of samples 3 4 5".
std::string name_all(c10::ArrayRef<std::size_t> indices);

// A value type; each worker has a copy.
class BatchReader {
 public:
  BatchReader(Dataset dataset, std::vector<Transform> transforms, std::uint64_t seed);

  // Throws a DataError that names the sample that the dataset cannot load, or all samples of the
  // batch.
  Batch read(std::uint64_t epoch, c10::ArrayRef<std::size_t> indices) const;

 private:
  std::string culprit(c10::ArrayRef<std::size_t> indices) const;

  Dataset dataset_;
  std::vector<Transform> transforms_;
  std::uint64_t seed_;
};

}  // namespace kolo::data
