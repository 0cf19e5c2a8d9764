#include "kolo/data/sampler.h"

#include <ATen/core/ivalue.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/shard.hpp"
#include "kolo/error.h"

namespace kolo {
namespace {

// A setting that a saved position depends on. Archives only have signed integers; the cast back is
// exact.
struct Setting {
  const char* name;
  std::int64_t value;
};

constexpr const char* kOrder = "order";  // missing in archives of kolo's first version; means 0

}  // namespace

struct DistributedSampler::State {
  data::SampleOrder order;
  data::ShareOptions options;
  std::uint64_t seed = 0;
  bool has_own_order = false;  // given by the program
  std::uint64_t epoch = 0;
  std::size_t position = 0;
  // Set before an epoch (or the rest of a loaded one) begins; cleared by the first next().
  bool fresh = true;
  // This rank's share of the epoch; computed on first use.
  std::optional<std::vector<std::size_t>> share = {};

  std::size_t share_size() const {
    return data::share_size(order.size(), options.num_replicas, options.drop_last);
  }

  const std::vector<std::size_t>& share_of_epoch() {
    if (!share) share = data::share_of(order.of_epoch(seed, epoch), options);
    return *share;
  }

  bool is_sequential() const {
    return order.fingerprint() == data::SampleOrder::sequential(0).fingerprint();
  }
  // Whether the order is shuffled or sequential. An archive stores no fingerprint for these.
  bool is_plain() const {
    return is_sequential() || order.fingerprint() == data::SampleOrder::shuffled(0).fingerprint();
  }

  std::vector<Setting> settings() const {
    return {{"dataset_size", static_cast<std::int64_t>(order.dataset_size())},
            {"shuffle", is_sequential() ? 0 : 1},
            {"seed", static_cast<std::int64_t>(seed)},
            {"drop_last", options.drop_last ? 1 : 0},
            {kOrder, is_plain() ? 0 : static_cast<std::int64_t>(order.fingerprint())}};
  }

  void begin(std::uint64_t new_epoch, std::size_t new_position) {
    if (new_epoch != epoch) share.reset();
    epoch = new_epoch;
    position = new_position;
    fresh = true;
  }
};

namespace {

data::ShareOptions checked(const DistributedSampler::Options& options) {
  if (options.num_replicas < 1 || options.rank < 0 || options.rank >= options.num_replicas) {
    throw InvalidArgumentError("DistributedSampler: rank " + std::to_string(options.rank) + " of " +
                               std::to_string(options.num_replicas) +
                               " replicas; num_replicas must be 1 or more and rank below it");
  }
  return {static_cast<std::size_t>(options.num_replicas), static_cast<std::size_t>(options.rank),
          options.drop_last};
}

data::SampleOrder plain_order(std::size_t dataset_size, bool shuffle) {
  return shuffle ? data::SampleOrder::shuffled(dataset_size)
                 : data::SampleOrder::sequential(dataset_size);
}

std::int64_t read_number(torch::serialize::InputArchive& archive, const std::string& name) {
  c10::IValue value;
  if (!archive.try_read(name, value) || !value.isInt()) {
    throw DataError("DistributedSampler: the archive has no number '" + name +
                    "'; give one that DistributedSampler::save() wrote");
  }
  return value.toInt();
}

}  // namespace

DistributedSampler::DistributedSampler(std::size_t dataset_size, const Options& options)
    : state_(std::make_shared<State>(State{plain_order(dataset_size, options.shuffle),
                                           checked(options), options.seed, false})) {}

DistributedSampler::DistributedSampler(data::SampleOrder order, const Options& options)
    : state_(
          std::make_shared<State>(State{std::move(order), checked(options), options.seed, true})) {}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  const bool loaded_here = state_->fresh && state_->epoch == epoch;
  if (!loaded_here) state_->begin(epoch, 0);
}

void DistributedSampler::seek(std::uint64_t epoch, std::size_t position) {
  if (position > size()) {
    throw InvalidArgumentError("DistributedSampler: position " + std::to_string(position) +
                               " in a share of " + std::to_string(size()) + " samples");
  }
  state_->begin(epoch, position);
}

