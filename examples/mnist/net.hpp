#pragma once

#include <torch/torch.h>

namespace mnist {

// Images [N, 1, 28, 28] to log-probabilities [N, 10].
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("dropout1", dropout1);
    register_module("fc1", fc1);
    register_module("norm", norm);
    register_module("dropout2", dropout2);
    register_module("fc2", fc2);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(conv1(x));
    x = torch::relu(conv2(x));
    x = dropout1(torch::max_pool2d(x, 2));
    x = torch::relu(norm(fc1(x.flatten(1))));
    return torch::log_softmax(fc2(dropout2(x)), 1);
  }

  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 32, 3)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(32, 64, 3)};
  torch::nn::Dropout2d dropout1{torch::nn::Dropout2dOptions(0.25)};
  torch::nn::Linear fc1{9216, 128};
  torch::nn::BatchNorm1d norm{128};
  torch::nn::Dropout dropout2{0.5};
  torch::nn::Linear fc2{128, 10};
};
TORCH_MODULE(Net);

}  // namespace mnist
