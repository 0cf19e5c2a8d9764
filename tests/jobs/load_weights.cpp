// load_weights FILE DATA: loads what the mnist example saved and prints how many of the test images
// it gets right.
#include <kolo/data/mnist.h>
#include <torch/torch.h>

#include <iostream>

#include "../../examples/mnist/net.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  mnist::Net net;
  torch::load(net, argv[1]);
  net->eval();
  const torch::NoGradGuard no_grad;
  const kolo::data::MNIST test_set(argv[2], kolo::data::MNIST::Mode::kTest);
  const torch::Tensor output = net((test_set.images() - 0.1307) / 0.3081);
  std::cout << output.argmax(1).eq(test_set.labels()).sum().item<int>() << "\n";
  return 0;
}
