#include <torch/nn/utils/clip_grad.h>

#include <set>
#include <string>
#include <vector>

#include "kolo/callbacks.h"
#include "kolo/error.h"

namespace kolo {
namespace {

// Returns the optimizer's parameters, each once, even if two modules share one.
std::vector<at::Tensor> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  std::set<const c10::TensorImpl*> known;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (known.insert(parameter.unsafeGetTensorImpl()).second) parameters.push_back(parameter);
    }
  }
  return parameters;
}

}  // namespace

ClipGradNorm::ClipGradNorm(double max_norm, double norm_type)
    : max_norm_(max_norm), norm_type_(norm_type) {
  if (!(max_norm > 0) || !(norm_type > 0)) {
    throw InvalidArgumentError("ClipGradNorm: max_norm is " + std::to_string(max_norm) +
                               " and norm_type is " + std::to_string(norm_type) +
                               "; both must be above 0");
  }
}

void ClipGradNorm::gradients_ready(Trainer& trainer) {
  torch::nn::utils::clip_grad_norm_(parameters_of(trainer.optimizer()), max_norm_, norm_type_);
}

}  // namespace kolo
