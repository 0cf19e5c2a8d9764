#include "torch_ops/optimizer/copy_batch.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <tuple>
#include <utility>

namespace kolo::detail {

// _foreach_copy_() has a few kernels for a list whose tensors have one dtype and the strides of
// their targets. For other lists it runs one kernel a tensor.
void CopyBatch::run() {
  struct List {
    std::vector<at::Tensor> to;
    std::vector<at::Tensor> from;
  };
  const std::vector<at::Tensor> to = std::exchange(to_, {});
  const std::vector<at::Tensor> from = std::exchange(from_, {});
  std::map<std::tuple<at::ScalarType, at::ScalarType, bool>, List> lists;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool has_strides = to[i].strides() == from[i].strides();
    List& list = lists[{to[i].scalar_type(), from[i].scalar_type(), has_strides}];
    list.to.push_back(to[i]);
    list.from.push_back(from[i]);
  }
  const at::NoGradGuard no_grad;
  for (const auto& [key, list] : lists) at::_foreach_copy_(list.to, list.from);
}

}  // namespace kolo::detail
