// kolo bench loading: an epoch of samples from files, by kolo's loader and LibTorch's, and by plain
// reads; and a training rank's waits for samples, with threads and with loader processes.
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <kolo/data/hdf5.h>
#include <kolo/data/loader.h>
#include <kolo/data/mnist.h>
#include <stdlib.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/map.h>
#include <torch/data/samplers.h>
#include <torch/data/transforms/stack.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "benchmarks/benchmarks.hpp"
#include "benchmarks/child.hpp"
#include "benchmarks/data_files.hpp"
#include "benchmarks/delivery.hpp"
#include "benchmarks/loading_script.hpp"
#include "benchmarks/seen.hpp"
#include "cli/process/system.hpp"

namespace kolo::bench {
namespace {

constexpr int kLoadingSamples = 5;
constexpr std::int64_t kBatch = 64;
const SampleForm kImages{{3, 32, 32}, 8192};
const SampleForm kDigits{{28, 28}, 16384};  // as MNIST's

// Removes its folder.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "kolo-bench-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw ContenderFailed("no temporary folder");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The work of a row: samples, their order, and the number of workers.
struct Work {
  const SampleForm& form;
  double scale;  // of the bytes
  bool shuffled;
  int workers;
};

class KoloLoading final : public Contender {
 public:
  KoloLoading(data::Dataset dataset, const Work& work)
      : work_(work),
        loader_(std::move(dataset), DistributedSampler(work.form.count, share(work)),
                DataLoaderOptions().batch_size(kBatch).workers(work.workers)) {}

  std::string name() const override { return "kolo"; }
  void refresh(const Pattern& /*pattern*/) override { seen_ = {}; }
  void run() override {
    for (const data::Batch& batch : loader_) seen_.add(batch.data, batch.target);
  }
  std::string check(const Pattern& /*pattern*/) override {
    return seen_.check(work_.form, work_.scale);
  }

 private:
  static DistributedSampler::Options share(const Work& work) {
    DistributedSampler::Options options;
    options.shuffle = work.shuffled;
    return options;
  }

  const Work work_;
  DataLoader loader_;
  Seen seen_;
};

template <class Dataset, class Sampler>
class LibTorchLoading final : public Contender {
 public:
  LibTorchLoading(const Dataset& dataset, const Work& work)
      : work_(work),
        loader_(torch::data::make_data_loader(dataset, Sampler(work.form.count),
                                              torch::data::DataLoaderOptions(kBatch).workers(
                                                  static_cast<std::size_t>(work.workers)))) {}

  std::string name() const override { return "libtorch"; }
  void refresh(const Pattern& /*pattern*/) override { seen_ = {}; }
  void run() override {
    for (const data::Batch& batch : *loader_) seen_.add(batch.data, batch.target);
  }
  std::string check(const Pattern& /*pattern*/) override {
    return seen_.check(work_.form, work_.scale);
  }

 private:
  using Loader = decltype(torch::data::make_data_loader(
      std::declval<Dataset>(), std::declval<Sampler>(), torch::data::DataLoaderOptions()));

  const Work work_;
  Loader loader_;
  Seen seen_;
};

// Reads the samples' bytes from a file that has nothing else, batch by batch: in order with one
// call each, shuffled with one for each sample.
class PlainReads final : public Contender {
 public:
  PlainReads(const std::string& path, const Work& work)
      : work_(work), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), order_(work.form.count) {
    if (!file_.is_open()) throw ContenderFailed("cannot open " + path);
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    if (work.shuffled) {
      DistributedSampler sampler(order_.size(), {});
      order_ = *sampler.next(order_.size());
    }
    labels_ = at::empty({static_cast<std::int64_t>(order_.size())}, at::kByte);
    std::transform(order_.begin(), order_.end(), labels_.data_ptr<std::uint8_t>(), label_of);
  }

  std::string name() const override { return "read"; }
  void refresh(const Pattern& /*pattern*/) override { seen_ = {}; }
  void run() override {
    const std::size_t size = work_.form.bytes();
    for (std::size_t first = 0; first < order_.size(); first += kBatch) {
      const std::size_t count = std::min<std::size_t>(kBatch, order_.size() - first);
      at::Tensor batch =
          at::empty({static_cast<std::int64_t>(count), static_cast<std::int64_t>(size)}, at::kByte);
      auto* const to = batch.data_ptr<std::uint8_t>();
      if (!work_.shuffled) read(to, count * size, first * size);
      for (std::size_t i = 0; i < count && work_.shuffled; ++i)
        read(to + i * size, size, order_[first + i] * size);
      seen_.add(batch, labels_.narrow(0, static_cast<std::int64_t>(first),
                                      static_cast<std::int64_t>(count)));
    }
  }
  std::string check(const Pattern& /*pattern*/) override { return seen_.check(work_.form, 1); }

 private:
  void read(std::uint8_t* to, std::size_t size, std::size_t from) const {
    for (std::size_t done = 0; done < size;) {
      const ssize_t got =
          ::pread(file_.get(), to + done, size - done, static_cast<off_t>(from + done));
      if (got <= 0) throw ContenderFailed("the plain file with the samples cannot be read");
      done += static_cast<std::size_t>(got);
    }
  }

