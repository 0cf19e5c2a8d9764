#include "kolo/clip.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kolo/error.h"
#include "torch_ops/ops/handle_state.hpp"

namespace kolo {
namespace {

void check(double max_norm, double norm_type) {
  if (norm_type > 0 && max_norm >= 0) return;
  throw InvalidArgumentError("clip_grad_norm_: norm_type is " + std::to_string(norm_type) +
                             " and max_norm " + std::to_string(max_norm) +
                             "; norm_type must be above 0, and max_norm 0 or more");
}

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    if (gradient.layout() != at::kStrided)
      throw InvalidArgumentError("clip_grad_norm_: a gradient is sparse; make it dense");
    gradients.push_back(gradient);
  }
  return gradients;
}

// Over all elements: the sum of |x|^norm_type, or the largest |x|.
double power_sum(const std::vector<at::Tensor>& gradients, double norm_type) {
  if (gradients.empty()) return 0;
  std::vector<at::Tensor> norms;
  norms.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients) {
    norms.push_back(at::linalg_vector_norm(gradient, norm_type)
                        .to(gradients[0].device(), at::kDouble, /*non_blocking=*/true));
  }
  const at::Tensor all = at::stack(norms);
  return (std::isinf(norm_type) ? all.max() : all.pow(norm_type).sum()).item<double>();
}

}  // namespace

double clip_grad_norm_(const std::vector<at::Tensor>& replicated,
                       const std::vector<at::Tensor>& sharded, double max_norm, double norm_type,
                       const ProcessSet& process_set) {
  const Call call("clip_grad_norm_", "allreduce", OpKind::kAllreduce, "kolo.clip_grad_norm",
                  process_set);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> same;
  std::vector<at::Tensor> own;
  const std::vector<at::Tensor> of_shards = call.or_give_up([&] {
    check(max_norm, norm_type);
    same = gradients_of(replicated);
    own = gradients_of(sharded);
    return std::vector<at::Tensor>{at::scalar_tensor(power_sum(own, norm_type), at::kDouble)};
  });
  const bool largest = std::isinf(norm_type);
  const auto options =
      AllreduceOptions(largest ? ReduceOp::Max : ReduceOp::Sum).process_set(process_set);
  const double shards =
      run(call, make_allreduce(call, of_shards, options), of_shards)[0].item<double>();
  const double others = power_sum(same, norm_type);
  const double norm = largest ? std::max(shards, others) : std::pow(shards + others, 1 / norm_type);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (const auto* gradients : {&same, &own})
    for (const at::Tensor& gradient : *gradients) gradient.mul_(factor);
  return norm;
}

}  // namespace kolo
