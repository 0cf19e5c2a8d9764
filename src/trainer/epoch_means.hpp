// Collects the numbers of an epoch's batches (the loss and the metrics), and averages them over the
// samples.
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

// Fetches numbers from a GPU for many batches at a time, because each fetch waits for the GPU.
class EpochMeans {
 public:
  // `count`: numbers per batch. `batches_per_fetch`: for numbers on a GPU.
  EpochMeans(std::size_t count, at::Device device, std::size_t batches_per_fetch);

  // Adds the numbers of a batch in this step, which are means over its samples; the first one is
  // the loss. Throws InvalidArgumentError for tensors without exactly one element.
  void add(const std::vector<at::Tensor>& means, std::int64_t samples, std::int64_t step);
  // The newest fetched loss.
  double loss() const { return loss_; }
  // Fetches the remaining losses, which waits for a GPU.
  void fetch();
  // The first fetched loss that is not finite.
  const std::optional<BadLoss>& bad_loss() const { return bad_loss_; }

  // Fetches the remaining losses, and returns the means. `over_ranks`: over the samples of all
  // ranks, which is collective. NaN if there are no samples.
  std::vector<double> means(bool over_ranks);
  // The sums of number * samples, followed by that of samples; for a checkpoint.
  const at::Tensor& sums() const { return sums_; }
  void reset();
  // Forgets the losses but keeps the sums: for a training that begins, or that goes on after a loss
  // that was not finite.
  void forget_losses();

 private:
  const std::size_t count_;
  const std::size_t batches_per_fetch_;
  const bool on_cpu_;
  const at::Tensor sums_;            // float64 [count + 1]
  std::vector<at::Tensor> losses_;   // not yet fetched
  std::vector<std::int64_t> steps_;  // of losses_
  double loss_ = 0;
  std::optional<BadLoss> bad_loss_;
};

}  // namespace kolo::trainer
