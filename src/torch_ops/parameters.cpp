#include "kolo/parameters.h"

#include <ATen/ATen.h>
#include <torch/serialize.h>

#include <sstream>
#include <utility>

#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/operations.h"

namespace kolo {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

// All are submitted before the first is waited for. Every operation is waited for, so that the
// tensors are the caller's again, whatever happens; then the first error is thrown.
void broadcast_all(const Named& tensors, int root_rank) {
  std::vector<Handle> handles;
  std::exception_ptr first_error;
  const auto keep_error = [&](const auto& action) {
    try {
      action();
    } catch (...) {
      if (!first_error) first_error = std::current_exception();
    }
  };
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) continue;
    keep_error([&, &n = name, &t = tensor] {
      handles.push_back(broadcast_async_(t, root_rank, "broadcast." + n));
    });
  }
  for (Handle& handle : handles) keep_error([&] { handle.wait(); });
  if (first_error) std::rethrow_exception(first_error);
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

void broadcast_parameters(const torch::nn::Module& module, int root_rank) {
  Named tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  broadcast_all(tensors, root_rank);
}

void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& tensors,
                          int root_rank) {
  Named named;
  for (const auto& item : tensors) named.emplace_back(item.key(), item.value());
  broadcast_all(named, root_rank);
}

void broadcast_parameters(const std::vector<at::Tensor>& tensors, int root_rank) {
  Named named;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    named.emplace_back(std::to_string(i), tensors[i]);
  broadcast_all(named, root_rank);
}

void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root_rank) {
  const bool root = rank() == root_rank;
  const std::string text = root ? save_to_text(optimizer) : std::string();
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  size = broadcast(size, root_rank, "broadcast_optimizer_state.size");
  at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (root) std::copy(text.begin(), text.end(), static_cast<char*>(bytes.data_ptr()));
  bytes = broadcast_(bytes, root_rank, "broadcast_optimizer_state");
  if (!root) load_from_bytes(bytes, optimizer);
}

}  // namespace kolo
