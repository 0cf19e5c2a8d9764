// Where the halves of the model are, and how they are trained there.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "model.hpp"

namespace model_parallel {

enum class Placement {
  kOneDevice,   // both halves on one device of this process
  kTwoDevices,  // on two, if there are two
  kTwoRanks,    // even ranks have first halves, and the odd rank after each the second one
};

class Places {
 public:
  virtual ~Places() = default;

  // How many copies of the model the job has, and which of them this rank works for. A step's
  // images are divided among the copies.
  virtual int copies() const = 0;
  virtual int copy() const = 0;

  // A step with this copy's images [N, 1, 28, 28] and labels [N]. Its mean loss where the second
  // half is, 0 elsewhere.
  virtual double train(const torch::Tensor& images, const torch::Tensor& labels) = 0;
  // How many of the images the model classifies correctly, where the second half is; 0 elsewhere.
  virtual double correct(const torch::Tensor& images, const torch::Tensor& labels) = 0;
  // Sum of the value over the ranks that train the model together. Collective over these.
  virtual double sum(double value) const = 0;
};

// `device` is cpu or cuda. The same seed gives the same weights wherever they are. Collective for
// kTwoRanks.
std::unique_ptr<Places> make_places(Placement placement, const std::string& device, double lr,
                                    std::uint64_t seed);

}  // namespace model_parallel
