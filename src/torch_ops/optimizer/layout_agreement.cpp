#include "torch_ops/optimizer/layout_agreement.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "kolo/operations.h"
#include "torch_ops/ops/tensor_traits.hpp"

namespace kolo::detail {
namespace {

// Returns a number that identifies the order in which autograd stores the dimensions of the
// parameter's gradients: 0 for row-major.
std::int64_t code_of_order(const at::Tensor& parameter) {
  if (parameter.is_contiguous() || !parameter.is_non_overlapping_and_dense()) return 0;
  std::int64_t code = 0;
  for (const std::int64_t dimension : order_in_memory(parameter)) code = code * 64 + dimension + 1;
  return code;
}

// The numbers that a rank contributes for a parameter. The ranks take the maximum of each.
enum Column : std::uint8_t { kIsDense, kIsSparse, kOrder, kMinusOrder, kColumns };

}  // namespace

bool LayoutAgreement::is_complete() const {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const Parameter& parameter = table_[i];
    if (parameter.tensor.requires_grad() && !is_known(parameter)) return false;
  }
  return true;
}

bool LayoutAgreement::is_complete(const Unit& unit) const {
  return std::all_of(unit.members.begin(), unit.members.end(), [&](std::size_t member) {
    return !table_[member].tensor.requires_grad() || is_known(table_[member]);
  });
}

std::vector<Parameter*> LayoutAgreement::missing() {
  std::vector<Parameter*> found;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    Parameter& parameter = table_[i];
    if (parameter.tensor.requires_grad() && !is_known(parameter)) found.push_back(&parameter);
  }
  return found;
}

void LayoutAgreement::complete() {
  const std::vector<Parameter*> unknown = missing();
  if (unknown.empty()) return;
  at::Tensor seen = at::zeros({static_cast<std::int64_t>(unknown.size()), kColumns}, at::kLong);
  auto mine = seen.accessor<std::int64_t, 2>();
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    auto row = mine[static_cast<std::int64_t>(i)];
    const at::Tensor& tensor = unknown[i]->tensor;
    row[kOrder] = code_of_order(tensor);
    row[kMinusOrder] = -row[kOrder];
    const at::Tensor& gradient = tensor.grad();
    const bool has_layout = unknown[i]->layout != Layout::kUnknown;
    if (!has_layout && !gradient.defined()) continue;
    const bool sparse = has_layout ? unknown[i]->layout == Layout::kSparse
                                   : gradient.is_sparse() && !options_.sparse_as_dense();
    row[sparse ? kIsSparse : kIsDense] = 1;
  }
  seen = allreduce(seen,
                   AllreduceOptions(name()).op(ReduceOp::Max).process_set(options_.process_set()));
  const auto most = seen.accessor<std::int64_t, 2>();
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    const auto row = most[static_cast<std::int64_t>(i)];
    const bool is_sparse = row[kIsSparse] == 1 && row[kIsDense] == 0;
    unknown[i]->layout = is_sparse ? Layout::kSparse : Layout::kDense;
    unknown[i]->order_differs = row[kOrder] != -row[kMinusOrder];
  }
  agreed_ = true;
}

}  // namespace kolo::detail