std::vector<std::size_t> DistributedSampler::rest() const {
  const std::vector<std::size_t>& share = state_->share_of_epoch();
  return {share.begin() + static_cast<std::ptrdiff_t>(state_->position), share.end()};
}

std::uint64_t DistributedSampler::epoch() const {
  return state_->epoch;
}
std::size_t DistributedSampler::position() const {
  return state_->position;
}
std::size_t DistributedSampler::dataset_size() const {
  return state_->order.dataset_size();
}
std::size_t DistributedSampler::size() const {
  return state_->share_size();
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  if (!state_->fresh) state_->begin(state_->epoch + 1, 0);
  if (new_size && *new_size != state_->order.dataset_size()) {
    if (state_->has_own_order) {
      throw InvalidArgumentError("DistributedSampler: the dataset has " +
                                 std::to_string(*new_size) + " samples, and the order is for " +
                                 std::to_string(state_->order.dataset_size()) +
                                 "; make a sampler with a new order");
    }
    state_->order = plain_order(*new_size, !state_->is_sequential());
    state_->share.reset();
    state_->position = 0;
  }
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  if (batch_size == 0) {
    throw InvalidArgumentError("DistributedSampler: batch_size is 0; give 1 or more");
  }
  State& state = *state_;
  state.fresh = false;
  const std::vector<std::size_t>& share = state.share_of_epoch();
  const std::size_t count = std::min(batch_size, share.size() - state.position);
  if (count == 0) return std::nullopt;
  const auto first = share.begin() + static_cast<std::ptrdiff_t>(state.position);
  state.position += count;
  return std::vector<std::size_t>(first, first + static_cast<std::ptrdiff_t>(count));
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  for (const Setting& setting : state_->settings())
    archive.write(setting.name, c10::IValue(setting.value));
  archive.write("num_replicas",
                c10::IValue(static_cast<std::int64_t>(state_->options.num_replicas)));
  archive.write("epoch", c10::IValue(static_cast<std::int64_t>(state_->epoch)));
  archive.write("position", c10::IValue(static_cast<std::int64_t>(state_->position)));
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  for (const Setting& setting : state_->settings()) {
    c10::IValue value;
    const bool is_missing_order =
        setting.name == std::string(kOrder) && !archive.try_read(kOrder, value);
    const std::int64_t saved = is_missing_order ? 0 : read_number(archive, setting.name);
    if (saved == setting.value) continue;
    throw InvalidArgumentError(std::string("DistributedSampler: the archive was saved with ") +
                               setting.name + " " + std::to_string(saved) + ", this sampler has " +
                               std::to_string(setting.value) +
                               "; make it with the same, or use set_epoch() to begin an epoch");
  }
  const auto epoch = static_cast<std::uint64_t>(read_number(archive, "epoch"));
  const auto saved = static_cast<std::uint64_t>(read_number(archive, "position"));
  const std::int64_t replicas = read_number(archive, "num_replicas");
  const std::size_t samples = state_->order.size();
  const data::ShareOptions& options = state_->options;
  const auto size_then = [&] {
    return data::share_size(samples, static_cast<std::size_t>(replicas), options.drop_last);
  };
  if (replicas < 1 || saved > size_then()) {
    throw DataError("DistributedSampler: the archive is damaged: position " +
                    std::to_string(saved) + " in an epoch of " + std::to_string(samples) +
                    " samples for " + std::to_string(replicas) + " ranks");
  }
  // The archive may come from another number of ranks. Together those ranks have handed out the
  // beginning of the epoch's order. Rounds down, so that no sample is left out.
  const bool is_over = saved == size_then();
  const std::uint64_t among_now =
      saved * static_cast<std::uint64_t>(replicas) / options.num_replicas;
  state_->begin(epoch, is_over ? size() : std::min<std::uint64_t>(size(), among_now));
  // If the epoch was not over but this rank has nothing left of it, the epoch ends at once.
  state_->fresh = !is_over;
}

}  // namespace kolo
