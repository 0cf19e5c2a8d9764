#include "kolo/parameters.h"

#include <ATen/ATen.h>
#include <torch/serialize.h>

#include <sstream>
#include <utility>

#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/operations.h"
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

void load_from_bytes(const at::Tensor& bytes, torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive archive;
  archive.load_from(static_cast<const char*>(bytes.const_data_ptr()),
                    static_cast<std::size_t>(bytes.numel()));
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
  const auto options = [&](const char* name) {
    return OperationOptions(name).process_set(process_set);
  };
  const bool root = rank() == root_rank;
  const std::string text = root ? save_to_text(optimizer) : std::string();
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  size = broadcast(size, root_rank, options("broadcast_optimizer_state.size"));
  at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (root) std::copy(text.begin(), text.end(), static_cast<char*>(bytes.data_ptr()));
  bytes = broadcast_(bytes, root_rank, options("broadcast_optimizer_state"));
  if (!root) load_from_bytes(bytes, optimizer);
}

}  // namespace kolo
