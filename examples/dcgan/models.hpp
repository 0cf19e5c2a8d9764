// Generator and discriminator of a DCGAN (Radford and others 2016) for digits of 28 by 28.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace dcgan {

constexpr std::int64_t kNoise = 64;  // values that an image is made of

// Noise [N, kNoise] to images [N, 1, 28, 28] from -1 to 1.
inline torch::nn::Sequential make_generator() {
  const auto up = [](std::int64_t from, std::int64_t to) {
    return torch::nn::ConvTranspose2dOptions(from, to, 4).stride(2).padding(1).bias(false);
  };
  return torch::nn::Sequential(
      torch::nn::Unflatten(torch::nn::UnflattenOptions(1, {kNoise, 1, 1})),
      torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(kNoise, 64, 7).bias(false)),
      torch::nn::BatchNorm2d(64), torch::nn::ReLU(),  // 7 by 7
      torch::nn::ConvTranspose2d(up(64, 32)), torch::nn::BatchNorm2d(32), torch::nn::ReLU(),  // 14
      torch::nn::ConvTranspose2d(up(32, 1)), torch::nn::Tanh());                              // 28
}

// Images [N, 1, 28, 28] to logits [N, 1]: above 0 for a digit, below 0 for an image that was made.
inline torch::nn::Sequential make_discriminator() {
  const auto down = [](std::int64_t from, std::int64_t to) {
    return torch::nn::Conv2dOptions(from, to, 4).stride(2).padding(1).bias(false);
  };
  const auto leaky = torch::nn::LeakyReLUOptions().negative_slope(0.2);
  return torch::nn::Sequential(torch::nn::Conv2d(down(1, 32)), torch::nn::LeakyReLU(leaky),
                               torch::nn::Conv2d(down(32, 64)), torch::nn::BatchNorm2d(64),
                               torch::nn::LeakyReLU(leaky), torch::nn::Flatten(),
                               torch::nn::Linear(64 * 7 * 7, 1));
}

// As the paper has it: weights of convolutions, and of the linear layer, with a deviation of 0.02.
inline void initialize(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& entry : module.named_parameters()) {
    if (entry.value().dim() > 1) entry.value().normal_(0.0, 0.02);
  }
}

}  // namespace dcgan
