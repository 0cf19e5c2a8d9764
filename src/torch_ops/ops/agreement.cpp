#include "kolo/agreement.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <string>
#include <vector>

#include "kolo/error.h"
#include "torch_ops/ops/handle_state.hpp"

namespace kolo {
namespace {

AllreduceOptions reduced_by(ReduceOp op, const OperationOptions& options) {
  return AllreduceOptions(op).name(options.name()).process_set(options.process_set());
}

// Returns the weighted value, and two numbers: the weight, and whether it is invalid. A value with
// weight 0 is ignored, whatever it is.
std::vector<at::Tensor> weighted(const at::Tensor& value, double weight) {
  const bool allowed = std::isfinite(weight) && weight >= 0;
  const double given = allowed ? weight : 0.0;
  const at::TensorOptions type = value.options().dtype(at::kDouble);
  const at::Tensor product =
      given == 0 ? at::zeros(value.sizes(), type) : value.to(at::kDouble) * given;
  return {product, at::tensor({given, allowed ? 0.0 : 1.0}, type)};
}

}  // namespace

at::Tensor average(const at::Tensor& value, double weight, const OperationOptions& options) {
  const Call call("average", "average", OpKind::kAllreduce, options);
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> mine = call.or_give_up([&] {
    if (!value.defined() || !value.is_floating_point()) {
      call.refuse("the value is " +
                  (value.defined() ? "a tensor of " + std::string(value.dtype().name())
                                   : "an undefined tensor") +
                  "; give one of a floating-point dtype");
    }
    return weighted(value.detach(), weight);
  });
  const std::vector<at::Tensor> sums =
      run(call, make_allreduce(call, mine, reduced_by(ReduceOp::Sum, options)), mine);
  const double total = sums[1][0].item<double>();
  if (sums[1][1].item<double>() > 0 || total == 0) {
    call.refuse("the weight here is " + std::to_string(weight) +
                "; the ranks' weights must be finite, at least 0, and not all 0");
  }
  return (sums[0] / total).to(value.scalar_type());
}

double average(double value, double weight, const OperationOptions& options) {
  return average(at::scalar_tensor(value, at::kDouble), weight, options).item<double>();
}

void detail::average_buffers(const NamedTensors& buffers, const ProcessSet& process_set) {
  std::vector<at::Tensor> averaged;
  std::vector<at::Tensor> works;
  std::vector<at::Tensor> others;
  for (const auto& [name, buffer] : buffers) {
    if (!buffer.defined()) continue;
    // Tensors that are not contiguous may have another memory order on another rank.
    if (buffer.is_floating_point()) {
      averaged.push_back(buffer);
      works.push_back(buffer.contiguous());
    } else {
      others.push_back(buffer);
    }
  }
  if (!averaged.empty()) {
    grouped_allreduce_(works, AllreduceOptions("kolo.average_buffers").process_set(process_set));
    for (std::size_t i = 0; i < averaged.size(); ++i) {
      if (!works[i].is_same(averaged[i])) averaged[i].copy_(works[i]);
    }
  }
  if (!others.empty()) {
    grouped_broadcast_(others, process_set.ranks()[0],
                       OperationOptions("kolo.average_buffers.others").process_set(process_set));
  }
}

bool agree(bool condition, const OperationOptions& options) {
  return allreduce(at::scalar_tensor(condition, at::kBool), reduced_by(ReduceOp::Min, options))
      .item<bool>();
}

}  // namespace kolo
