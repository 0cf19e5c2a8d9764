#include "torch_ops/optimizer/compressed_exchange.hpp"

#include <ATen/core/grad_mode.h>

#include <cstddef>
#include <exception>
#include <utility>

#include "core/exception.hpp"
#include "torch_ops/ops/requests.hpp"

namespace kolo {

std::vector<at::Tensor> GradientCompressor::compress_again(
    const std::vector<at::Tensor>& /*reduced*/) {
  return {};
}

namespace detail {

CompressedExchange::CompressedExchange(std::vector<GradientCompressor*> compressors,
                                       const std::vector<at::Tensor>& gradients,
                                       AllreduceOptions options)
    : compressors_(std::move(compressors)), options_(std::move(options)) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < compressors_.size(); ++i)
    tensors_.push_back(compressors_[i]->compress(gradients[i]));
}

void CompressedExchange::begin() {
  send(tensors_, options_.name());
}

// In one operation, in place.
void CompressedExchange::send(const PerParameter& tensors, const std::string& name) {
  std::vector<at::Tensor> all;
  for (const std::vector<at::Tensor>& one : tensors) all.insert(all.end(), one.begin(), one.end());
  if (all.empty()) return;
  handle_ = grouped_allreduce_async_(std::move(all), AllreduceOptions(options_).name(name));
}

void CompressedExchange::wait() {
  if (auto handle = std::exchange(handle_, {})) handle->wait();
}

void CompressedExchange::begin_second() {
  wait();
  const at::NoGradGuard no_grad;
  const std::string name = options_.name() + ".second";
  PerParameter second;
  try {
    for (std::size_t i = 0; i < compressors_.size(); ++i)
      second.push_back(compressors_[i]->compress_again(tensors_[i]));
  } catch (...) {
    Call("DistributedOptimizer", "allreduce", OpKind::kAllreduce, name, options_.process_set())
        .give_up(text_of(std::current_exception()));
    throw;
  }
  send(second, name);
  for (std::size_t i = 0; i < second.size(); ++i) {
    if (!second[i].empty()) tensors_[i] = std::move(second[i]);
  }
}

void CompressedExchange::finish(const Take& take) {
  wait();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < compressors_.size(); ++i)
    take(i, compressors_[i]->decompress(tensors_[i]));
}

}  // namespace detail
}  // namespace kolo
