#include "places.hpp"

#include <kolo/kolo.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace model_parallel {
namespace {

template <typename Half>
Half seeded(std::uint64_t seed, torch::Device device) {
  torch::manual_seed(seed);
  Half half;
  half->to(device);
  return half;
}

std::uint64_t seed_of_front(std::uint64_t seed) {
  return 2 * seed;
}

std::uint64_t seed_of_back(std::uint64_t seed) {
  return 2 * seed + 1;
}

double count_correct(const torch::Tensor& output, const torch::Tensor& labels) {
  return output.argmax(1).cpu().eq(labels).sum().item<double>();
}

// Autograd goes from one device to the other by itself. Nothing is reduced, so kolo has no part.
class OneProcess final : public Places {
 public:
  OneProcess(torch::Device first, torch::Device second, double lr, std::uint64_t seed)
      : first_(first),
        second_(second),
        front_(seeded<Front>(seed_of_front(seed), first)),
        back_(seeded<Back>(seed_of_back(seed), second)),
        optimizer_(parameters(), torch::optim::SGDOptions(lr)) {}

  int copies() const override { return 1; }
  int copy() const override { return 0; }

  double train(const torch::Tensor& images, const torch::Tensor& labels) override {
    optimizer_.zero_grad();
    const torch::Tensor loss = torch::nll_loss(forward(images), labels.to(second_));
    loss.backward();
    optimizer_.step();
    return loss.item<double>();
  }

  double correct(const torch::Tensor& images, const torch::Tensor& labels) override {
    const torch::NoGradGuard no_grad;
    return count_correct(forward(images), labels);
  }

  double sum(double value) const override { return value; }

 private:
  torch::Tensor forward(const torch::Tensor& images) {
    return back_(front_(images.to(first_)).to(second_));
  }

  std::vector<torch::Tensor> parameters() const {
    std::vector<torch::Tensor> all = front_->parameters();
    for (const torch::Tensor& parameter : back_->parameters()) all.push_back(parameter);
    return all;
  }

  const torch::Device first_;
  const torch::Device second_;
  Front front_;
  Back back_;
  torch::optim::SGD optimizer_;
};

// The ranks that have the same half. Collective: both sets are made everywhere.
kolo::ProcessSet ranks_with(bool second_half) {
  std::vector<int> members[2];
  for (int rank = 0; rank < kolo::size(); ++rank) members[rank % 2].push_back(rank);
  const kolo::ProcessSet fronts = kolo::add_process_set(members[0]);
  const kolo::ProcessSet backs = kolo::add_process_set(members[1]);
  return second_half ? backs : fronts;
}

// One half, on this rank. Its gradients are averaged over the copies.
template <typename Half>
class OnRank : public Places {
 public:
  int copies() const override { return kolo::size() / 2; }
  int copy() const override { return kolo::rank() / 2; }

  double sum(double value) const override {
    return kolo::allreduce(torch::tensor(value, torch::kDouble),
                           kolo::AllreduceOptions(kolo::ReduceOp::Sum))
        .item<double>();
  }

 protected:
  using Optimizer = kolo::DistributedOptimizer<torch::optim::SGD>;

  OnRank(torch::Device device, double lr, std::uint64_t seed, bool second_half)
      : device_(device),
        set_(ranks_with(second_half)),
        half_(seeded<Half>(seed, device)),
        optimizer_(half_->parameters(), torch::optim::SGDOptions(lr),
                   kolo::DistributedOptimizerOptions().process_set(set_)) {
    kolo::broadcast_parameters(*half_, second_half ? 1 : 0, set_);
  }

  torch::Device device() const { return device_; }
  Half& half() { return half_; }
  Optimizer& optimizer() { return optimizer_; }

 private:
  const torch::Device device_;
  const kolo::ProcessSet set_;
  Half half_;
  Optimizer optimizer_;
};

class FrontRank final : public OnRank<Front> {
 public:
  FrontRank(torch::Device device, double lr, std::uint64_t seed)
      : OnRank(device, lr, seed_of_front(seed), false) {}

  // What send() gives stands for all that comes after it: its backward() receives the gradient.
  double train(const torch::Tensor& images, const torch::Tensor& /*labels*/) override {
    optimizer().zero_grad();
    kolo::send(half()(images.to(device())), kolo::rank() + 1).backward();
    optimizer().step();
    return 0;
  }

  double correct(const torch::Tensor& images, const torch::Tensor& /*labels*/) override {
    const torch::NoGradGuard no_grad;
    kolo::send(half()(images.to(device())), kolo::rank() + 1);
    return 0;
  }
};

class BackRank final : public OnRank<Back> {
 public:
  BackRank(torch::Device device, double lr, std::uint64_t seed)
      : OnRank(device, lr, seed_of_back(seed), true) {}

  // backward() sends the features' gradient, since what recv() is given wants one.
  double train(const torch::Tensor& images, const torch::Tensor& labels) override {
    optimizer().zero_grad();
    const torch::Tensor like = features_of(images).requires_grad_();
    const torch::Tensor output = half()(kolo::recv(like, kolo::rank() - 1));
    const torch::Tensor loss = torch::nll_loss(output, labels.to(device()));
    loss.backward();
    optimizer().step();
    return loss.item<double>();
  }

  double correct(const torch::Tensor& images, const torch::Tensor& labels) override {
    const torch::NoGradGuard no_grad;
    return count_correct(half()(kolo::recv(features_of(images), kolo::rank() - 1)), labels);
  }

 private:
  torch::Tensor features_of(const torch::Tensor& images) const {
    return torch::empty({images.size(0), kFeatures}, device());
  }
};

torch::Device cuda(int index) {
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(index)};
}

}  // namespace

std::unique_ptr<Places> make_places(Placement placement, const std::string& device, double lr,
                                    std::uint64_t seed) {
  const bool on_gpu = device == "cuda";
  const torch::Device here = on_gpu ? cuda(kolo::local_device()) : torch::Device(torch::kCPU);
  if (placement != Placement::kTwoRanks) {
    const bool two = placement == Placement::kTwoDevices && on_gpu;
    const int last = static_cast<int>(torch::cuda::device_count()) - 1;
    return std::make_unique<OneProcess>(here, two ? cuda(last) : here, lr, seed);
  }
  if (kolo::size() % 2 != 0) {
    throw std::invalid_argument("a job of " + std::to_string(kolo::size()) +
                                " ranks: start one, or two for each copy of the model");
  }
  if (kolo::rank() % 2 == 0) return std::make_unique<FrontRank>(here, lr, seed);
  return std::make_unique<BackRank>(here, lr, seed);
}

}  // namespace model_parallel
