#include "kolo/data/sampler.h"

#include <ATen/core/ivalue.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <string>

#include "data/shard.hpp"
#include "kolo/error.h"

namespace kolo {

struct DistributedSampler::State {
  data::ShardOptions options;
  std::uint64_t epoch = 0;
  std::size_t position = 0;
  // Set where an epoch (or the rest of a loaded one) is about to begin; the first next() clears it.
  bool fresh = true;
  // This rank's share of the epoch; made when it is first asked for.
  std::optional<std::vector<std::size_t>> share;

  std::size_t share_size() const {
    return data::shard_size(options.dataset_size, options.num_replicas, options.drop_last);
  }

  const std::vector<std::size_t>& share_of_epoch() {
    if (!share) share = data::shard(options, epoch);
    return *share;
  }

  void begin(std::uint64_t new_epoch, std::size_t new_position) {
    if (new_epoch != epoch) share.reset();
    epoch = new_epoch;
    position = new_position;
    fresh = true;
  }
};

namespace {

data::ShardOptions checked(std::size_t dataset_size, const DistributedSampler::Options& options) {
  if (options.num_replicas < 1 || options.rank < 0 || options.rank >= options.num_replicas) {
    throw InvalidArgumentError("DistributedSampler: rank " + std::to_string(options.rank) + " of " +
                               std::to_string(options.num_replicas) +
                               " replicas; num_replicas must be 1 or more and rank below it");
  }
  return {dataset_size,
          static_cast<std::size_t>(options.num_replicas),
          static_cast<std::size_t>(options.rank),
          options.shuffle,
          options.seed,
          options.drop_last};
}

// What a saved position refers to. Archives know signed integers alone; the cast back is exact.
struct Setting {
  const char* name;
  std::int64_t value;
};

std::vector<Setting> settings_of(const data::ShardOptions& options) {
  return {{"dataset_size", static_cast<std::int64_t>(options.dataset_size)},
          {"shuffle", options.shuffle ? 1 : 0},
          {"seed", static_cast<std::int64_t>(options.seed)},
          {"drop_last", options.drop_last ? 1 : 0}};
}

// Where a rank of another number of ranks goes on: together they have handed out the beginning of
// the epoch's order. Rounded down, so that no sample is left out.
std::uint64_t position_among(const data::ShardOptions& now, std::uint64_t position,
                             std::uint64_t replicas) {
  const std::uint64_t share = data::shard_size(now.dataset_size, now.num_replicas, now.drop_last);
  const bool is_over = position == data::shard_size(now.dataset_size, replicas, now.drop_last);
  return is_over ? share : std::min(share, position * replicas / now.num_replicas);
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
    : state_(std::make_shared<State>()) {
  state_->options = checked(dataset_size, options);
}

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
  return state_->options.dataset_size;
}
std::size_t DistributedSampler::size() const {
  return state_->share_size();
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  if (!state_->fresh) state_->begin(state_->epoch + 1, 0);
  if (new_size && *new_size != state_->options.dataset_size) {
    state_->options.dataset_size = *new_size;
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
  for (const Setting& setting : settings_of(state_->options)) {
    archive.write(setting.name, c10::IValue(setting.value));
  }
  archive.write("num_replicas",
                c10::IValue(static_cast<std::int64_t>(state_->options.num_replicas)));
  archive.write("epoch", c10::IValue(static_cast<std::int64_t>(state_->epoch)));
  archive.write("position", c10::IValue(static_cast<std::int64_t>(state_->position)));
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  for (const Setting& setting : settings_of(state_->options)) {
    const std::int64_t saved = read_number(archive, setting.name);
    if (saved == setting.value) continue;
    throw InvalidArgumentError(std::string("DistributedSampler: the archive was saved with ") +
                               setting.name + " " + std::to_string(saved) + ", this sampler has " +
                               std::to_string(setting.value) +
                               "; make it with the same, or use set_epoch() to begin an epoch");
  }
  const auto epoch = static_cast<std::uint64_t>(read_number(archive, "epoch"));
  const auto saved = static_cast<std::uint64_t>(read_number(archive, "position"));
  const std::int64_t replicas = read_number(archive, "num_replicas");
  const data::ShardOptions& options = state_->options;
  if (replicas < 1 ||
      saved > data::shard_size(options.dataset_size, static_cast<std::size_t>(replicas),
                               options.drop_last)) {
    throw DataError("DistributedSampler: the archive is damaged: position " +
                    std::to_string(saved) + " in an epoch of " +
                    std::to_string(options.dataset_size) + " samples for " +
                    std::to_string(replicas) + " ranks");
  }
  const std::uint64_t position =
      position_among(options, saved, static_cast<std::uint64_t>(replicas));
  state_->begin(epoch, position);
  // Unless the epoch was over; that nothing is left here of one that was not ends it at once.
  state_->fresh = saved < data::shard_size(options.dataset_size, static_cast<std::size_t>(replicas),
                                           options.drop_last);
}

}  // namespace kolo
