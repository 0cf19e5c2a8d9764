#include "kolo/data/order.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "data/shard.hpp"
#include "kolo/data/random.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

// Purposes of random numbers: see Random.
constexpr std::uint64_t kDraws = 0x6f72646572'01;
constexpr std::uint64_t kClasses = 0x6f72646572'02;
constexpr std::uint64_t kWithinClasses = 0x6f72646572'03;
constexpr std::uint64_t kWithinBlocks = 0x6f72646572'04;

// FNV-1a over numbers, below 2^63.
class Fingerprint {
 public:
  explicit Fingerprint(std::uint64_t kind) { add(kind); }
  void add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ (number & 0xffU)) * 0x100000001b3;
      number >>= 8U;
    }
  }
  std::uint64_t value() const { return hash_ >> 1U; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

// Fisher-Yates shuffle, like that of permutation().
template <typename Iterator>
void shuffle(Iterator first, Iterator last, Random random) {
  for (auto left = static_cast<std::uint64_t>(last - first); left > 1; --left) {
    std::iter_swap(first + static_cast<std::ptrdiff_t>(left - 1),
                   first + static_cast<std::ptrdiff_t>(random.below(left)));
  }
}

[[noreturn]] void refuse(const std::string& why) {
  throw InvalidArgumentError("SampleOrder: " + why);
}

// Returns whole numbers proportional to the weights, so that sums are exact on every platform.
std::vector<std::uint64_t> whole_weights(const std::vector<double>& weights) {
  double largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || !std::isfinite(weights[i])) {
      refuse("weight " + std::to_string(i) + " is " + std::to_string(weights[i]) +
             "; it must be finite and 0 or above");
    }
    largest = std::max(largest, weights[i]);
  }
  if (largest == 0) refuse("all " + std::to_string(weights.size()) + " weights are 0");
  std::vector<std::uint64_t> whole;
  whole.reserve(weights.size());
  for (const double weight : weights) {
    const auto rounded = static_cast<std::uint64_t>(weight / largest * 0x1p32);
    whole.push_back(weight > 0 ? std::max<std::uint64_t>(rounded, 1) : 0);
  }
  return whole;
}

// Weights in a binary indexed tree (P. Fenwick, 1994).
// Finding and removing a sample takes O(log n).
class WeightTree {
 public:
  explicit WeightTree(const std::vector<std::uint64_t>& weights)
      : weights_(weights), sums_(weights.size() + 1) {
    for (std::size_t i = 1; i < sums_.size(); ++i) {
      sums_[i] += weights[i - 1];
      const std::size_t parent = i + (i & (0 - i));
      if (parent < sums_.size()) sums_[parent] += sums_[i];
      total_ += weights[i - 1];
    }
  }

  std::uint64_t total() const { return total_; }
  // Returns the sample at a point of the cumulative weights. The point must be below total().
  std::size_t at(std::uint64_t point) const {
    std::size_t position = 0;
    std::size_t step = 1;
    while (step * 2 < sums_.size()) step *= 2;
    for (; step > 0; step /= 2) {
      if (position + step >= sums_.size() || sums_[position + step] > point) continue;
      position += step;
      point -= sums_[position];
    }
    return position;
  }
  void remove(std::size_t sample) {
    for (std::size_t i = sample + 1; i < sums_.size(); i += i & (0 - i))
      sums_[i] -= weights_[sample];
    total_ -= weights_[sample];
  }

 private:
  const std::vector<std::uint64_t>& weights_;  // outlives the tree
  std::vector<std::uint64_t> sums_;
  std::uint64_t total_ = 0;
};

std::vector<std::size_t> draw(const std::vector<std::uint64_t>& weights, std::size_t count,
                              bool replacement, Random random) {
  WeightTree tree(weights);
  std::vector<std::size_t> drawn;
  drawn.reserve(count);
  while (drawn.size() < count) {
    drawn.push_back(tree.at(random.below(tree.total())));
    if (!replacement) tree.remove(drawn.back());
  }
  return drawn;
}

using Classes = std::vector<std::vector<std::size_t>>;  // the samples of each

// Spreads classes evenly: sample j of a class with n samples lies at (j + 1/2) / n of the epoch.
std::vector<std::size_t> spread(Classes classes, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::size_t> of_ties(classes.size());  // order of classes at the same place
  for (std::size_t i = 0; i < of_ties.size(); ++i) of_ties[i] = i;
  shuffle(of_ties.begin(), of_ties.end(), Random(seed, kClasses, epoch, 0));
  std::vector<std::tuple<double, std::size_t, std::size_t>> places;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    std::vector<std::size_t>& samples = classes[i];
    shuffle(samples.begin(), samples.end(), Random(seed, kWithinClasses, epoch, i));
    for (std::size_t j = 0; j < samples.size(); ++j) {
      const double place = (static_cast<double>(j) + 0.5) / static_cast<double>(samples.size());
      places.emplace_back(place, of_ties[i], samples[j]);
    }
  }
  std::sort(places.begin(), places.end());
  std::vector<std::size_t> order;
  order.reserve(places.size());
  for (const auto& [place, tie, sample] : places) order.push_back(sample);
  return order;
}

