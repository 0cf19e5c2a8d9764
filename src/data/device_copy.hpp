// Copies batches to a device before the program needs them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "kolo/data/dataset.h"

namespace kolo::data {

// Copies in a stream of its own, so that the device goes on with other work. For one worker thread.
class DeviceCopy {
 public:
  // Takes a stream of LibTorch's pool. A device without a number is this thread's current one.
  explicit DeviceCopy(at::Device device);

  // Copies a batch by way of pinned memory, and waits until it is there.
  Batch operator()(const Batch& batch) const;

 private:
  c10::Stream stream_;
};

// Copies what is not on the device, in the current stream of this thread.
Batch to_device(const Batch& batch, at::Device device);

// Tells LibTorch's allocator that the current stream of this thread uses the batch, which another
// stream has made: when it is freed, its memory waits for this stream.
void use_in_current_stream(const Batch& batch);

}  // namespace kolo::data
