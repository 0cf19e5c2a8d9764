// Datasets in NumPy files.
#pragma once

#include <torch/data/datasets/base.h>
#include <torch/data/example.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace kolo::data {

// Samples in a file of numpy.save() (.npy), which may be larger than memory: only requested samples
// are read. Sample i is samples[i] with targets[i], in the dtype of the file (a batch [N, ...]).
// Supports numbers of all types that tensors support, little-endian, in C order.
//
//   kolo::data::NumpyDataset train("images.npy", "labels.npy");
//
// Copies share the open files. Several threads may call get_batch() at once. Not collective.
class NumpyDataset
    : public torch::data::datasets::BatchDataset<NumpyDataset, torch::data::Example<>> {
 public:
  // `targets`: a file, or empty for samples without targets. Throws DataError, which names the
  // file, the reason and a remedy, if a file is missing, damaged or not in NumPy's format, if an
  // array has no dimensions, Fortran order, big-endian elements, or elements of a type that tensors
  // do not support, or if the numbers of samples and targets differ.
  explicit NumpyDataset(const std::string& samples, const std::string& targets = "");

  // Returns the samples of these indices in their order: data [N, ...], target [N, ...] or
  // undefined. Throws InvalidArgumentError for an index that is not below size(), and DataError for
  // a file that has changed since it was opened.
  torch::data::Example<> get_batch(c10::ArrayRef<std::size_t> indices) override;

  // The number of samples.
  std::optional<std::size_t> size() const override;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace kolo::data
