#include "kolo/parameters.h"

#include <ATen/ATen.h>
#include <torch/serialize.h>

#include <sstream>
#include <utility>

#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/objects.h"
#include "torch_ops/call.hpp"

namespace kolo {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

// In one group, so that it is not a message a tensor.
void broadcast_all(const Named& named, int root_rank, const ProcessSet& set) {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named) {
    if (!tensor.defined()) continue;
    tensors.push_back(tensor);
    names.push_back(name);
  }
  if (tensors.empty()) return;
  const Call call("broadcast_parameters", "broadcast", "broadcast_parameters", set);
  std::shared_ptr<Operation> operation = make_broadcast(call, tensors, root_rank);
  for (std::size_t i = 0; i < names.size(); ++i) operation->descriptor.tensors[i].name = names[i];
  submit(call.session, std::move(operation),
         std::make_shared<const std::vector<at::Tensor>>(tensors))
      .wait();
}

std::string save_to_text(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void load_from_text(const std::string& text, torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive archive;
  archive.load_from(text.data(), text.size());
  optimizer.load(archive);
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
  const bool root = rank() == root_rank;
  const std::string mine = root ? save_to_text(optimizer) : std::string();
  const std::string text = detail::broadcast_bytes(
      mine, root_rank, OperationOptions("broadcast_optimizer_state").process_set(process_set));
  if (!root) load_from_text(text, optimizer);
}

}  // namespace kolo
