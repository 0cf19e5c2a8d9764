#include "kolo/data/dataset.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "kolo/error.h"

namespace kolo {
namespace detail {
namespace {

at::Tensor stacked(const std::vector<at::Tensor>& tensors) {
  if (!tensors.front().defined()) return {};
  return at::stack(tensors);
}

void require_samples(bool there_are_some) {
  if (!there_are_some) throw InvalidArgumentError("Dataset: an empty batch was requested");
}

}  // namespace

data::Batch to_batch(std::vector<torch::data::Example<>> samples) {
  require_samples(!samples.empty());
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> targets;
  for (torch::data::Example<>& sample : samples) {
    values.push_back(std::move(sample.data));
    targets.push_back(std::move(sample.target));
  }
  return {stacked(values), stacked(targets)};
}

data::Batch to_batch(std::vector<torch::data::TensorExample> samples) {
  require_samples(!samples.empty());
  std::vector<at::Tensor> values;
  values.reserve(samples.size());
  for (torch::data::TensorExample& sample : samples) values.push_back(std::move(sample.data));
  return {stacked(values), {}};
}

data::Batch to_batch(data::Batch batch) {
  return batch;
}

std::size_t known_size(std::optional<std::size_t> size) {
  if (!size) {
    throw InvalidArgumentError(
        "Dataset: the LibTorch dataset does not know its size; ranks can only share samples that "
        "are read by index");
  }
  return *size;
}

}  // namespace detail

namespace data {

Dataset::Dataset(const at::Tensor& samples, const at::Tensor& targets) {
  if (!samples.defined() || !targets.defined() || samples.dim() == 0 || targets.dim() == 0) {
    throw InvalidArgumentError(
        "Dataset: samples and targets must be tensors whose dimension 0 counts the samples");
  }
  if (samples.size(0) != targets.size(0)) {
    throw InvalidArgumentError("Dataset: there are " + std::to_string(samples.size(0)) +
                               " samples and " + std::to_string(targets.size(0)) + " targets");
  }
  size_ = static_cast<std::size_t>(samples.size(0));
  get_batch_ = [samples, targets](c10::ArrayRef<std::size_t> indices) -> Batch {
    const std::vector<std::int64_t> rows(indices.begin(), indices.end());
    const at::Tensor index = at::tensor(rows, at::kLong);
    return {samples.index_select(0, index.to(samples.device())),
            targets.index_select(0, index.to(targets.device()))};
  };
}

Dataset::Dataset(std::size_t size, std::function<Batch(std::size_t)> get) : size_(size) {
  if (get == nullptr) throw InvalidArgumentError("Dataset: the function is null");
  get_batch_ = [get = std::move(get)](c10::ArrayRef<std::size_t> indices) {
    std::vector<torch::data::Example<>> samples;
    for (const std::size_t index : indices) samples.push_back(get(index));
    return kolo::detail::to_batch(std::move(samples));
  };
}

Batch Dataset::get_batch(c10::ArrayRef<std::size_t> indices) const {
  kolo::detail::require_samples(!indices.empty());
  for (const std::size_t index : indices) {
    if (index >= size_) {
      throw InvalidArgumentError("Dataset: there is no sample " + std::to_string(index) +
                                 " among " + std::to_string(size_));
    }
  }
  Batch batch = get_batch_(indices);
  const auto check = [&](const at::Tensor& tensor, const char* what) {
    const std::int64_t count = tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
    if (count == static_cast<std::int64_t>(indices.size())) return;
    throw InvalidArgumentError("Dataset: the dataset gave " + std::to_string(count) + " " + what +
                               " for a batch of " + std::to_string(indices.size()) +
                               ", counted along dimension 0");
  };
  check(batch.data, "samples");
  if (batch.target.defined()) check(batch.target, "targets");
  return batch;
}

}  // namespace data
}  // namespace kolo
