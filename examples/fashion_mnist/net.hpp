// A small CNN for images of clothes.
#pragma once

#include <torch/torch.h>

namespace fashion_mnist {

// Mean and standard deviation of the pixels of the training images.
constexpr double kMean = 0.2860;
constexpr double kDeviation = 0.3530;

// Images [N, 1, 28, 28] to log-probabilities [N, 10]. DataParallel clones it.
struct NetImpl final : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }

  void reset() override {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3)));
    fc = register_module("fc", torch::nn::Linear(800, 10));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return torch::log_softmax(fc(x.flatten(1)), 1);
  }

  torch::nn::Conv2d conv1{nullptr};
  torch::nn::Conv2d conv2{nullptr};
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(Net);

}  // namespace fashion_mnist
