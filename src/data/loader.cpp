#include "kolo/data/loader.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "core/exception.hpp"
#include "data/batch_reader.hpp"
#include "data/batch_source.hpp"
#include "data/device_copy.hpp"
#include "data/prefetcher.hpp"
#include "data/wait_for_data.hpp"
#include "kolo/error.h"

namespace kolo {
namespace {

class DatasetSource : public data::BatchSource {
 public:
  explicit DatasetSource(data::Dataset dataset) : dataset_(std::move(dataset)) {}

  std::size_t size() const override { return dataset_.size(); }

  Read reader(const std::vector<data::Transform>& transforms, std::uint64_t seed) const override {
    return [reader =
                data::BatchReader(dataset_, transforms, seed)](const data::BatchRequest& request) {
      return reader.read(request.epoch, request.indices);
    };
  }

 private:
  data::Dataset dataset_;
};

// Calls a function that copies a batch to a device.
template <class Copy>
data::Batch copied(const Copy& copy, std::size_t number) {
  try {
    return copy();
  } catch (...) {
    std::throw_with_nested(DataError(
        "DataLoader: batch " + std::to_string(number) +
        " of the epoch cannot be copied to the device: " + text_of(std::current_exception())));
  }
}

DataLoaderOptions checked(DataLoaderOptions options) {
  const auto at_least = [](std::int64_t least, std::int64_t given, const char* name) {
    if (given >= least) return;
    throw InvalidArgumentError(std::string("DataLoader: ") + name + " is " + std::to_string(given) +
                               "; give " + std::to_string(least) + " or more");
  };
  at_least(1, options.batch_size(), "batch_size");
  at_least(0, options.workers(), "workers");
  at_least(1, options.prefetch(), "prefetch");
  return options;
}

}  // namespace

class DataLoader::State {
 public:
  State(std::shared_ptr<data::BatchSource> source, DistributedSampler sampler,
        const DataLoaderOptions& options)
      : source_(std::move(source)), sampler_(std::move(sampler)), options_(checked(options)) {
    if (sampler_.dataset_size() == source_->size()) return;
    throw InvalidArgumentError("DataLoader: the sampler is for " +
                               std::to_string(sampler_.dataset_size()) +
                               " samples, and the dataset has " + std::to_string(source_->size()));
  }
  ~State() { end_epoch(); }

  void add(data::Transform transform) {
    transforms_.push_back(std::move(transform));
    knows_all_transforms_ = false;
  }

  void begin() {
    end_epoch();  // before changing what its threads read
    sampler_.reset();
    epoch_ = sampler_.epoch();
    first_ = sampler_.position();
    indices_ = sampler_.rest();
    next_ = batches_of(indices_.size());  // ends the epoch if creating the workers fails
    if (!knows_all_transforms_) make_workers();
    if (prefetcher_) prefetcher_->begin(batches_of(indices_.size()));
    next_ = 0;
    if (batches_of(indices_.size()) == 0) end_sampler_epoch();
  }

  std::optional<data::Batch> next() {
    if (next_ == batches_of(indices_.size())) return std::nullopt;
    try {
      std::optional<data::Batch> loaded;
      {
        const data::WaitForData wait;
        loaded = prefetcher_ ? prefetcher_->next() : load_(next_);
      }
      if (prefetcher_) data::use_in_current_stream(*loaded);
      if (options_.device())
        loaded = copied([&] { return data::to_device(*loaded, *options_.device()); }, next_);
      sampler_.next(batch(next_).size());
      ++next_;
      if (next_ == batches_of(indices_.size())) end_sampler_epoch();
      return loaded;
    } catch (...) {
      next_ = batches_of(indices_.size());
      throw;
    }
  }

  std::size_t batches() const { return batches_of(sampler_.size()); }
  const DistributedSampler& sampler() const { return sampler_; }

 private:
  // Samples that do not fill a batch count as handed out, so that the next begin() begins the next
  // epoch.
  void end_sampler_epoch() {
    sampler_.next(std::max<std::size_t>(1, sampler_.size() - sampler_.position()));
  }