  const Work work_;
  const Fd file_;
  std::vector<std::size_t> order_;
  at::Tensor labels_;  // in this order; the file has none
  Seen seen_;
};

// Python's DataLoader over h5py, in a process of its own.
class PythonLoading final : public Contender {
 public:
  PythonLoading(Child& child, const std::string& path, const Work& work)
      : work_(work), child_(child) {
    child_.ask("loader " + std::to_string(work.shuffled ? 1 : 0) + " " +
                   std::to_string(work.workers) + " " + std::to_string(kBatch) + " " + path,
               "made");
  }

  std::string name() const override { return "python"; }
  void refresh(const Pattern& /*pattern*/) override { seen_ = {}; }
  void run() override {
    try {
      std::istringstream answer(child_.ask("epoch", "loaded"));
      answer >> seen_.count >> seen_.labels >> seen_.first >> seen_.paired;
    } catch (const ChildError& error) {
      throw ContenderFailed(error.what());
    }
  }
  std::string check(const Pattern& /*pattern*/) override { return seen_.check(work_.form, 1); }

 private:
  const Work work_;
  Child& child_;
  Seen seen_;
};

template <class Dataset>
void add_loaders(const data::Dataset& mine, const Dataset& theirs, const Work& work,
                 Contenders& contenders) {
  contenders.push_back(std::make_unique<KoloLoading>(mine, work));
  if (work.shuffled) {
    contenders.push_back(
        std::make_unique<LibTorchLoading<Dataset, torch::data::samplers::RandomSampler>>(theirs,
                                                                                         work));
  } else {
    contenders.push_back(
        std::make_unique<LibTorchLoading<Dataset, torch::data::samplers::SequentialSampler>>(theirs,
                                                                                             work));
  }
}

// In one piece, as HDF5 writes it: a file that was written in small pieces lies in smaller ones in
// the page cache, and is read more slowly.
void write_plain_file(const std::string& path, const SampleForm& form) {
  std::vector<char> bytes(form.count * form.bytes());
  for (std::size_t i = 0; i < form.count; ++i) {
    for (std::size_t at = 0; at < form.bytes(); ++at)
      bytes[i * form.bytes() + at] = static_cast<char>(sample_byte(i, at));
  }
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw ContenderFailed("cannot write " + path);
}

}  // namespace

void bench_loading(Group& group, const Options& options, const Publish& publish) {
  at::set_num_threads(1);  // workers are the threads that are counted
  const Folder folder;     // each rank has files of its own
  const std::vector<std::pair<std::string, Hdf5Form>> forms{{"hdf5", Hdf5Form::kContiguous},
                                                            {"hdf5-chunks", Hdf5Form::kChunks},
                                                            {"hdf5-gzip", Hdf5Form::kGzip}};
  const auto file = [&](const std::string& form) { return folder.path() + "/" + form + ".h5"; };
  const std::string plain = folder.path() + "/plain";
  together(group, [&] {
    for (const auto& [form, how] : forms) write_hdf5(file(form), kImages, how);
    write_idx(folder.path(), kDigits);
    write_plain_file(plain, kImages);
  });
  std::unique_ptr<Child> python;
  if (!options.python.empty()) {
    constexpr double kDeadlineSeconds = 120;  // for an epoch; importing torch takes some, too
    std::string versions;
    together(group, [&] {
      const std::vector<std::string> command{options.python, "-u", "-c", kLoadingScript};
      python = std::make_unique<Child>(options.python, command, kDeadlineSeconds);
      versions = python->ask("start", "torch");
    });
    publish.library("torch " + versions);
  }
  const Schedule schedule{options.warm_up, options.samples > 0 ? options.samples : kLoadingSamples};
  const auto measure = [&](const std::string& form, const SampleForm& samples, double scale,
                           const auto& mine, const auto& theirs) {
    for (const bool shuffled : {false, true}) {
      for (const int workers : {0, 1, 2, 4}) {
        const Work work{samples, scale, shuffled, workers};
        Contenders contenders;
        add_loaders(mine, theirs, work, contenders);
        if (workers == 0 && form == "hdf5")
          contenders.push_back(std::make_unique<PlainReads>(plain, work));
        if (python != nullptr && form != "idx")
          contenders.push_back(std::make_unique<PythonLoading>(*python, file(form), work));
        const std::string name = "loading/" + form + (shuffled ? "/shuffled/" : "/in-order/") +
                                 std::to_string(workers) + "/" + std::to_string(group.size());
        const auto bytes = static_cast<std::int64_t>(samples.count * samples.bytes());
        publish.rows(measure_rows(group, contenders, schedule, name, bytes));
      }
    }
  };
  measure("idx", kDigits, 1.0 / 255, data::MNIST(folder.path()),
          data::MNIST(folder.path()).map(torch::data::transforms::Stack<>()));
  for (const auto& [form, how] : forms) {
    // The labels fit into the cache, the images do not: as for a dataset larger than memory.
    const auto arrays = data::HDF5DatasetOptions().samples("images").targets("labels").cache_bytes(
        2 * kImages.count);
    const data::HDF5Dataset images(file(form), arrays);
    measure(form, kImages, 1, images, images);
  }
  bench_delivery(group, options, publish);
}

}  // namespace kolo::bench
