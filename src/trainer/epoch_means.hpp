// The numbers of an epoch's batches, the loss and the metrics, and their means over its samples.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kolo::trainer {

// A loss that is not finite.
struct BadLoss {
  double value = 0;
  std::int64_t step = 0;
};

// Numbers on a GPU are fetched from it many batches at a time, since each fetch waits for the GPU.
class EpochMeans {
 public:
  // `count`: how many numbers a batch has. `batches_per_fetch`: of numbers on a GPU.
  EpochMeans(std::size_t count, at::Device device, std::size_t batches_per_fetch);

  // The numbers of a batch in this step, which are means over its samples; the first one is the
  // loss. Tensors of one element, InvalidArgumentError otherwise.
  void add(const std::vector<at::Tensor>& means, std::int64_t samples, std::int64_t step);
  // The newest loss that was fetched.
  double loss() const { return loss_; }
  // Fetches what is left, which waits for a GPU.
  void fetch();
  // The first loss that is not finite, of those that were fetched.
  const std::optional<BadLoss>& bad_loss() const { return bad_loss_; }

  // Fetches what is left. The means over the samples of all ranks if `over_ranks`, which is
  // collective; NaN where there were no samples.
  std::vector<double> means(bool over_ranks);
  // The sums of number * samples, and at last of samples; for a checkpoint.
  const at::Tensor& sums() const { return sums_; }
  void reset();

 private:
  const std::size_t count_;
  const std::size_t batches_per_fetch_;
  const bool on_cpu_;
  const at::Tensor sums_;            // float64 [count + 1]
  std::vector<at::Tensor> losses_;   // not yet fetched
  std::vector<std::int64_t> steps_;  // theirs
  double loss_ = 0;
  std::optional<BadLoss> bad_loss_;
};

}  // namespace kolo::trainer
