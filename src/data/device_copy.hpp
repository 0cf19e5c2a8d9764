// Copies batches to a device before the program needs them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "kolo/data/dataset.h"

namespace kolo::data {

// Copies in its own stream, so that the device continues with other work. For one worker thread.
class DeviceCopy {
 public:
  // Takes a stream from LibTorch's pool. A device without a number means this thread's current one.
  explicit DeviceCopy(at::Device device);

  // Copies a batch through pinned memory, and waits for completion.
  Batch operator()(const Batch& batch) const;

 private:
  c10::Stream stream_;
};

// Copies tensors that are not on the device, in this thread's current stream.
Batch to_device(const Batch& batch, at::Device device);

// Tells LibTorch's allocator that this thread's current stream uses the batch, which another stream
// made. When the batch is freed, its memory is not reused before this stream is done with it.
void use_in_current_stream(const Batch& batch);

}  // namespace kolo::data
