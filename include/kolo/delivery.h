// Delivery: loader processes load batches while the ranks train.
#pragma once

#include <kolo/data/dataset.h>
#include <kolo/data/loader.h>
#include <torch/arg.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo {
namespace delivery {

// A dataset, and the transforms that are applied to each of its batches.
struct Source {
  // Makes a source of the samples and the transforms, in their order.
  Source(data::Dataset samples, std::vector<data::Transform> changes = {})
      : dataset(std::move(samples)), transforms(std::move(changes)) {}
  // Makes a source from anything that converts to a Dataset.
  template <class T,
            std::enable_if_t<kolo::detail::IsLibTorchDataset<std::decay_t<T>>::value, int> = 0>
  Source(T&& samples)  // NOLINT(bugprone-forwarding-reference-overload): no Source matches
      : dataset(std::forward<T>(samples)) {}

  data::Dataset dataset;                    // read by several threads, each with a copy
  std::vector<data::Transform> transforms;  // applied in this order
};

// Makes a Source. Called in each loader process; in a job without any, in each rank.
using Factory = std::function<Source()>;

// Options of a registered loader. All but the device must be the same in all processes.
struct Options {
  // Size of the batches, seed, order, device. workers() is the number of threads of each loader
  // process (0 counts as 1; of several loaders the largest number holds), prefetch() the number of
  // batches that each of these threads may be ahead of the ranks.
  TORCH_ARG(DataLoaderOptions, loader);
  // Whether the samples of an epoch come in random order: see DistributedSampler.
  TORCH_ARG(bool, shuffle) = true;
  // Seconds from the request for a batch until the rank gives up. The first loader that a rank
  // opens sets it for all.
  TORCH_ARG(double, timeout) = 300;
};

// Registers a loader under a name. Its factory is called when a batch is needed. Not collective:
// every process of the program calls it. InvalidArgumentError if the name is taken or empty, or an
// argument is out of range.
void register_loader(const std::string& name, Factory factory, const Options& options = {});

// Removes a registered loader. Loader processes drop the batches that they have prepared for it.
// The name may be registered again, with the same factory, because loader processes keep theirs.
// DataLoaders of it must no longer be used. InvalidArgumentError for a name that is not registered.
void unregister_loader(const std::string& name);

// Returns a DataLoader of this rank's share, whose batches loader processes make. There are such
// processes if the job was started with `kolo run --cpus C`; without them this process loads the
// same batches itself, in options.loader().workers() threads:
//
//   kolo::init();
//   auto loader = kolo::delivery::open(
//       "train", [] { return kolo::data::HDF5Dataset("train.h5"); },
//       kolo::delivery::Options().loader(kolo::DataLoaderOptions().batch_size(64).seed(1)));
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     for (const auto& batch : loader) { ... batch.data, batch.target ... }
//   }
//
// Loader processes run the same program up to the first open(), which serves the training ranks
// instead of returning, until the job ends. So open() comes right after init() and the calls of
// register_loader(), and before the program makes files or a model.
//
// Samples come in the order of a DistributedSampler, whatever the number of loader processes and
// whichever of them die. DataLoader::sampler() saves and sets the position. A batch of a loader
// process on the same machine lies in memory that both share; the tensors own it. If a batch cannot
// be loaded, iterating throws a DataError.
//
// Not collective. Throws NotInitializedError before kolo::init(), InvalidArgumentError for a name
// that is not registered, or is registered with other options in the loader processes, and
// DataError if no loader process answers, or if their data differ.
DataLoader open(const std::string& name);

// Registers a loader and opens it.
DataLoader open(const std::string& name, Factory factory, const Options& options = {});

// Whether this process is a loader process: rank() is then size() or more, and only open() makes
// sense. Not collective. Valid before init(), too.
bool is_loader_process();

}  // namespace delivery
}  // namespace kolo
