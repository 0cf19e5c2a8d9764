// An MPI that is CUDA-aware, with the fake GPU: the program's own one, which is told where on the
// host a device pointer leads. For what calls no more of MPI than kolo does.
#pragma once

namespace fake_gpu {

// So many messages that this process has sent lay on the device.
int messages_on_device();

}  // namespace fake_gpu
