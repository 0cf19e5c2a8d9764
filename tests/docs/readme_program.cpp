// The program of README.md, with a model and a dataset of its own.
#include <torch/torch.h>

#include <cstddef>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() { register_module("linear", linear); }
  torch::Tensor forward(const torch::Tensor& input) { return torch::log_softmax(linear(input), 1); }
  torch::nn::Linear linear{4, 3};
};
TORCH_MODULE(Net);

// Points of three classes.
struct Points : torch::data::datasets::Dataset<Points> {
  torch::data::Example<> get(std::size_t index) override {
    const auto target = static_cast<std::int64_t>(index % 3);
    return {torch::full({4}, static_cast<double>(target) - 1.0), torch::tensor(target)};
  }
  torch::optional<std::size_t> size() const override { return 12000; }
};

const std::size_t size = 12000;
auto dataset = Points().map(torch::data::transforms::Stack<>());

}  // namespace

#include "readme_program.inc"
