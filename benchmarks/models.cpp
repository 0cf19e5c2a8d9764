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

void add(std::vector<Parameter>& list, const std::string& layer, std::vector<std::int64_t> weight) {
  const std::int64_t outputs = weight.back();
  list.push_back({layer + ".weight", std::move(weight)});
  list.push_back({layer + ".bias", {outputs}});
}

}  // namespace

std::size_t Parameter::elements() const {
  std::size_t product = 1;
  for (const std::int64_t length : shape) product *= static_cast<std::size_t>(length);
  return product;
}

std::size_t elements_of(const std::vector<Parameter>& parameters) {
  std::size_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.elements();
  return sum;
}

std::string shapes_of(const std::vector<Parameter>& parameters) {
  std::string shapes;
  for (const Parameter& parameter : parameters) {
    std::string shape;
    for (const std::int64_t size : parameter.shape)
      shape += (shape.empty() ? "" : "x") + std::to_string(size);
    shapes += (shapes.empty() ? "" : ",") + shape;
  }
  return shapes;
}

std::vector<std::string> model_names() {
  return {"resnet50", "gpt2", "mnist", "tiny1000"};
}

std::optional<std::vector<Parameter>> parameters_of(const std::string& model) {
  if (model == "resnet50") return resnet50_parameters();
  if (model == "gpt2") return gpt2_parameters();
  if (model == "mnist") return mnist_parameters();
  if (model == "tiny1000") return tiny1000_parameters();
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

std::vector<Parameter> gpt2_parameters() {
  constexpr std::int64_t kWidth = 768;
  std::vector<Parameter> list = {{"wte.weight", {50257, kWidth}}, {"wpe.weight", {1024, kWidth}}};
  for (int block = 0; block < 12; ++block) {
    const std::string name = "h." + std::to_string(block) + ".";
    add(list, name + "ln_1", {kWidth});
    add(list, name + "attn.c_attn", {kWidth, 3 * kWidth});
    add(list, name + "attn.c_proj", {kWidth, kWidth});
    add(list, name + "ln_2", {kWidth});
    add(list, name + "mlp.c_fc", {kWidth, 4 * kWidth});
    add(list, name + "mlp.c_proj", {4 * kWidth, kWidth});
  }
  add(list, "ln_f", {kWidth});
  return list;
}

std::vector<Parameter> mnist_parameters() {
  return {{"conv1.weight", {32, 1, 3, 3}},  {"conv1.bias", {32}},
          {"conv2.weight", {64, 32, 3, 3}}, {"conv2.bias", {64}},
          {"fc1.weight", {128, 9216}},      {"fc1.bias", {128}},
          {"norm.weight", {128}},           {"norm.bias", {128}},
          {"fc2.weight", {10, 128}},        {"fc2.bias", {10}}};
}

std::vector<Parameter> tiny1000_parameters() {
  constexpr int kCount = 1000;
  std::vector<Parameter> list;
  list.reserve(kCount);
  for (int i = 0; i < kCount; ++i) list.push_back({"tiny" + std::to_string(i), {256}});
  return list;
}

}  // namespace kolo::bench
