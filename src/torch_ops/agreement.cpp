#include "kolo/agreement.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <string>
#include <vector>

#include "kolo/error.h"
#include "torch_ops/call.hpp"

namespace kolo {
namespace {

AllreduceOptions reduced_by(ReduceOp op, const OperationOptions& options) {
  return AllreduceOptions(op).name(options.name()).process_set(options.process_set());
}

// A weight that is wrong on one rank is negative on all, in the sum of what is not allowed.
std::vector<at::Tensor> weighted(const at::Tensor& value, double weight) {
  const bool allowed = std::isfinite(weight) && weight >= 0;
  const double given = allowed ? weight : 0.0;
  return {value.to(at::kDouble) * given, at::tensor({given, allowed ? 0.0 : 1.0}, at::kDouble)};
}

}  // namespace

at::Tensor average(const at::Tensor& value, double weight, const OperationOptions& options) {
  const Call call("average", "average", options.name(), options.process_set());
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> mine = make_or_give_up(call, [&] {
    if (!value.defined() || !value.is_floating_point()) {
      throw InvalidArgumentError(call.what() + ": the value is " +
                                 (value.defined()
                                      ? "a tensor of " + std::string(value.dtype().name())
                                      : "an undefined tensor") +
                                 "; give one of a floating-point dtype");
    }
    return weighted(value.detach(), weight);
  });
  const std::vector<at::Tensor> sums = grouped_allreduce(
      mine,
      reduced_by(ReduceOp::Sum, OperationOptions(call.name).process_set(options.process_set())));
  const double total = sums[1][0].item<double>();
  if (sums[1][1].item<double>() > 0 || total == 0) {
    throw InvalidArgumentError(call.what() + ": the weight here is " + std::to_string(weight) +
                               "; the ranks' weights must be finite, at least 0, and not all 0");
  }
  return (sums[0] / total).to(value.scalar_type());
}

double average(double value, double weight, const OperationOptions& options) {
  return average(at::scalar_tensor(value, at::kDouble), weight, options).item<double>();
}

bool agree(bool condition, const OperationOptions& options) {
  return allreduce(at::scalar_tensor(condition, at::kBool), reduced_by(ReduceOp::Min, options))
      .item<bool>();
}

}  // namespace kolo
