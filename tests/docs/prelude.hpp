// What the pages' code takes for granted of a program.
#pragma once

#include <kolo/kolo.h>
#include <torch/torch.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr};
  torch::Tensor forward(torch::Tensor input);
};
TORCH_MODULE(Net);

using Dataset = decltype(std::declval<kolo::data::MNIST>().map(torch::data::transforms::Stack<>()));
extern Dataset dataset;
extern std::size_t size;
extern torch::data::Example<> batch;
extern Net net;
extern kolo::DistributedOptimizer<torch::optim::SGD> optimizer;
extern torch::optim::StepLR scheduler;
extern kolo::DistributedSampler sampler;
extern kolo::Checkpoint checkpoint;
extern std::int64_t epoch;
extern std::int64_t step;
extern std::int64_t steps;
extern double loss;
extern std::string text;
void train(std::int64_t epoch);
