#include "trainer/batches.hpp"

#include <utility>
#include <vector>

#include "kolo/data/loader.h"

namespace kolo::trainer {
namespace {

// A part of a dataset, in LibTorch's form.
struct Part {
  data::Batch get_batch(c10::ArrayRef<std::size_t> indices) const {
    std::vector<std::size_t> in_whole(indices.begin(), indices.end());
    for (std::size_t& index : in_whole) index += first;
    return whole.get_batch(in_whole);
  }
  std::optional<std::size_t> size() const { return count; }

  data::Dataset whole;
  std::size_t first;
  std::size_t count;
};

void for_each_batch(const data::Dataset& dataset, const DistributedSampler& sampler,
                    const LoadOptions& options, const UseBatch& use) {
  DataLoader loader(dataset, sampler,
                    DataLoaderOptions()
                        .batch_size(options.batch_size)
                        .workers(options.workers)
                        .drop_last(options.drop_last));
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
  DistributedSampler::Options in_order;
  in_order.shuffle = false;
  for_each_batch(Part{dataset, first, last - first}, DistributedSampler(last - first, in_order),
                 options, use);
}

}  // namespace kolo::trainer