std::vector<std::size_t> deal(std::size_t size, std::size_t block, std::size_t streams,
                              std::uint64_t seed, std::uint64_t epoch) {
  const std::vector<std::size_t> blocks = permutation((size + block - 1) / block, seed, epoch);
  std::vector<std::vector<std::size_t>> dealt(
      std::min(streams, std::max<std::size_t>(blocks.size(), 1)));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::vector<std::size_t>& stream = dealt[i % dealt.size()];
    const std::size_t begin = stream.size();
    const std::size_t end_of_block = std::min(size, (blocks[i] + 1) * block);
    for (std::size_t sample = blocks[i] * block; sample < end_of_block; ++sample)
      stream.push_back(sample);
    shuffle(stream.begin() + static_cast<std::ptrdiff_t>(begin), stream.end(),
            Random(seed, kWithinBlocks, epoch, blocks[i]));
  }
  std::vector<std::size_t> order;
  order.reserve(size);
  for (std::size_t i = 0; order.size() < size; ++i) {
    for (const std::vector<std::size_t>& stream : dealt)
      if (i < stream.size()) order.push_back(stream[i]);
  }
  return order;
}

}  // namespace

SampleOrder::SampleOrder(std::size_t dataset_size, std::size_t size, std::uint64_t fingerprint,
                         Make make)
    : dataset_size_(dataset_size), size_(size), fingerprint_(fingerprint), make_(std::move(make)) {}

std::vector<std::size_t> SampleOrder::of_epoch(std::uint64_t seed, std::uint64_t epoch) const {
  std::vector<std::size_t> order = make_(seed, epoch);
  if (order.size() != size_) {
    refuse("the order of epoch " + std::to_string(epoch) + " has " + std::to_string(order.size()) +
           " samples instead of " + std::to_string(size_));
  }
  for (const std::size_t sample : order) {
    if (sample >= dataset_size_) {
      refuse("the order of epoch " + std::to_string(epoch) + " has sample " +
             std::to_string(sample) + " of a dataset of " + std::to_string(dataset_size_));
    }
  }
  return order;
}

SampleOrder SampleOrder::custom(std::size_t dataset_size, std::size_t size,
                                std::uint64_t fingerprint, Make make) {
  if (fingerprint == 0 || fingerprint >> 63U != 0)
    refuse("custom: the fingerprint must be from 1 to 2^63 - 1");
  if (make == nullptr) refuse("custom: the function is null");
  return {dataset_size, size, fingerprint, std::move(make)};
}

SampleOrder SampleOrder::shuffled(std::size_t dataset_size) {
  return {dataset_size, dataset_size, Fingerprint(4).value(),
          [dataset_size](std::uint64_t seed, std::uint64_t epoch) {
            return permutation(dataset_size, seed, epoch);
          }};
}

SampleOrder SampleOrder::sequential(std::size_t dataset_size) {
  return {dataset_size, dataset_size, Fingerprint(5).value(),
          [dataset_size](std::uint64_t, std::uint64_t) {
            std::vector<std::size_t> order(dataset_size);
            for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
            return order;
          }};
}

SampleOrder SampleOrder::weighted(const std::vector<double>& weights, std::size_t count,
                                  bool replacement) {
  const auto whole = std::make_shared<const std::vector<std::uint64_t>>(whole_weights(weights));
  const auto drawable = static_cast<std::size_t>(
      std::count_if(whole->begin(), whole->end(), [](std::uint64_t weight) { return weight > 0; }));
  if (!replacement && drawable < count) {
    refuse("an epoch of " + std::to_string(count) +
           " samples without replacement needs as many weights above 0; there are " +
           std::to_string(drawable));
  }
  Fingerprint fingerprint(1);
  fingerprint.add(count);
  fingerprint.add(replacement ? 1 : 0);
  for (const std::uint64_t weight : *whole) fingerprint.add(weight);
  return {weights.size(), count, fingerprint.value(),
          [whole, count, replacement](std::uint64_t seed, std::uint64_t epoch) {
            return draw(*whole, count, replacement, Random(seed, kDraws, epoch, 0));
          }};
}

SampleOrder SampleOrder::stratified(const std::vector<std::int64_t>& labels) {
  Fingerprint fingerprint(2);
  std::unordered_map<std::int64_t, std::size_t> numbers;
  auto classes = std::make_shared<Classes>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto [number, is_new] = numbers.emplace(labels[i], classes->size());
    if (is_new) classes->emplace_back();
    (*classes)[number->second].push_back(i);
    fingerprint.add(number->second);
  }
  return {
      labels.size(), labels.size(), fingerprint.value(),
      [classes](std::uint64_t seed, std::uint64_t epoch) { return spread(*classes, seed, epoch); }};
}

SampleOrder SampleOrder::in_blocks(std::size_t dataset_size, std::size_t block,
                                   std::size_t streams) {
  if (block == 0 || streams == 0) refuse("in_blocks: block and streams must be 1 or more");
  block = std::min(block, std::max<std::size_t>(dataset_size, 1));
  Fingerprint fingerprint(3);
  fingerprint.add(block);
  fingerprint.add(streams);
  return {dataset_size, dataset_size, fingerprint.value(),
          [=](std::uint64_t seed, std::uint64_t epoch) {
            return deal(dataset_size, block, streams, seed, epoch);
          }};
}

}  // namespace kolo::data
