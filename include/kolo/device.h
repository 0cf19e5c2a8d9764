// Which GPU is this rank's. See docs/gpu.md.
#pragma once

namespace kolo {

// Not collective; after init(). The number of the CUDA device that this rank is to use, for
// at::Device(at::kCUDA, kolo::local_device()): the only one that the process sees
// (CUDA_VISIBLE_DEVICES, Slurm's binding), or that of its local rank. Throws InvalidArgumentError
// if there is no device, if a node has more ranks than devices (KOLO_SHARE_DEVICE=1 lets ranks
// share one), or if kolo was built without CUDA; NotInitializedError before init().
int local_device();

}  // namespace kolo
