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

bool shares_storage(const at::Tensor& gradient, std::size_t references) {
  if (gradient.is_sparse() || !gradient.has_storage()) return false;
  return gradient.storage().use_count() > references;
}

}  // namespace

at::Tensor reducible_gradient(const Parameter& parameter, bool sparse_as_dense,
                              std::size_t references) {
  at::Tensor gradient = parameter.tensor.grad();
  if (!gradient.defined()) return gradient;
  gradient = in_layout(parameter, sparse_as_dense, gradient);
  // Autograd's gradients have the parameter's strides. One that the program has set may not.
  const bool is_comparable =
      gradient.layout() == at::kStrided && gradient.sizes() == parameter.tensor.sizes();
  if (is_comparable && !torch::autograd::utils::obeys_layout_contract(gradient, parameter.tensor))
    gradient = torch::autograd::utils::clone_obey_contract(gradient.detach(), parameter.tensor);
  if (!gradient.is_same(parameter.tensor.grad())) parameter.tensor.mutable_grad() = gradient;
  if (shares_storage(gradient, references))
    return parameter.tensor.mutable_grad() = gradient.clone();
  return gradient;
}

}  // namespace kolo::detail