  data::Prefetcher::Load make_load() const {
    return [this, read = source_->reader(transforms_, options_.seed())](std::size_t number) {
      return read({epoch_, first_ + number * batch_size(), batch(number)});
    };
  }

  // Workers live for all epochs, and keep the files and caches of their copies of the dataset.
  void make_workers() {
    prefetcher_.reset();
    if (options_.workers() == 0) {
      load_ = make_load();
    } else {
      const auto workers = static_cast<std::size_t>(options_.workers());
      const std::size_t ahead = workers * static_cast<std::size_t>(options_.prefetch());
      std::vector<data::Prefetcher::Load> loads;
      loads.reserve(workers);
      for (std::size_t i = 0; i < workers; ++i) loads.push_back(make_worker());
      prefetcher_.emplace(std::move(loads), ahead, options_.ordered());
    }
    knows_all_transforms_ = true;
  }

  data::Prefetcher::Load make_worker() const {
    data::Prefetcher::Load load = make_load();
    if (!is_on_device()) return load;
    return
        [load = std::move(load), copy = data::DeviceCopy(*options_.device())](std::size_t number) {
          const data::Batch batch = load(number);
          return copied([&] { return copy(batch); }, number);
        };
  }

  void end_epoch() {
    if (!prefetcher_) return;
    source_->interrupt();
    prefetcher_->end();
    source_->resume();
  }

  std::size_t batch_size() const { return static_cast<std::size_t>(options_.batch_size()); }

  bool is_on_device() const { return options_.device() && !options_.device()->is_cpu(); }

  std::size_t batches_of(std::size_t samples) const {
    return (samples + (options_.drop_last() ? 0 : batch_size() - 1)) / batch_size();
  }

  c10::ArrayRef<std::size_t> batch(std::size_t number) const {
    const std::size_t first = number * batch_size();
    return c10::ArrayRef<std::size_t>(indices_).slice(
        first, std::min(batch_size(), indices_.size() - first));
  }

  // Constant after construction.
  std::shared_ptr<data::BatchSource> source_;
  DistributedSampler sampler_;
  DataLoaderOptions options_;

  std::vector<data::Transform> transforms_;
  bool knows_all_transforms_ = false;  // whether the workers do
  // State of the current epoch. The prefetcher comes last because its threads read the others.
  std::uint64_t epoch_ = 0;
  std::vector<std::size_t> indices_;
  std::size_t first_ = 0;  // position of indices_[0] in the share
  std::size_t next_ = 0;   // number of the batch that the program gets next
  data::Prefetcher::Load load_;
  std::optional<data::Prefetcher> prefetcher_;
};

DataLoader::DataLoader(data::Dataset dataset, DistributedSampler sampler,
                       const DataLoaderOptions& options)
    : DataLoader(std::make_unique<State>(std::make_shared<DatasetSource>(std::move(dataset)),
                                         std::move(sampler), options)) {}
DataLoader::DataLoader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

DataLoader& DataLoader::transform(data::Transform transform) {
  if (transform == nullptr) throw InvalidArgumentError("DataLoader: the transform is null");
  state_->add(std::move(transform));
  return *this;
}

DataLoader::Iterator DataLoader::begin() {
  state_->begin();
  return Iterator(state_.get());
}

DataLoader::Iterator DataLoader::end() {
  return {};
}

std::size_t DataLoader::size() const {
  return state_->batches();
}

DataLoader detail::make_loader(std::shared_ptr<data::BatchSource> source,
                               DistributedSampler sampler, const DataLoaderOptions& options) {
  return DataLoader(
      std::make_unique<DataLoader::State>(std::move(source), std::move(sampler), options));
}

DistributedSampler DataLoader::sampler() const {
  return state_->sampler();
}

DataLoader::Iterator::Iterator(State* state) : state_(state), batch_(state->next()) {}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_.reset();  // releases its memory; also the end state if next() throws
  batch_ = state_->next();
  return *this;
}

}  // namespace kolo
