// Clipping by a norm over all ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <kolo/process_set.h>

#include <vector>

namespace kolo {

// Scales gradients in place so that their norm is at most `max_norm`, and returns the norm before:
// that of the gradients of `replicated` parameters, which are the same on all ranks, and of
// `sharded` ones, of which each rank of the process set has a part of its own (or a parameter that
// others do not have), all taken together as one vector. Of replicated gradients alone that is
// torch::nn::utils::clip_grad_norm_(). Parameters without a gradient are left out.
//
// `norm_type`: of the norm, above 0, or infinity for the largest absolute value. Collective over
// the process set, with one allreduce, if `sharded` may have something on any rank. Every rank gets
// the same norm if replicated gradients are the same everywhere, so all scale alike. A norm that is
// not finite scales as in PyTorch: an infinite one makes finite gradients 0, NaN makes all NaN;
// look at what is returned. InvalidArgumentError for a norm_type that is not above 0, a negative or
// NaN max_norm, and sparse gradients.
double clip_grad_norm_(const std::vector<at::Tensor>& replicated,
                       const std::vector<at::Tensor>& sharded, double max_norm,
                       double norm_type = 2.0, const ProcessSet& process_set = {});

}  // namespace kolo
