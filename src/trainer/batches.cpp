#include "trainer/batches.hpp"

#include <torch/data/dataloader.h>
#include <torch/data/datasets/base.h>
#include <torch/data/samplers/base.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kolo/error.h"

namespace kolo::trainer {
namespace {

using Indices = std::vector<std::size_t>;

// What LibTorch's data loader takes as a dataset. It copies one for each worker.
class Loadable : public torch::data::datasets::BatchDataset<Loadable, data::Batch> {
 public:
  explicit Loadable(data::Dataset dataset) : dataset_(std::move(dataset)) {}
  data::Batch get_batch(c10::ArrayRef<std::size_t> indices) override {
    return dataset_.get_batch(indices);
  }
  std::optional<std::size_t> size() const override { return dataset_.size(); }

 private:
  data::Dataset dataset_;
};

class FixedSampler : public torch::data::samplers::Sampler<Indices> {
 public:
  void save(torch::serialize::OutputArchive& /*archive*/) const override {}
  void load(torch::serialize::InputArchive& /*archive*/) override {}
};

class EpochSampler : public FixedSampler {
 public:
  EpochSampler(DistributedSampler share, std::uint64_t epoch, std::size_t skip)
      : share_(std::move(share)), epoch_(epoch), skip_(skip) {}
  void reset(std::optional<std::size_t> /*new_size*/ = std::nullopt) override {
    share_.set_epoch(epoch_);
    share_.reset();
    if (skip_ > 0) share_.next(skip_);
  }
  std::optional<Indices> next(std::size_t batch_size) override { return share_.next(batch_size); }

 private:
  DistributedSampler share_;
  std::uint64_t epoch_;
  std::size_t skip_;
};

class RangeSampler : public FixedSampler {
 public:
  RangeSampler(std::size_t first, std::size_t last) : first_(first), last_(last), at_(first) {}
  void reset(std::optional<std::size_t> /*new_size*/ = std::nullopt) override { at_ = first_; }
  std::optional<Indices> next(std::size_t batch_size) override {
    if (at_ >= last_) return std::nullopt;
    Indices indices(std::min(batch_size, last_ - at_));
    std::iota(indices.begin(), indices.end(), at_);
    at_ += indices.size();
    return indices;
  }

 private:
  std::size_t first_;
  std::size_t last_;
  std::size_t at_;
};

template <class Sampler>
void for_each_batch(const data::Dataset& dataset, Sampler sampler, const LoadOptions& options,
                    const UseBatch& use) {
  const auto loader = torch::data::make_data_loader(
      Loadable(dataset), std::move(sampler),
      torch::data::DataLoaderOptions(static_cast<std::size_t>(options.batch_size))
          .workers(static_cast<std::size_t>(options.workers))
          .drop_last(options.drop_last));
  for (const data::Batch& batch : *loader) {
    if (!use(batch)) return;
  }
}

}  // namespace

void for_each_batch_of_epoch(const data::Dataset& dataset, const DistributedSampler& sampler,
                             std::uint64_t epoch, std::size_t skip, const LoadOptions& options,
                             const UseBatch& use) {
  for_each_batch(dataset, EpochSampler(sampler, epoch, skip), options, use);
}

void for_each_batch_of_range(const data::Dataset& dataset, std::size_t first, std::size_t last,
                             const LoadOptions& options, const UseBatch& use) {
  for_each_batch(dataset, RangeSampler(first, last), options, use);
}

}  // namespace kolo::trainer
