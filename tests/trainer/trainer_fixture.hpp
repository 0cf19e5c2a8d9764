#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "torch_ops/fixture.hpp"
#include "trainer/trained_model.hpp"

namespace kolo::testing_support {

// A test with a folder that all ranks share.
class TrainerTest : public WithKolo {
 protected:
  void SetUp() override {
    WithKolo::SetUp();
    folder_ = on_rank_zero([] {
      std::string name = "/tmp/kolo-trainer-XXXXXX";
      return std::string(::mkdtemp(name.data()));
    });
  }
  void TearDown() override {
    barrier();  // all have read what they wanted to
    on_rank_zero([&] { std::filesystem::remove_all(folder_); });
    WithKolo::TearDown();
  }

  std::vector<std::string> lines_of(const std::string& file) const {
    std::ifstream stream(folder_ + "/" + file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  std::string folder_;  // rank 0's
};

// A trainer with plain SGD.
struct Trained {
  explicit Trained(const TrainerOptions& options, torch::nn::Sequential its_model = make_model())
      : model(std::move(its_model)), trainer(model, torch::nn::MSELoss(), options) {
    trainer.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9));
  }
  torch::nn::Sequential model;
  Trainer trainer;
};

}  // namespace kolo::testing_support
