// A model and samples for tests of the Trainer.
#pragma once

#include <kolo/kolo.h>
#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace kolo::testing_support {

inline constexpr std::int64_t kFeatures = 4;

// The same on every rank and in every call.
inline torch::nn::Sequential make_model(bool batch_norm = false, double dropout = 0) {
  torch::manual_seed(11);
  torch::nn::Sequential model;
  // BatchNorm takes a bias away again: its gradient would be rounding errors alone.
  const auto first = torch::nn::LinearOptions(kFeatures, 8).bias(!batch_norm);
  model->push_back("first", torch::nn::Linear(first));
  if (batch_norm) model->push_back("norm", torch::nn::BatchNorm1d(8));
  model->push_back("tanh", torch::nn::Tanh());
  if (dropout > 0) model->push_back("dropout", torch::nn::Dropout(dropout));
  model->push_back("last", torch::nn::Linear(8, 1));
  model->to(torch::kDouble);
  return model;
}

inline data::Dataset make_samples(std::int64_t count) {
  torch::manual_seed(12);
  const torch::Tensor samples = torch::randn({count, kFeatures}, torch::kDouble);
  const torch::Tensor targets = samples.sum(1, /*keepdim=*/true).sin();
  return {samples, targets};
}

// Quiet, and on the CPU or on the fake GPU.
inline TrainerOptions quiet() {
#ifdef KOLO_FAKE_CUDA
  const char* const device = "cuda";
#else
  const char* const device = "cpu";
#endif
  return TrainerOptions().verbose(false).device(device).seed(5);
}

// The largest difference between parameters and buffers of two modules.
inline double difference(const torch::nn::Module& a, const torch::nn::Module& b) {
  double largest = 0;
  const auto compare = [&](const std::vector<torch::Tensor>& of_a,
                           const std::vector<torch::Tensor>& of_b) {
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      const torch::Tensor apart = (of_a[i].cpu() - of_b[i].cpu()).abs().max();
      largest = std::max(largest, apart.item().toDouble());
    }
  };
  compare(a.parameters(), b.parameters());
  compare(a.buffers(), b.buffers());
  return largest;
}

// Does something at a point of the training.
template <class Function>
class AtStep : public Callback {
 public:
  AtStep(std::int64_t step, Function function) : step_(step), function_(std::move(function)) {}
  void step_end(Trainer& trainer) override {
    if (trainer.state().step == step_) function_(trainer);
  }

 private:
  const std::int64_t step_;
  Function function_;
};
template <class Function>
std::shared_ptr<Callback> at_step(std::int64_t step, Function function) {
  return std::make_shared<AtStep<Function>>(step, std::move(function));
}

}  // namespace kolo::testing_support
