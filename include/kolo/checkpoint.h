// Checkpoints: the whole state of a training, which resumes with the same bits.
#pragma once

#include <ATen/core/Tensor.h>
#include <kolo/modules.h>
#include <kolo/objects.h>
#include <torch/arg.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace kolo {

// The ranks that write the file. The file is the same in both cases.
enum class CheckpointWriters : std::uint8_t {
  RankZero = 0,  // the other ranks need not see the folder
  AllRanks = 1,  // each rank writes a part; the folder is on a file system that all of them share
};

// Behaviour of save() while the previous checkpoint is still being written.
enum class CheckpointBusy : std::uint8_t { Wait = 0, Skip = 1 };

// Options for writing and keeping checkpoints.
struct CheckpointOptions {
  // First part of the file names. Checkpoints of different names may share a folder.
  TORCH_ARG(std::string, name) = "checkpoint";
  TORCH_ARG(CheckpointWriters, writers) = CheckpointWriters::RankZero;
  // true: save() copies the state and returns, and a thread writes it. This takes as much memory
  // again as this rank writes. false: save() returns when the checkpoint is complete.
  TORCH_ARG(bool, asynchronous) = true;
  TORCH_ARG(CheckpointBusy, busy) = CheckpointBusy::Wait;
  // The checkpoints that are kept when a new one is complete: the keep_last newest (0: all), those
  // whose step is a multiple of keep_every, and the keep_best with the lowest metric (the highest,
  // if higher_is_better). Checkpoints of later steps than the new one are never removed.
  TORCH_ARG(std::int64_t, keep_last) = 2;
  TORCH_ARG(std::int64_t, keep_every) = 0;
  TORCH_ARG(std::int64_t, keep_best) = 0;
  TORCH_ARG(bool, higher_is_better) = false;
};

// Options of restore().
struct RestoreOptions {
  // The file to restore. Empty: the newest undamaged one in the folder.
  TORCH_ARG(std::string, path) = "";
  // true: tensors that are missing in the file or in the program, or differ in shape or dtype, are
  // an error. false: they stay as they are, and the result of restore() lists them.
  TORCH_ARG(bool, strict) = true;
};

// Result of restore().
struct RestoredCheckpoint {
  std::string path;              // path of the file
  std::int64_t step = 0;         // as given to save()
  std::optional<double> metric;  // as given to save()
  // Names of entries that were added to the Checkpoint. Empty with `strict`.
  std::vector<std::string> missing;     // not in the file
  std::vector<std::string> unexpected;  // only in the file
  std::vector<std::string> mismatched;  // of other shape or dtype, and the difference
};

// Costs of saving.
struct CheckpointMetrics {
  std::int64_t saved = 0;    // complete on all ranks, as seen by the last save() or wait()
  std::int64_t skipped = 0;  // with CheckpointBusy::Skip
  double stall_seconds = 0;  // time for which the last save() kept this rank from training
  double write_seconds = 0;  // from the first byte until the last complete one was on the disk
  std::int64_t written_bytes = 0;  // of the last complete checkpoint, by this rank
};

namespace detail {

// Whether Checkpoint::add() has an overload for T or for a class that T is derived from.
template <typename T>
inline constexpr bool kHasOwnAdd =
    std::is_base_of_v<torch::nn::Module, T> || std::is_base_of_v<torch::optim::Optimizer, T> ||
    std::is_base_of_v<torch::optim::LRScheduler, T> ||
    std::is_base_of_v<torch::optim::ReduceLROnPlateauScheduler, T> ||
    std::is_base_of_v<at::TensorBase, T> || std::is_same_v<T, std::string>;

}  // namespace detail

// Saves and restores the added objects, under their names, in HDF5 files:
// docs/checkpoint-format.md.
//
//   kolo::Checkpoint checkpoint("runs/mnist");
//   checkpoint.add("model", net).add("optimizer", optimizer).add("scheduler", scheduler);
//   checkpoint.add("sampler", sampler).add("epoch", epoch);
//   checkpoint.restore();  // continues from the newest checkpoint, if there is one
//   while (epoch < 9) {
//     ...
//     checkpoint.save(++epoch);  // a restored run begins with the next epoch
//   }
//
// The random state of each rank is always saved, too (CPU, and CUDA if present).
//
// The constructor, save(), restore() and wait() are collective over all ranks, which add the same
// names in the same order. One thread at a time. Added objects must outlive the checkpoint. Call
// wait() or the destructor before shutdown().
//
// Errors are the same on all ranks, and name the rank that has one: FileError (no space, no
// permission, no such file), DataError (damaged, not a checkpoint, of a newer version),
// MismatchError (ranks have different names; the file does not fit the added objects),
// PeerLostError.
class Checkpoint {
 public:
  // The folder is created by the first save.
  explicit Checkpoint(std::string folder, const CheckpointOptions& options = {});
  // Waits until the save in progress is complete, and logs its error.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // --- what is saved ---
  // A name must not be empty, "kolo", "random" or used before (InvalidArgumentError).

