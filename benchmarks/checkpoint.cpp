// kolo bench checkpoint: saving and restoring a state, beside write() and torch::save().
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <kolo/checkpoint.h>
#include <kolo/objects.h>
#include <stdlib.h>
#include <torch/nn/module.h>
#include <torch/serialize.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/benchmarks.hpp"
#include "benchmarks/rivals.hpp"
#include "benchmarks/tensors.hpp"
#include "checkpoint/staging.hpp"
#include "cli/process/system.hpp"
#include "collectives/reduce/combine.hpp"

namespace kolo::bench {
namespace {

constexpr int kCheckpointSamples = 7;
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;
constexpr int kOtherRound = 1 << 20;  // whose values no sample has

// The same on every rank.
Pattern values_of(int round) {
  return {0, 1, round};
}

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw ContenderFailed("cannot " + what + " " + path + ": " +
                        std::system_category().message(errno));
}

Fd open_file(const std::string& path, int flags) {
  Fd file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (file.get() < 0) fail("open", path);
  return file;
}

void sync(const Fd& file, const std::string& path) {
  if (::fsync(file.get()) != 0) fail("sync", path);
}

// So that reading it means reading the disk, as far as this machine knows. Each rank does it, for
// its own machine.
void drop_from_cache(const std::string& path) {
  const Fd file = open_file(path, O_RDONLY);
  sync(file, path);
  const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (error != 0) {
    throw ContenderFailed("cannot drop " + path +
                          " from the cache: " + std::system_category().message(error));
  }
}

// A folder for the files, removed with them.
class Folder {
 public:
  // Collective. Throws RunFailed.
  Folder(Group& group, const std::string& parent) : group_(group) {
    together(group, [&] {
      if (group.rank() != 0) return;
      std::string path = std::filesystem::absolute(parent) / "kolo-bench-XXXXXX";
      if (::mkdtemp(path.data()) == nullptr) fail("make a folder in", parent);
      path_ = path;
    });
    path_ = broadcast_object(path_, 0);
  }
  ~Folder() {
    std::error_code ignored;
    if (group_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  Group& group_;
  std::string path_;
};

// What all contenders of a work have. Outlives them.
struct Stage {
  Group& group;
  const Tensors& tensors;
  const Folder& folder;

  void fill(int round) const { tensors.fill(values_of(round)); }
  std::string check(int round) const { return tensors.check(values_of(round), group.rank()); }
};

// --- files, as programs without kolo write and read them ---

struct FileKind {
  const char* saver;
  const char* loader;
  void (*write)(const Tensors& tensors, const std::string& path);
  void (*read)(const Tensors& tensors, const std::string& path);
};

void write_plainly(const Tensors& tensors, const std::string& path) {
  const Fd file = open_file(path, O_CREAT | O_TRUNC | O_WRONLY);
  for (const Tensors::Item& item : tensors.items()) {
    const auto* at = reinterpret_cast<const char*>(item.data());
    for (std::size_t left = item.elements * sizeof(float); left > 0;) {
      const ssize_t written = ::write(file.get(), at, std::min(left, kWriteBytes));
      if (written < 0) fail("write", path);
      at += written;
      left -= static_cast<std::size_t>(written);
    }
  }
  sync(file, path);
}

void read_plainly(const Tensors& tensors, const std::string& path) {
  const Fd file = open_file(path, O_RDONLY);
  for (const Tensors::Item& item : tensors.items()) {
    auto* at = reinterpret_cast<char*>(item.data());
    for (std::size_t left = item.elements * sizeof(float); left > 0;) {
      const ssize_t got = ::read(file.get(), at, std::min(left, kWriteBytes));
      if (got < 0) fail("read", path);
      if (got == 0) throw ContenderFailed(path + " is too short");
      at += got;
      left -= static_cast<std::size_t>(got);
    }
  }
}

void torch_save(const Tensors& tensors, const std::string& path) {
  std::vector<at::Tensor> list;
  for (const Tensors::Item& item : tensors.items()) list.push_back(item.tensor);
  torch::save(list, path);
  sync(open_file(path, O_RDONLY), path);
}

void torch_load(const Tensors& tensors, const std::string& path) {
  std::vector<at::Tensor> list;
  torch::load(list, path);
  for (std::size_t i = 0; i < list.size(); ++i) tensors.items()[i].tensor.copy_(list[i]);
}

constexpr FileKind kPlain = {"write", "read", write_plainly, read_plainly};
constexpr FileKind kTorch = {"torch-save", "torch-load", torch_save, torch_load};

// Rank 0 writes a file, while the others sleep.
class SaveFile final : public Contender {
 public:
  SaveFile(const Stage& stage, const FileKind& kind)
      : stage_(stage), kind_(kind), path_(stage.folder.file(kind.saver)) {}

  std::string name() const override { return kind_.saver; }
  void refresh(const Pattern& pattern) override { stage_.fill(pattern.round()); }
  void run() override {
    if (stage_.group.rank() == 0) kind_.write(stage_.tensors, path_);
    stage_.group.sleep_until_all();
  }
  std::string check(const Pattern& pattern) override {
    if (stage_.group.rank() != 0) return "";
    stage_.fill(kOtherRound);
    kind_.read(stage_.tensors, path_);
    std::filesystem::remove(path_);
    return stage_.check(pattern.round());
  }

 private:
  const Stage& stage_;
  const FileKind& kind_;
  const std::string path_;
};

// Every rank reads a file.
class LoadFile final : public Contender {
 public:
  LoadFile(const Stage& stage, const FileKind& kind)
      : stage_(stage), kind_(kind), path_(stage.folder.file(kind.loader)) {
    together(stage.group, [&] {
      stage_.fill(0);
      if (stage_.group.rank() == 0) kind_.write(stage_.tensors, path_);
    });
  }

  std::string name() const override { return kind_.loader; }
  void refresh(const Pattern& /*pattern*/) override {
    stage_.fill(kOtherRound);
    drop_from_cache(path_);
  }
  void run() override { kind_.read(stage_.tensors, path_); }
  std::string check(const Pattern& /*pattern*/) override { return stage_.check(0); }

 private:
  const Stage& stage_;
  const FileKind& kind_;
  const std::string path_;
};

// --- kolo ---

const char* contender_of(CheckpointWriters writers) {
  return writers == CheckpointWriters::AllRanks ? "kolo-all-ranks" : "kolo";
}

// Saves and restores the tensors as parameters of a module, because ranks share the writing of
// parameters. Each contender has its own folder and keeps all its checkpoints.
class OfKolo : public Contender {
 public:
  OfKolo(const Stage& stage, CheckpointWriters writers, bool asynchronous)
      : stage_(stage),
        name_(contender_of(writers)),
        checkpoint_(stage.folder.file(name_ + (asynchronous ? "-asynchronous" : "")),
                    CheckpointOptions().writers(writers).asynchronous(asynchronous).keep_last(0)) {
    for (const Tensors::Item& item : stage.tensors.items()) {
      std::string name = item.name;
      std::replace(name.begin(), name.end(), '.', '_');  // a module allows none
      state_.register_parameter(name, item.tensor, /*requires_grad=*/false);
    }
    checkpoint_.add("model", state_);
  }

  std::string name() const override { return name_; }

 protected:
  const Stage& stage_;
  const std::string name_;
  torch::nn::Module state_;
  Checkpoint checkpoint_;
};

// save(): until the checkpoint is complete, or, asynchronous, until training may go on, which then
// changes the state at once.
class SaveWithKolo final : public OfKolo {
 public:
  using OfKolo::OfKolo;

  void refresh(const Pattern& pattern) override { stage_.fill(pattern.round()); }
  void run() override { checkpoint_.save(++step_); }
  std::string check(const Pattern& pattern) override {
    stage_.fill(kOtherRound);
    checkpoint_.wait();
    const auto restored = checkpoint_.restore();
    if (!restored || restored->step != step_) return "the newest checkpoint is of another step";
    stage_.group.barrier();
    if (stage_.group.rank() == 0) std::filesystem::remove(restored->path);
    return stage_.check(pattern.round());
  }

 private:
  std::int64_t step_ = 0;
};

class RestoreWithKolo final : public OfKolo {
 public:
  RestoreWithKolo(const Stage& stage, CheckpointWriters writers) : OfKolo(stage, writers, false) {
    stage_.fill(0);
    checkpoint_.save(0);
    const auto restored = checkpoint_.restore();
    if (restored) path_ = restored->path;
  }

  void refresh(const Pattern& /*pattern*/) override {
    stage_.fill(kOtherRound);
    drop_from_cache(path_);
  }
  void run() override { checkpoint_.restore(); }
  std::string check(const Pattern& /*pattern*/) override { return stage_.check(0); }

 private:
  std::string path_;
};

// What copying the state takes: each rank copies its share of the tensors, with as many threads as
// it computes with, to memory that it has had before.
class Copy final : public Contender {
 public:
  explicit Copy(const Stage& stage)
      : stage_(stage),
        to_(staging_.reserve(stage.tensors.elements() * sizeof(float))),
        threads_(static_cast<std::size_t>(std::max(at::get_num_threads(), 1))) {}

  std::string name() const override { return "copy"; }
  void refresh(const Pattern& pattern) override { stage_.fill(pattern.round()); }
  void run() override {
    std::vector<std::jthread> others;  // joined in any case
    for (std::size_t thread = 1; thread < threads_; ++thread)
      others.emplace_back([this, thread] { copy_share(thread); });
    copy_share(0);
  }
  std::string check(const Pattern& pattern) override {
    const Pattern values = values_of(pattern.round());
    std::string problem;
    for (std::size_t thread = 0; thread < threads_; ++thread) {
      for_each_of(thread, [&](const Tensors::Item& item, void* copied) {
        const auto difference =
            values.first_difference(static_cast<float*>(copied), item.elements, item.offset);
        if (difference) problem = describe(*difference, item.name, stage_.group.rank());
      });
    }
    return problem;
  }

 private:
  // Calls visit(item, where its copy is) for the tensors of a thread.
  template <typename Visit>
  void for_each_of(std::size_t thread, Visit&& visit) const {
    const auto rank = static_cast<std::size_t>(stage_.group.rank());
    const std::size_t shares = threads_ * static_cast<std::size_t>(stage_.group.size());
    const std::size_t share = threads_ * rank + thread;
    const std::size_t count = stage_.tensors.items().size();
    for (std::size_t i = count * share / shares; i < count * (share + 1) / shares; ++i) {
      const Tensors::Item& item = stage_.tensors.items()[i];
      visit(item, to_ + item.offset * sizeof(float));
    }
  }
  void copy_share(std::size_t thread) const {
    for_each_of(thread, [](const Tensors::Item& item, void* copied) {
      copy(copied, item.data(), item.elements * sizeof(float), /*streaming=*/true);
    });
  }

  const Stage& stage_;
  checkpoint::Staging staging_;
  unsigned char* const to_;
  const std::size_t threads_;
};

std::vector<Parameter> parameters_of_state(const Options& options) {
  std::vector<Parameter> parameters(static_cast<std::size_t>(options.tensors));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = {"tensor" + std::to_string(i), {options.bytes / 4 / options.tensors}};
  return parameters;
}

}  // namespace

void bench_checkpoint(Group& group, const Options& options, const Publish& publish) {
  const std::vector<Parameter> parameters = parameters_of_state(options);
  const Tensors tensors(parameters, usual_memory());
  const Folder folder(group, options.folder);
  const Stage stage{group, tensors, folder};
  const auto bytes = static_cast<std::int64_t>(tensors.elements() * sizeof(float));
  const Schedule schedule{options.warm_up,
                          options.samples > 0 ? options.samples : kCheckpointSamples};
  Rivals rivals(group, options, publish);
  rivals.start_gloo(tensors.elements());

  const auto measured = [&](const std::string& what, Contenders contenders, CheckpointWork work) {
    rivals.add_checkpoint(contenders, parameters, work, folder.file(what + "-dcp"));
    publish.rows(measure_rows(
        group, contenders, schedule,
        what + "/" + std::to_string(bytes) + "/" + std::to_string(group.size()), bytes));
  };
  constexpr CheckpointWriters kWriters[] = {CheckpointWriters::RankZero,
                                            CheckpointWriters::AllRanks};
  Contenders contenders;
  contenders.push_back(std::make_unique<SaveFile>(stage, kPlain));
  contenders.push_back(std::make_unique<SaveFile>(stage, kTorch));
  for (const CheckpointWriters writers : kWriters)
    contenders.push_back(std::make_unique<SaveWithKolo>(stage, writers, /*asynchronous=*/false));
  measured("save", std::move(contenders), CheckpointWork::kSave);

  contenders.clear();
  contenders.push_back(std::make_unique<Copy>(stage));
  for (const CheckpointWriters writers : kWriters)
    contenders.push_back(std::make_unique<SaveWithKolo>(stage, writers, /*asynchronous=*/true));
  measured("stall", std::move(contenders), CheckpointWork::kStall);

  contenders.clear();
  contenders.push_back(std::make_unique<LoadFile>(stage, kPlain));
  contenders.push_back(std::make_unique<LoadFile>(stage, kTorch));
  for (const CheckpointWriters writers : kWriters)
    contenders.push_back(std::make_unique<RestoreWithKolo>(stage, writers));
  measured("restore", std::move(contenders), CheckpointWork::kRestore);
}

}  // namespace kolo::bench
