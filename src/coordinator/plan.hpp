// Chooses the small tensors that are reduced together. A pure function of the submissions of rank
// 0's program, so the same program gives the same buckets, and the same bits, in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinator/descriptor.hpp"

namespace kolo {

struct PlanLimits {
  std::size_t bucket_bytes = 4 << 20;    // 0: no buckets
  std::size_t tensor_bytes = 128 << 10;  // larger tensors are not put into buckets
  // Likewise on a device, for tensors of any size: packing is cheap there, and collectives of fewer
  // bytes are slow.
  std::size_t device_bucket_bytes = 32 << 20;

  std::size_t bucket_bytes_on(DeviceKind device) const {
    return device == DeviceKind::kCpu ? bucket_bytes : device_bucket_bytes;
  }
};

// Returns the bytes that a tensor takes in a bucket: a multiple of 64, so that kernels get aligned
// data.
std::size_t bytes_in_bucket(std::size_t tensor_bytes);

// Whether a tensor may share a bucket at all.
bool fits_bucket(const Descriptor& descriptor, const PlanLimits& limits);

// Cuts tensors, given in submission order, into buckets of positions. Tensors of one bucket have
// the same operation, dtype and scales. A bucket has at least two tensors; the others are left out.
std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<const Descriptor*>& tensors,
                                                   const PlanLimits& limits);

// A member's position in its bucket.
struct BucketPlace {
  std::uint64_t bucket = 0;  // its number; 0: none
  std::size_t index = 0;
};

}  // namespace kolo
