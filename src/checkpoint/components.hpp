// The components that Checkpoint::add() creates, and the random states. Each refers to the object
// that was added, which must outlive it.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/component.hpp"
#include "kolo/modules.h"
#include "kolo/objects.h"

namespace kolo::checkpoint {

using Added = std::unique_ptr<Component>;

// The names of the parameters of all added modules.
using ParameterNames = std::map<const at::TensorImpl*, std::string>;
void name_parameters(const torch::nn::Module& module, ParameterNames& names);
void name_parameters(const kolo::detail::NamedTensors& parameters, ParameterNames& names);

Added module_component(const std::string& name, std::shared_ptr<torch::nn::Module> module);
// Saves each tensor under its own name. Leaves out undefined tensors.
Added tensors_component(const std::string& name, const kolo::detail::NamedTensors& parameters,
                        const kolo::detail::NamedTensors& buffers);
// `names` must outlive the component; modules may be added to it later. `kind`: kTensor, or
// kPerRank if each rank has its own state.
Added optimizer_component(const std::string& name, torch::optim::Optimizer& optimizer,
                          const ParameterNames& names, Kind kind);
Added scheduler_component(const std::string& name, torch::optim::LRScheduler& scheduler);
Added scheduler_component(const std::string& name,
                          torch::optim::ReduceLROnPlateauScheduler& scheduler);
Added tensor_component(const std::string& name, const at::Tensor& tensor, const Spread& spread);
Added text_component(const std::string& name, std::string& text);
Added number_component(const std::string& name, std::function<c10::IValue()> get,
                       std::function<void(const c10::IValue&)> set);
Added archive_component(const std::string& name, detail::Save save, detail::Load load);
// The random states of this rank: that of the CPU's generator, and one for each visible CUDA
// device.
Added random_component();

// Saves an archive's contents under their keys if they consist of tensors, numbers, texts and
// archives of these. Otherwise saves the archive as it is. Restoring rebuilds the same archive.
void capture_archive(Capture& capture, const std::string& name, const detail::Save& save);
void restore_archive(Request& request, const std::string& name, const detail::Load& load);

}  // namespace kolo::checkpoint
