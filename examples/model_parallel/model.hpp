// One model in two halves, which lie on two devices or on two ranks.
#pragma once

#include <torch/torch.h>

namespace model_parallel {

// What the first half gives the second one for an image.
constexpr std::int64_t kFeatures = 800;

// Images [N, 1, 28, 28] to features [N, kFeatures].
struct FrontImpl : torch::nn::Module {
  FrontImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return x.flatten(1);
  }

  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 16, 3)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(16, 32, 3)};
};
TORCH_MODULE(Front);

// Features [N, kFeatures] to log-probabilities [N, 10].
struct BackImpl : torch::nn::Module {
  BackImpl() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  torch::Tensor forward(torch::Tensor x) { return torch::log_softmax(fc2(torch::relu(fc1(x))), 1); }

  torch::nn::Linear fc1{kFeatures, 128};
  torch::nn::Linear fc2{128, 10};
};
TORCH_MODULE(Back);

}  // namespace model_parallel
