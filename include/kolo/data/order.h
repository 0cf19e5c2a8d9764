// The order in which an epoch has the samples of a dataset, for DistributedSampler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace kolo::data {

// An order that depends only on a seed and the epoch, so that all ranks have the same one without
// communication. It is the same on every platform. Copies share their data. Any thread.
class SampleOrder {
 public:
  // Every order of the samples is equally likely.
  static SampleOrder shuffled(std::size_t dataset_size);

  // The dataset's own order, in each epoch.
  static SampleOrder sequential(std::size_t dataset_size);

  // An epoch of `count` samples, drawn one after the other, each with a probability in proportion
  // to its weight. With `replacement` a sample may be drawn again; otherwise it is drawn from those
  // that are left. Weights are rounded to 2^-32 of the largest one; a weight above 0 stays above 0.
  // InvalidArgumentError if a weight is negative or not finite, if all are 0, and without
  // replacement if fewer than `count` weights are above 0.
  static SampleOrder weighted(const std::vector<double>& weights, std::size_t count,
                              bool replacement = true);

  // All samples, shuffled so that each class is spread evenly over the epoch: every part of it has
  // the classes nearly in proportion to their sizes. labels[i] is the class of sample i.
  static SampleOrder stratified(const std::vector<std::int64_t>& labels);

  // All samples, for a dataset that is read in blocks, such as the chunks of an HDF5 file. The
  // samples i * block to (i + 1) * block - 1 are a block. Blocks come in a random order and are
  // dealt to `streams` streams. A stream has its blocks one after the other, each shuffled; the
  // epoch takes a sample of each stream in turn. So `streams` blocks are read at a time: with n
  // ranks, if n divides `streams`, each rank reads streams / n blocks of its own (except for the
  // last samples of an epoch), otherwise each rank reads all of them. More streams mix the samples
  // better. InvalidArgumentError if `block` or `streams` is 0.
  static SampleOrder in_blocks(std::size_t dataset_size, std::size_t block, std::size_t streams);

  // The samples of an epoch, in order.
  using Make = std::function<std::vector<std::size_t>(std::uint64_t seed, std::uint64_t epoch)>;

  // The program's own order. `make` returns `size` samples below `dataset_size`, the same ones on
  // every rank; its copies may be called from any thread. `fingerprint` is from 1 to 2^63 - 1; an
  // order that differs has another one. InvalidArgumentError for other fingerprints.
  static SampleOrder custom(std::size_t dataset_size, std::size_t size, std::uint64_t fingerprint,
                            Make make);

  // Number of samples of an epoch.
  std::size_t size() const { return size_; }
  // Number of samples that the order is for.
  std::size_t dataset_size() const { return dataset_size_; }
  // The samples of an epoch, in order. InvalidArgumentError if a custom order does not give what it
  // promised.
  std::vector<std::size_t> of_epoch(std::uint64_t seed, std::uint64_t epoch) const;
  // A number below 2^63 that differs between orders that were made differently, and is the same in
  // every run.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  SampleOrder(std::size_t dataset_size, std::size_t size, std::uint64_t fingerprint, Make make);

  std::size_t dataset_size_;
  std::size_t size_;
  std::uint64_t fingerprint_;
  Make make_;
};

}  // namespace kolo::data
