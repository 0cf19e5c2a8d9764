// ResNet-50 (He et al., Deep Residual Learning for Image Recognition, 2015), with the stride in the
// 3x3 convolution as torchvision has it.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace resnet50 {

inline torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                     std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// [N, in, H, W] to [N, 4 * width, H / stride, W / stride].
struct BottleneckImpl : torch::nn::Module {
  BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, width, 1, 1))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(width))),
        conv2(register_module("conv2", convolution(width, width, 3, stride))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(width))),
        conv3(register_module("conv3", convolution(width, 4 * width, 1, 1))),
        bn3(register_module("bn3", torch::nn::BatchNorm2d(4 * width))) {
    if (stride == 1 && in == 4 * width) return;
    shortcut =
        register_module("downsample", torch::nn::Sequential(convolution(in, 4 * width, 1, stride),
                                                            torch::nn::BatchNorm2d(4 * width)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = bn1(conv1(x)).relu_();
    y = bn2(conv2(y)).relu_();
    y = bn3(conv3(y));
    return y.add_(shortcut.is_empty() ? x : shortcut->forward(x)).relu_();
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Conv2d conv3;
  torch::nn::BatchNorm2d bn3;
  torch::nn::Sequential shortcut{nullptr};
};
TORCH_MODULE(Bottleneck);

// Images [N, 3, H, W] to scores [N, 1000].
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("layers", layers);
    register_module("fc", fc);
    constexpr std::int64_t kBlocks[] = {3, 4, 6, 3};
    std::int64_t channels = 64;
    for (int layer = 0; layer < 4; ++layer) {
      const std::int64_t width = std::int64_t{64} << layer;
      for (std::int64_t block = 0; block < kBlocks[layer]; ++block) {
        layers->push_back(Bottleneck(channels, width, layer > 0 && block == 0 ? 2 : 1));
        channels = 4 * width;
      }
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    x = bn1(conv1(x)).relu_();
    x = layers->forward(torch::max_pool2d(x, 3, 2, 1));
    return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  torch::nn::Conv2d conv1{convolution(3, 64, 7, 2)};
  torch::nn::BatchNorm2d bn1{64};
  torch::nn::Sequential layers;
  torch::nn::Linear fc{2048, 1000};
};
TORCH_MODULE(Net);

}  // namespace resnet50