  // Adds rank 0's parameters and buffers. Parameters are the same on all ranks; where buffers
  // differ, rank 0's are those that are usually tested and deployed. A holder or a std::shared_ptr
  // adds the module that it refers to now, and the checkpoint keeps that module alive.
  Checkpoint& add(const std::string& name, torch::nn::Module& module);
  // Adds options and state, under the parameters' names in the modules that were added, otherwise
  // under their positions. If ranks have different state (Adasum), use add_per_rank().
  Checkpoint& add(const std::string& name, torch::optim::Optimizer& optimizer);
  Checkpoint& add(const std::string& name, torch::optim::LRScheduler& scheduler);
  Checkpoint& add(const std::string& name, torch::optim::ReduceLROnPlateauScheduler& scheduler);
  // Adds rank 0's tensor, which has the same shape on all ranks; any strides, any device.
  Checkpoint& add(const std::string& name, const at::Tensor& tensor);
  // Adds a text that is the same on all ranks, such as a configuration; it may have any length.
  Checkpoint& add(const std::string& name, std::string& text);
  // Adds a number or bool; a module's holder or std::shared_ptr; a torch::jit::Module (its
  // parameters and buffers); or an object with LibTorch's save(OutputArchive&) and
  // load(InputArchive&), such as a DistributedSampler.
  template <typename T, std::enable_if_t<!detail::kHasOwnAdd<T>, bool> = true>
  Checkpoint& add(const std::string& name, T& object);

  // Adds a tensor that differs between ranks; its shape must be the same on all. Each rank gets its
  // own tensor back. If a job with more ranks restores it, the additional ranks keep their values.
  Checkpoint& add_per_rank(const std::string& name, const at::Tensor& tensor);
  // Adds the optimizer's state of each rank, and rank 0's options (the learning rate). Only for
  // LibTorch's and kolo's optimizers, otherwise InvalidArgumentError.
  Checkpoint& add_per_rank(const std::string& name, torch::optim::Optimizer& optimizer);
  // Adds this rank's part of a tensor that is distributed over the ranks. `shape`: that of the
  // whole tensor. `start`: the part's first index in each dimension. The parts must cover the whole
  // tensor without overlap; a part may be empty (an extent of 0). restore() fills the parts that
  // the ranks have added then, whatever the parts were when the tensor was saved.
  Checkpoint& add_part(const std::string& name, const at::Tensor& part,
                       std::vector<std::int64_t> shape, std::vector<std::int64_t> start);

  // --- saving ---

  // Saves a checkpoint under this step (0 or more). Replaces an older checkpoint of that step.
  // Returns false if it was skipped (CheckpointBusy::Skip). If an earlier asynchronous save has
  // failed, throws its error and saves nothing.
  bool save(std::int64_t step, std::optional<double> metric = std::nullopt);
  // Waits until the save in progress is complete. Throws its error.
  void wait();

  // --- restoring ---

  // Restores RestoreOptions::path, or the newest checkpoint: the one with the highest step. Returns
  // nothing if the folder has no checkpoint of that name. Skips damaged checkpoints, with a warning
  // that names the fault and the checkpoint that is used instead. If you go back to an earlier one
  // by its path, remove the later ones. If it throws, the program is unchanged, except if a load()
  // of the program's own classes throws: others may have been called by then, also on other ranks.
  std::optional<RestoredCheckpoint> restore(const RestoreOptions& options = {});

  // Collective. Returns the step of the newest file of this name in the folder, undamaged or not;
  // std::nullopt without such a file. A program that starts from the beginning can use it to avoid
  // mixing its checkpoints with those of an earlier run.
  std::optional<std::int64_t> newest_step();

  // The costs on this rank. Not collective.
  CheckpointMetrics metrics() const;

 private:
  struct Number {
    std::function<c10::IValue()> get;
    std::function<void(const c10::IValue&)> set;
  };
  Checkpoint& add_number(const std::string& name, Number number);
  Checkpoint& add_module(const std::string& name, std::shared_ptr<torch::nn::Module> module);
  Checkpoint& add_tensors(const std::string& name, const detail::NamedTensors& parameters,
                          const detail::NamedTensors& buffers);
  Checkpoint& add_archive(const std::string& name, detail::Save save, detail::Load load);

  struct State;
  std::unique_ptr<State> state_;
};

template <typename T, std::enable_if_t<!detail::kHasOwnAdd<T>, bool>>
Checkpoint& Checkpoint::add(const std::string& name, T& object) {
  if constexpr (std::is_same_v<T, bool>) {
    return add_number(name, {[&object] { return c10::IValue(object); },
                             [&object](const c10::IValue& value) { object = value.toBool(); }});
  } else if constexpr (std::is_floating_point_v<T>) {
    return add_number(
        name, {[&object] { return c10::IValue(static_cast<double>(object)); },
               [&object](const c10::IValue& value) { object = static_cast<T>(value.toDouble()); }});
  } else if constexpr (std::is_integral_v<T>) {
    return add_number(
        name, {[&object] { return c10::IValue(static_cast<std::int64_t>(object)); },
               [&object](const c10::IValue& value) { object = static_cast<T>(value.toInt()); }});
  } else if constexpr (detail::IsScriptModule<T>::value) {
    return add_tensors(name, detail::named_parameters_of(object), detail::named_buffers_of(object));
  } else if constexpr (detail::refers_to_module<T>) {
    return add_module(name, detail::pointer_to_module(object));
  } else {
    static_assert(detail::SavesAndLoads<T>::value,
                  "Checkpoint::add() takes modules, their holders, optimizers, schedulers, "
                  "tensors, numbers, std::string, and types with LibTorch's "
                  "save(OutputArchive&) const and load(InputArchive&)");
    return add_archive(
        name, [&object](torch::serialize::OutputArchive& archive) { object.save(archive); },
        [&object](torch::serialize::InputArchive& archive) { object.load(archive); });
  }
}

}  // namespace kolo
