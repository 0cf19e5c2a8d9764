// Distributes a dataset over the ranks, reshuffled each epoch.
#pragma once

#include <kolo/data/order.h>
#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kolo {

// Gives each rank its share of the samples of an epoch, for torch::data::make_data_loader. The
// order of an epoch is a random permutation that depends only on seed and epoch, so that all ranks
// agree on it without communication; rank r gets every num_replicas-th sample of it, beginning with
// the r-th. The shares are disjoint, complete together, and of the same size. If the dataset's size
// is not a multiple of num_replicas, the order is continued from its beginning (so up to
// num_replicas - 1 samples occur twice), or cut with drop_last, as in PyTorch's Python
// DistributedSampler.
//
// Shares are disjoint only if the dataset has its samples in the same order on every rank. Sort
// what a folder lists. check_in_sync("order", tensor) compares a tensor over the ranks
// (kolo/in_sync.h).
//
//   kolo::DistributedSampler sampler(size, {kolo::size(), kolo::rank()});
//   auto loader = torch::data::make_data_loader(dataset, sampler, batch_size);
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     for (auto& batch : *loader) { ... }
//   }
//
// The epoch advances automatically: each begin() of the data loader calls reset(), and reset() goes
// to the next epoch if the current one was begun, even if it was not finished. LibTorch's
// DistributedRandomSampler, in contrast, repeats its order at every reset() until its epoch is set,
// which is impossible once it is in a data loader. To choose the epoch, call set_epoch(); the next
// reset() then keeps it.
//
// Copies share one sampler. A data loader takes its sampler by value and gives no access to it, so
// set_epoch(), save() and load() of a copy reach the sampler in the loader.
//
// Nothing here is collective. One thread at a time; the data loader calls it from the thread that
// iterates, never from its workers.
class DistributedSampler : public torch::data::samplers::Sampler<std::vector<std::size_t>> {
 public:
  // Describes a rank's share of the dataset.
  struct Options {
    int num_replicas = 1;    // number of ranks that share the dataset
    int rank = 0;            // the rank whose share this is
    bool shuffle = true;     // false: the dataset's own order in every epoch
    std::uint64_t seed = 0;  // the same on all ranks
    bool drop_last = false;  // cut instead of repeating samples
  };

  // Begins with epoch 0. A dataset of size 0 gives empty shares; so does one smaller than
  // num_replicas with drop_last. Throws InvalidArgumentError if num_replicas is below 1 or rank is
  // not in [0, num_replicas).
  DistributedSampler(std::size_t dataset_size, const Options& options);

  // The same for another order: weighted, stratified, or in blocks. `shuffle` does not matter.
  //
  //   auto order = kolo::data::SampleOrder::weighted(weights, 10000);
  //   kolo::DistributedSampler sampler(order, {kolo::size(), kolo::rank()});
  DistributedSampler(data::SampleOrder order, const Options& options);

  // Goes to the first sample of this epoch. Exception: directly after load(), setting the epoch
  // that was loaded keeps the position in it, so a resumed run may set the epoch like any other
  // run.
  void set_epoch(std::uint64_t epoch);

  // Goes to this position of this rank's share of this epoch; a following reset() keeps it.
  // `position` is at most size(); size() means that the epoch is over.
  void seek(std::uint64_t epoch, std::size_t position);

  // The samples of this epoch that next() has not handed out yet, in order.
  std::vector<std::size_t> rest() const;

  std::uint64_t epoch() const;       // the current epoch, or the next one between two epochs
  std::size_t position() const;      // samples of the epoch that this rank has handed out
  std::size_t dataset_size() const;  // samples of the dataset
  std::size_t size() const;          // samples of an epoch for each rank

  // Called by the data loader at each begin(). Goes to the beginning of the next epoch if next()
  // was called since the last reset(), set_epoch() or load(); otherwise keeps epoch and position.
  // After a load() from the end of an epoch it goes to the next one, too. A new dataset size that
  // differs from the old one takes effect now, and the position becomes 0. InvalidArgumentError for
  // a new size if the sampler was made with an order.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;

  // Returns up to batch_size samples; std::nullopt when the epoch is over for this rank, which is
  // at the same call on all ranks. Throws InvalidArgumentError if batch_size is 0.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  // Saves epoch and position, so that a run can resume in mid-epoch. Any rank may load what any
  // rank has saved, because the values are the same on all ranks. If the number of ranks has
  // changed, the new ranks continue where the old ones together had arrived; fewer than
  // num_replicas samples are then used twice. LibTorch's data loaders with workers request batches
  // ahead, and the position counts these, so such a program should save only between epochs.
  // kolo::DataLoader counts only the samples that the program has received.
  void save(torch::serialize::OutputArchive& archive) const override;

  // Throws DataError if the archive holds no such sampler, InvalidArgumentError if it was saved
  // with another dataset size, order, shuffle, seed or drop_last, so that its position would mean
  // other samples. In both cases nothing changes.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kolo
