// Samples in memory that the ranks of a node share.
#pragma once

#include <kolo/data/dataset.h>
#include <torch/data/datasets/base.h>
#include <torch/data/example.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

namespace kolo::data {

// Holds all samples of a dataset once in the memory of each node. The lowest rank of a node reads
// them; the other ranks map its memory:
//
//   kolo::data::SharedMemoryDataset train([] { return kolo::data::HDF5Dataset("train.h5"); });
//
// Each loader process (kolo/delivery.h) counts as a separate node and reads its own copy.
//
// Copies of the dataset share the memory, which is freed with the last copy on the node. Several
// threads may call get_batch() at once.
class SharedMemoryDataset
    : public torch::data::datasets::BatchDataset<SharedMemoryDataset, torch::data::Example<>> {
 public:
  // Collective over all ranks. `make` is called on one rank of each node. Throws DataError, on all
  // ranks, if it throws on one of them, if there are no samples, if samples differ in shape or
  // dtype, or if they need more memory than a node has left. NotInitializedError before
  // kolo::init().
  explicit SharedMemoryDataset(const std::function<Dataset()>& make);

  // Returns the samples of these indices in their order: data [N, ...], target [N, ...] or
  // undefined. They are copies. Throws InvalidArgumentError for an index that is not below size().
  torch::data::Example<> get_batch(c10::ArrayRef<std::size_t> indices) override;

  // The number of samples.
  std::optional<std::size_t> size() const override;

  // All samples [N, ...] and their targets in the shared memory. If a rank writes to them, it
  // changes them for all ranks of its node.
  const torch::data::Example<>& all() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace kolo::data
