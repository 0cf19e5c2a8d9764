// Parameters of well-known models: names and sizes, in the order in which the model lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kolo::bench {

struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;

  std::size_t elements() const;
};

// Of all of them.
std::size_t elements_of(const std::vector<Parameter>& parameters);

// "64x3x7x7,64": as child processes are told.
std::string shapes_of(const std::vector<Parameter>& parameters);

std::vector<std::string> model_names();

// Nothing if the model is not known.
std::optional<std::vector<Parameter>> parameters_of(const std::string& model);

// ResNet-50 as torchvision builds it (He et al., Deep Residual Learning for Image Recognition,
// 2015, with the stride in the 3x3 convolution): 161 parameters, 25,557,032 values.
std::vector<Parameter> resnet50_parameters();

// GPT-2, the small one, as Hugging Face's transformers builds it (Radford et al., Language Models
// are Unsupervised Multitask Learners, 2019): 148 parameters, 124,439,808 values.
std::vector<Parameter> gpt2_parameters();

// The network of examples/mnist: 10 parameters, 1,200,138 values.
std::vector<Parameter> mnist_parameters();

// 1,000 parameters of 1 KiB.
std::vector<Parameter> tiny1000_parameters();

}  // namespace kolo::bench
