#include "trainer/epoch_means.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <string>

#include "kolo/error.h"
#include "kolo/operations.h"

namespace kolo::trainer {

EpochMeans::EpochMeans(std::size_t count, at::Device device, std::size_t batches_per_fetch)
    : count_(count),
      batches_per_fetch_(batches_per_fetch),
      on_cpu_(device.is_cpu()),
      sums_(at::zeros({static_cast<std::int64_t>(count) + 1},
                      at::TensorOptions(device).dtype(at::kDouble))) {}

void EpochMeans::add(const std::vector<at::Tensor>& means, std::int64_t samples,
                     std::int64_t step) {
  for (const at::Tensor& mean : means) {
    if (!mean.defined() || mean.numel() != 1) {
      throw InvalidArgumentError(
          "Trainer: the loss and each metric must be a tensor with one element, the mean over the "
          "batch; one has " +
          std::to_string(mean.defined() ? mean.numel() : 0));
    }
  }
  const auto weight = static_cast<double>(samples);
  if (on_cpu_) {
    auto* const sums = sums_.mutable_data_ptr<double>();
    for (std::size_t i = 0; i < count_; ++i) sums[i] += weight * means[i].item<double>();
    sums[count_] += weight;
  } else {
    std::vector<at::Tensor> row;
    row.reserve(count_ + 1);
    for (const at::Tensor& mean : means)
      row.push_back(mean.detach().reshape({}).to(sums_.device(), at::kDouble));
    row.push_back(at::ones_like(row.front()));
    sums_.add_(at::stack(row), weight);
  }
  losses_.push_back(means.front().detach().reshape({}));
  steps_.push_back(step);
  if (losses_.size() >= batches_per_fetch_) fetch();
}

void EpochMeans::fetch() {
  if (losses_.empty()) return;
  const at::Tensor losses = at::stack(losses_).to(at::kCPU, at::kDouble);
  const auto* const values = losses.const_data_ptr<double>();
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    if (!std::isfinite(values[i]) && !bad_loss_) bad_loss_ = BadLoss{values[i], steps_[i]};
  }
  loss_ = values[losses_.size() - 1];
  losses_.clear();
  steps_.clear();
}

std::vector<double> EpochMeans::means(bool over_ranks) {
  fetch();
  const at::Tensor all = sums_.to(at::kCPU, at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  if (over_ranks) allreduce_(all, AllreduceOptions("kolo.trainer.means").op(ReduceOp::Sum));
  const auto* const sums = all.const_data_ptr<double>();
  const double samples = sums[count_];
  std::vector<double> means(count_, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < count_ && samples > 0; ++i) means[i] = sums[i] / samples;
  return means;
}

void EpochMeans::reset() {
  sums_.zero_();
}

void EpochMeans::forget_losses() {
  losses_.clear();
  steps_.clear();
  bad_loss_.reset();
}

}  // namespace kolo::trainer
