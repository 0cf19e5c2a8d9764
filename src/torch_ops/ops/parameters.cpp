#include "kolo/parameters.h"

#include <ATen/ATen.h>
#include <c10/util/Type.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <set>
#include <typeinfo>
#include <utility>

#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/objects.h"
#include "torch_ops/ops/handle_state.hpp"

namespace kolo {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

// Broadcasts all tensors in one group, which avoids one message per tensor.
void broadcast_all(const Named& named, int root_rank, const ProcessSet& set) {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  std::set<const at::TensorImpl*> known;  // a tensor may have two names
  for (const auto& [name, tensor] : named) {
    if (!tensor.defined() || !known.insert(tensor.unsafeGetTensorImpl()).second) continue;
    tensors.push_back(tensor);
    names.push_back(name);
  }
  const Call call("broadcast_parameters", "broadcast", OpKind::kBroadcast,
                  "kolo.broadcast_parameters", set);
  if (tensors.empty()) {  // a module may have none, on all ranks
    tensors.push_back(at::empty({0}));
    names.emplace_back("(no parameters)");
  }
  std::shared_ptr<Operation> operation = make_broadcast(call, tensors, root_rank);
  for (std::size_t i = 0; i < names.size(); ++i) operation->descriptor.tensors[i].name = names[i];
  run(call, std::move(operation), tensors);
}

// Describes the properties that two optimizers must share so that one can take the other's state.
std::string describe(const torch::optim::Optimizer& optimizer) {
  std::string text = c10::demangle(typeid(optimizer).name());
  for (const auto& group : optimizer.param_groups()) {
    text += text.back() == ']' ? "; group of" : ", group of";
    for (const at::Tensor& parameter : group.params())
      text += " " + to_string(parameter.sizes().vec());
  }
  return text;
}

}  // namespace

void broadcast_parameters(const torch::nn::Module& module, int root_rank,
                          const ProcessSet& process_set) {
  Named tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  broadcast_all(tensors, root_rank, process_set);
}

void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& tensors, int root_rank,
                          const ProcessSet& process_set) {
  Named named;
  for (const auto& item : tensors) named.emplace_back(item.key(), item.value());
  broadcast_all(named, root_rank, process_set);
}

void broadcast_parameters(const std::vector<at::Tensor>& tensors, int root_rank,
                          const ProcessSet& process_set) {
  Named named;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    named.emplace_back(std::to_string(i), tensors[i]);
  broadcast_all(named, root_rank, process_set);
}

void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root_rank,
                               const ProcessSet& process_set) {
  const std::string state = detail::broadcast_bytes(
      [&] { return detail::to_archive([&](auto& archive) { optimizer.save(archive); }); },
      root_rank, OperationOptions("kolo.broadcast_optimizer_state").process_set(process_set),
      describe(optimizer));
  if (rank() == root_rank) return;
  // LibTorch would keep what the archive lacks: everything, if the root has not stepped yet.
  optimizer.state().clear();
  detail::from_archive(state, [&](auto& archive) { optimizer.load(archive); });
}

}  // namespace kolo
