// Reads the batches of an epoch or of a range.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kolo/data/dataset.h"
#include "kolo/data/sampler.h"

namespace kolo::trainer {

struct LoadOptions {
  std::int64_t batch_size = 1;
  int workers = 0;
  bool drop_last = false;
  at::Device device = at::kCPU;  // where batches are used
};

// Uses a batch. Returns whether the next batch is wanted.
using UseBatch = std::function<bool(const data::Batch& batch)>;

// Visits the rank's share of an epoch, without its first `skip` samples. Throws a DataError that
// names the sample if the dataset throws, also in a worker thread.
void for_each_batch_of_epoch(const data::Dataset& dataset, DistributedSampler sampler,
                             std::uint64_t epoch, std::size_t skip, const LoadOptions& options,
                             const UseBatch& use);

// Visits the samples from `first` up to but not including `last`, in order.
void for_each_batch_of_range(const data::Dataset& dataset, std::size_t first, std::size_t last,
                             const LoadOptions& options, const UseBatch& use);

}  // namespace kolo::trainer
