// The components that Checkpoint::add() makes, and the random states. Each refers to what was
// added, which outlives it.
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

// What the parameters of the modules that were added are called.
using ParameterNames = std::map<const at::TensorImpl*, std::string>;
void name_parameters(const torch::nn::Module& module, ParameterNames& names);
void name_parameters(const kolo::detail::NamedTensors& parameters, ParameterNames& names);

Added module_component(const std::string& name, std::shared_ptr<torch::nn::Module> module);
// Each tensor under its own name. One that is undefined is left out.
Added tensors_component(const std::string& name, const kolo::detail::NamedTensors& tensors);
// `names` outlives the component; later modules may still be added to it. `kind`: kTensor or, where
// each rank has a state of its own, kPerRank.
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
// Of this rank: the CPU's generator, and each visible CUDA device's.
Added random_component();

// What an archive holds, under its keys, where that is tensors, numbers, texts and archives of
// these; else the archive as it is. Restoring makes the same archive of it.
void capture_archive(Capture& capture, const std::string& name, const detail::Save& save);
void restore_archive(Request& request, const std::string& name, const detail::Load& load);

}  // namespace kolo::checkpoint
