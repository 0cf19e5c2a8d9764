// Chooses the GPU of this rank. See docs/gpu.md.
#pragma once

namespace kolo {

// Returns the number of the CUDA device that this rank should use, for at::Device(at::kCUDA,
// kolo::local_device()): the only one that the process sees (CUDA_VISIBLE_DEVICES, Slurm's
// binding), or that of its local rank. Throws InvalidArgumentError if there is no device, if a node
// has more ranks than devices (KOLO_SHARE_DEVICE=1 lets ranks share one), or if kolo was built
// without CUDA; NotInitializedError before init(). Not collective.
int local_device();

}  // namespace kolo
