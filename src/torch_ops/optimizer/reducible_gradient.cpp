#include "torch_ops/optimizer/reducible_gradient.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

namespace kolo::detail {
namespace {

at::Tensor in_layout(const Parameter& parameter, bool sparse_as_dense, const at::Tensor& gradient) {
  const bool dense = sparse_as_dense || parameter.layout == Layout::kDense;
  if (gradient.is_sparse() && dense) return gradient.to_dense();
  if (!gradient.is_sparse() && parameter.layout == Layout::kSparse) return gradient.to_sparse(1);
  return gradient;
}

bool shares_storage(const at::Tensor& gradient, std::size_t expected_references) {
  if (gradient.is_sparse() || !gradient.has_storage()) return false;
  return gradient.storage().use_count() > expected_references;
}

}  // namespace

at::Tensor reducible_gradient(const Parameter& parameter, bool sparse_as_dense,
                              const GradientOrigin& origin) {
  at::Tensor gradient = parameter.tensor.grad();
  if (!gradient.defined()) return gradient;
  gradient = in_layout(parameter, sparse_as_dense, gradient);
  if (!gradient.is_same(parameter.tensor.grad())) parameter.tensor.mutable_grad() = gradient;
  const bool is_comparable =
      gradient.layout() == at::kStrided && gradient.sizes() == parameter.tensor.sizes();
  if (is_comparable && !torch::autograd::utils::obeys_layout_contract(gradient, parameter.tensor)) {
    gradient = torch::autograd::utils::clone_obey_contract(gradient.detach(), parameter.tensor);
  } else if (shares_storage(gradient, origin.expected_references)) {
    gradient = gradient.clone();
  }
  if (origin.may_replace) parameter.tensor.mutable_grad() = gradient;
  return gradient;
}

}  // namespace kolo::detail
