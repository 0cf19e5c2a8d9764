// load_weights FILE DATA [state_dict]: loads the mnist example's weights, from a module's archive
// or a state_dict, and prints how many of the test images it gets right.
#include <kolo/data/mnist.h>
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "../../examples/mnist/net.hpp"

namespace {

void load_state_dict(torch::nn::Module& module, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto state = torch::pickle_load(bytes).toGenericDict();
  const torch::NoGradGuard no_grad;
  for (auto& named : module.named_parameters())
    named.value().copy_(state.at(named.key()).toTensor());
  for (auto& named : module.named_buffers()) named.value().copy_(state.at(named.key()).toTensor());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && (argc != 4 || std::string(argv[3]) != "state_dict")) return 2;
  mnist::Net net;
  argc == 4 ? load_state_dict(*net, argv[1]) : torch::load(net, argv[1]);
  net->eval();
  const torch::NoGradGuard no_grad;
  const kolo::data::MNIST test_set(argv[2], kolo::data::MNIST::Mode::kTest);
  const torch::Tensor output = net((test_set.images() - 0.1307) / 0.3081);
  std::cout << output.argmax(1).eq(test_set.labels()).sum().item<int>() << "\n";
  return 0;
}
