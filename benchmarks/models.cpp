#include "benchmarks/models.hpp"

namespace kolo::bench {
namespace {

class ResNetBuilder {
 public:
  void convolution(const std::string& name, std::int64_t out, std::int64_t in,
                   std::int64_t kernel) {
    list_.push_back({name + ".weight", {out, in, kernel, kernel}});
  }
  void batch_norm(const std::string& name, std::int64_t channels) {
    list_.push_back({name + ".weight", {channels}});
    list_.push_back({name + ".bias", {channels}});
  }
  void linear(const std::string& name, std::int64_t out, std::int64_t in) {
    list_.push_back({name + ".weight", {out, in}});
    list_.push_back({name + ".bias", {out}});
  }

  // 1x1 to `width`, 3x3, 1x1 to four times `width`; with a projection where the shape changes.
  void bottleneck(const std::string& name, std::int64_t in, std::int64_t width, bool project) {
    convolution(name + ".conv1", width, in, 1);
    batch_norm(name + ".bn1", width);
    convolution(name + ".conv2", width, width, 3);
    batch_norm(name + ".bn2", width);
    convolution(name + ".conv3", 4 * width, width, 1);
    batch_norm(name + ".bn3", 4 * width);
    if (!project) return;
    convolution(name + ".downsample.0", 4 * width, in, 1);
    batch_norm(name + ".downsample.1", 4 * width);
  }

  std::vector<Parameter> take() { return std::move(list_); }

 private:
  std::vector<Parameter> list_;
};

}  // namespace

std::size_t Parameter::elements() const {
  std::size_t product = 1;
  for (const std::int64_t length : shape) product *= static_cast<std::size_t>(length);
  return product;
}

std::vector<std::string> model_names() {
  return {"resnet50"};
}

std::optional<std::vector<Parameter>> parameters_of(const std::string& model) {
  if (model == "resnet50") return resnet50_parameters();
  return std::nullopt;
}

std::vector<Parameter> resnet50_parameters() {
  constexpr int kBlocks[] = {3, 4, 6, 3};
  ResNetBuilder builder;
  builder.convolution("conv1", 64, 3, 7);
  builder.batch_norm("bn1", 64);
  std::int64_t channels = 64;
  for (int layer = 0; layer < 4; ++layer) {
    const std::int64_t width = std::int64_t{64} << layer;
    for (int block = 0; block < kBlocks[layer]; ++block) {
      const std::string name = "layer" + std::to_string(layer + 1) + "." + std::to_string(block);
      builder.bottleneck(name, channels, width, block == 0);
      channels = 4 * width;
    }
  }
  builder.linear("fc", 1000, channels);
  return builder.take();
}

}  // namespace kolo::bench
