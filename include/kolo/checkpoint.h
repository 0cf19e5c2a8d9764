// Checkpoints: the whole state of a training, from which it goes on with the same bits.
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
  std::string path;              // of the file
  std::int64_t step = 0;         // as given to save()
  std::optional<double> metric;  // likewise
  // Names of entries that were added to the Checkpoint. Empty with `strict`.
  std::vector<std::string> missing;     // not in the file
  std::vector<std::string> unexpected;  // only in the file
  std::vector<std::string> mismatched;  // of other shape or dtype, and how
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

template <typename T, typename = void>
struct SavesAndLoads : std::false_type {};
template <typename T>
struct SavesAndLoads<T, std::void_t<decltype(std::declval<const T&>().save(
                                        std::declval<torch::serialize::OutputArchive&>())),
                                    decltype(std::declval<T&>().load(
                                        std::declval<torch::serialize::InputArchive&>()))>>
    : std::true_type {};

}  // namespace detail

// Saves and restores what was added, under its names, in HDF5 files: docs/checkpoint-format.md.
//
//   kolo::Checkpoint checkpoint("runs/mnist");
//   checkpoint.add("model", net).add("optimizer", optimizer).add("scheduler", scheduler);
//   checkpoint.add("sampler", sampler).add("epoch", epoch);
//   checkpoint.restore();  // goes on, if there is something to go on from
//   for (; epoch < 9; ++epoch) {
//     ...
//     checkpoint.save(epoch);
//   }
//
// Also saved, without being asked for: the random state of each rank (CPU, and CUDA where there is
// one).
//
// The constructor, save(), restore() and wait() are collective over all ranks, which add the same
// names in the same order. One thread at a time. What is added must outlive the checkpoint, and
// shutdown() comes after wait() or the destructor.
//
// Errors are the same on all ranks, and name the rank that has one: FileError (no room, no
// permission, not there), DataError (damaged, no checkpoint, of a newer version), MismatchError
// (ranks have different names; the file does not fit what was added), PeerLostError.
class Checkpoint {
 public:
  // The folder is made when something is saved.
  explicit Checkpoint(std::string folder, const CheckpointOptions& options = {});
  // Waits until what is being written is complete; an error of that is logged.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // --- what is saved ---
  // Names are not empty and not "kolo" or "random"; none twice (InvalidArgumentError).

  // Parameters and buffers: rank 0's, as all have the same parameters, and buffers that differ are
  // rank 0's in what is tested and deployed. A holder or a std::shared_ptr stands for the module
  // that it refers to in this call; the checkpoint keeps that module alive.
  Checkpoint& add(const std::string& name, torch::nn::Module& module);
  // Options and state, under the names that the parameters have in the modules which were added,
  // else by position. Where each rank has a state of its own (Adasum): add_per_rank().
  Checkpoint& add(const std::string& name, torch::optim::Optimizer& optimizer);
  Checkpoint& add(const std::string& name, torch::optim::LRScheduler& scheduler);
  Checkpoint& add(const std::string& name, torch::optim::ReduceLROnPlateauScheduler& scheduler);
  // A tensor that all ranks have; any strides, any device.
  Checkpoint& add(const std::string& name, const at::Tensor& tensor);
  // A value that all ranks have; a text (a configuration, say) may be of any length.
  Checkpoint& add(const std::string& name, std::string& text);
  // A number or bool; a module's holder or std::shared_ptr; a torch::jit::Module (its parameters
  // and buffers); or a type with LibTorch's save(OutputArchive&) and load(InputArchive&), such as
  // DistributedSampler.
  template <typename T, std::enable_if_t<!detail::kHasOwnAdd<T>, bool> = true>
  Checkpoint& add(const std::string& name, T& object);

  // A tensor of this rank's own: each rank gets its own back. In a job of another number of ranks
  // those that were there before get theirs, the others keep what they have. Same shape everywhere.
  Checkpoint& add_per_rank(const std::string& name, const at::Tensor& tensor);
  // Its state; options (the learning rate) are rank 0's. LibTorch's and kolo's optimizers, else
  // InvalidArgumentError.
  Checkpoint& add_per_rank(const std::string& name, torch::optim::Optimizer& optimizer);
  // This rank's part of a tensor that is spread over the ranks: of the whole, which has `shape`,
  // what begins at `start` and has the part's own shape. Together the parts are the whole, without
  // overlap; a rank may have none (an extent of 0). Restoring gives each rank what it then asks
  // for, however it was cut when it was saved.
  Checkpoint& add_part(const std::string& name, const at::Tensor& part,
                       std::vector<std::int64_t> shape, std::vector<std::int64_t> start);

  // --- saving ---

  // Saves under the number of the step (0 or more), instead of an older checkpoint of that step.
  // Returns whether it did; false: CheckpointBusy::Skip. Throws what went wrong with an earlier
  // asynchronous save, too, and has saved nothing then.
  bool save(std::int64_t step, std::optional<double> metric = std::nullopt);
  // Until what is being written is complete. Throws what went wrong with it.
  void wait();

  // --- restoring ---

  // Nothing if the folder has no checkpoint of that name. The newest is the one of the highest
  // step: who goes back to an earlier one by its path removes the later ones. One that is damaged
  // is passed over, with a warning that says what is wrong and which one is taken. Where it throws,
  // nothing was changed, unless a load() of the program's throws: others, also on other ranks, may
  // have loaded by then.
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
  Checkpoint& add_tensors(const std::string& name, detail::NamedTensors parameters,
                          detail::NamedTensors buffers);
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
