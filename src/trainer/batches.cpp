#include "trainer/batches.hpp"

#include <numeric>
#include <vector>

#include "kolo/data/loader.h"

namespace kolo::trainer {
namespace {

void for_each_batch(const data::Dataset& dataset, const DistributedSampler& sampler,
                    const LoadOptions& options, const UseBatch& use) {
  DataLoader loader(dataset, sampler,
                    DataLoaderOptions()
                        .batch_size(options.batch_size)
                        .workers(options.workers)
                        .drop_last(options.drop_last)
                        .device(options.device));
  for (const data::Batch& batch : loader) {
    if (!use(batch)) return;
  }
}

}  // namespace

void for_each_batch_of_epoch(const data::Dataset& dataset, DistributedSampler sampler,
                             std::uint64_t epoch, std::size_t skip, const LoadOptions& options,
                             const UseBatch& use) {
  sampler.seek(epoch, skip);
  for_each_batch(dataset, sampler, options, use);
}

void for_each_batch_of_range(const data::Dataset& dataset, std::size_t first, std::size_t last,
                             const LoadOptions& options, const UseBatch& use) {
  const auto range = [=](std::uint64_t, std::uint64_t) {
    std::vector<std::size_t> samples(last - first);
    std::iota(samples.begin(), samples.end(), first);
    return samples;
  };
  const auto order = data::SampleOrder::custom(dataset.size(), last - first, 1, range);
  for_each_batch(dataset, DistributedSampler(order, {}), options, use);
}

}  // namespace kolo::trainer
