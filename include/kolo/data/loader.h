// Batches of a dataset, loaded ahead by threads.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>
#include <kolo/data/dataset.h>
#include <kolo/data/random.h>
#include <kolo/data/sampler.h>
#include <torch/arg.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>

namespace kolo {
namespace data {

// Describes a batch to a transform: its samples, the epoch, and random numbers for each sample.
class BatchInfo {
 public:
  // `indices` outlives this object.
  BatchInfo(std::uint64_t seed, std::uint64_t transform, std::uint64_t epoch,
            c10::ArrayRef<std::size_t> indices)
      : seed_(seed), transform_(transform), epoch_(epoch), indices_(indices) {}

  // The numbers of the batch's samples in the dataset.
  c10::ArrayRef<std::size_t> indices() const { return indices_; }
  // The epoch, from 0.
  std::uint64_t epoch() const { return epoch_; }
  // Random numbers for sample i of the batch. They differ between epochs and between the transforms
  // of a loader. They do not depend on the batch, the worker, or the number of ranks and workers.
  Random random(std::size_t i) const { return {seed_, transform_, epoch_, indices_[i]}; }

 private:
  std::uint64_t seed_;
  std::uint64_t transform_;
  std::uint64_t epoch_;
  c10::ArrayRef<std::size_t> indices_;
};

// Changes a batch before the program gets it. Each worker has a copy, for all epochs. It must
// replace the batch's tensors instead of writing to them, because they may be the dataset's own.
using Transform = std::function<void(Batch& batch, const BatchInfo& info)>;

class BatchSource;  // of kolo's own

}  // namespace data

class DataLoader;
struct DataLoaderOptions;

namespace detail {

// A loader of batches that do not come from a dataset.
DataLoader make_loader(std::shared_ptr<data::BatchSource> source, DistributedSampler sampler,
                       const DataLoaderOptions& options);

}  // namespace detail

// Options of a DataLoader.
struct DataLoaderOptions {
  // Number of samples in a batch; the last one of an epoch may have fewer.
  TORCH_ARG(std::int64_t, batch_size) = 1;
  // Number of threads that load batches ahead. 0: the program's thread loads a batch when it asks
  // for it.
  TORCH_ARG(int, workers) = 0;
  // Number of batches that each worker may be ahead of the program, 1 or more.
  TORCH_ARG(int, prefetch) = 2;
  // true: batches come in the sampler's order. false: batches come when they are ready, so a slow
  // one does not delay others. Their order then depends on the machine, and a position in mid-epoch
  // cannot be saved.
  TORCH_ARG(bool, ordered) = true;
  // Whether to leave out a last batch that is not full.
  TORCH_ARG(bool, drop_last) = false;
  // Seeds the transforms' random numbers.
  TORCH_ARG(std::uint64_t, seed) = 0;
  // Device of the batches that the program gets. Workers copy them to a GPU ahead, through pinned
  // memory and in their own streams; transforms run before that, where the dataset made the batch.
  // Without a value, batches stay there.
  TORCH_ARG(std::optional<at::Device>, device) = std::nullopt;
};

// Returns the batches of a sampler's share, epoch after epoch:
//
//   kolo::DataLoader loader(dataset, kolo::DistributedSampler(n, {kolo::size(), kolo::rank()}),
//                           kolo::DataLoaderOptions().batch_size(64).workers(2));
//   loader.transform(kolo::data::random_flip());
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     for (const auto& batch : loader) { ... batch.data, batch.target ... }
//   }
//
// The batches, with their random transforms, are the same for any number of workers. The sampler's
// epoch() and position() count the samples that the program has received, so the sampler can be
// saved between any two batches. Only the sampler defines the ranks' shares; nothing here is
// collective. One thread at a time.
class DataLoader {
 public:
  class Iterator;

  // Throws InvalidArgumentError for options out of range, and if the sampler was made for another
  // number of samples than the dataset has.
  DataLoader(data::Dataset dataset, DistributedSampler sampler,
             const DataLoaderOptions& options = {});
  // Waits for the batches that workers are loading.
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  // Adds a transform after the existing ones. Takes effect at the next begin().
  DataLoader& transform(data::Transform transform);

  // Begins the sampler's epoch (DistributedSampler::reset()), or continues in the middle of an
  // epoch that was loaded. Ends the current epoch, if there is one; its iterators are then invalid.
  Iterator begin();
  // The end of every epoch.
  Iterator end();

  // Number of batches in a whole epoch.
  std::size_t size() const;
  // The sampler, to save its position, load one, or set the epoch.
  DistributedSampler sampler() const;

 private:
  class State;
  friend DataLoader detail::make_loader(std::shared_ptr<data::BatchSource> source,
                                        DistributedSampler sampler,
                                        const DataLoaderOptions& options);
  explicit DataLoader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// An input iterator. If a batch cannot be loaded, begin() or ++ throws a DataError when that batch
// is due. The error names the sample, and std::rethrow_if_nested() gives the exception of the
// dataset or transform. The iteration is then over.
class DataLoader::Iterator {
 public:
  // The types that the standard library expects of an input iterator.
  using iterator_category = std::input_iterator_tag;
  using value_type = data::Batch;          // of what it points to
  using difference_type = std::ptrdiff_t;  // not used
  using pointer = data::Batch*;            // of ->
  using reference = data::Batch&;          // of *

  // The end.
  Iterator() = default;

  // The batch. It remains valid when the iterator advances, and the program may change it.
  data::Batch& operator*() { return *batch_; }
  // The same.
  data::Batch* operator->() { return &*batch_; }
  // Waits for the next batch.
  Iterator& operator++();

  // Whether both are at the end, or neither is.
  bool operator==(const Iterator& other) const {
    return batch_.has_value() == other.batch_.has_value();
  }
  // Whether one of them is at the end.
  bool operator!=(const Iterator& other) const { return !(*this == other); }

 private:
  friend class DataLoader;
  explicit Iterator(State* state);

  State* state_ = nullptr;  // of the loader, which outlives this
  std::optional<data::Batch> batch_;
};

}  // namespace kolo
