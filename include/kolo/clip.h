// Clips gradients by a norm over all ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <kolo/process_set.h>

#include <vector>

namespace kolo {

// Scales gradients in place so that their norm is at most `max_norm`. Returns the norm before
// scaling, which is that of one vector made of all gradients. `replicated`: parameters whose
// gradients are the same on all ranks; each is counted once. `sharded`: parameters, or parts of
// them, that only this rank has; those of all ranks of the process set are counted. Parameters
// without a gradient are left out. If no rank has sharded parameters,
// torch::nn::utils::clip_grad_norm_() does the same without communication.
//
// `norm_type`: the p of the p-norm, above 0; infinity means the largest absolute value. Collective
// over the process set, with one allreduce. All ranks get the same norm and scale alike. A norm
// that is not finite scales as in PyTorch: infinity makes finite gradients 0, and NaN makes all
// gradients NaN, so look at the result. Throws InvalidArgumentError for a norm_type that is not
// above 0, a negative or NaN max_norm, and sparse gradients; the other ranks then get a
// MismatchError.
double clip_grad_norm_(const std::vector<at::Tensor>& replicated,
                       const std::vector<at::Tensor>& sharded, double max_norm,
                       double norm_type = 2.0, const ProcessSet& process_set = {});

}  // namespace kolo
