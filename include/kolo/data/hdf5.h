// Datasets in HDF5 files.
#pragma once

#include <torch/arg.h>
#include <torch/data/datasets/base.h>
#include <torch/data/example.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kolo::data {

// Options for HDF5 files: the arrays of samples and targets, and the cache.
struct HDF5DatasetOptions {
  // Path in the file of the array of samples, such as "samples" or "images/train".
  TORCH_ARG(std::string, samples) = "samples";
  // Path of the array of targets. Empty: the samples have no targets.
  TORCH_ARG(std::string, targets) = "targets";
  // Bytes of decompressed chunks kept in memory, for each array of each file. All copies of a
  // dataset share them. A chunk with several samples is decompressed again if it is not kept until
  // its other samples are asked for. An array of at most this size whose samples have at most 64
  // bytes, as labels do, is read whole at the first use; damage anywhere in it is an error then.
  TORCH_ARG(std::size_t, cache_bytes) = std::size_t{32} << 20;
};

// Samples in HDF5 files, which may be larger than memory: only requested samples are read. Sample i
// is samples[i] with targets[i], in the dtype of the file (a batch [N, ...]); normalising and
// converting are transforms. Supports any shape, numbers of all types that tensors support,
// contiguous arrays, chunks with any filter of HDF5, virtual datasets, and external files.
//
//   kolo::data::HDF5Dataset train("train.h5", kolo::data::HDF5DatasetOptions().targets("labels"));
//   auto loader = torch::data::make_data_loader(train, sampler, options.workers(4));
//
// Copies share the open files and the cache. Several threads may call get_batch() at once. Each
// thread undoes gzip, shuffle and fletcher32 by itself; HDF5's library undoes other filters, one
// thread at a time. If the program calls HDF5 itself while a loader runs, HDF5 must have been built
// with thread safety (H5is_library_threadsafe()), as Debian's package is. Not collective.
class HDF5Dataset
    : public torch::data::datasets::BatchDataset<HDF5Dataset, torch::data::Example<>> {
 public:
  // Opens one file. Throws DataError, which names the file, the array, the reason and a remedy, if
  // the file is missing, damaged or not HDF5, if it has no array of that name (the message lists
  // its arrays), if an array has no numbers or needs a filter that is not installed, or if the
  // numbers of samples and targets differ.
  explicit HDF5Dataset(const std::string& path, HDF5DatasetOptions options = {});
  // Opens several files, whose samples follow each other in the order of `paths`. They must have
  // the same shape and dtype. All stay open. InvalidArgumentError if `paths` is empty.
  explicit HDF5Dataset(const std::vector<std::string>& paths, HDF5DatasetOptions options = {});

  // Returns the samples of these indices in their order: data [N, ...], target [N, ...] or
  // undefined. Throws InvalidArgumentError for an index that is not below size(), and DataError for
  // data that are damaged and for a file that has changed since it was opened.
  torch::data::Example<> get_batch(c10::ArrayRef<std::size_t> indices) override;
  // The same for the samples first to first + count - 1.
  torch::data::Example<> get_range(std::size_t first, std::size_t count);

  // The number of samples in all files.
  std::optional<std::size_t> size() const override;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace kolo::data
