// Turns a decision into work: the collective of an operation, on its tensors in place, or of a
// bucket, in its buffer.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collectives/backend.hpp"
#include "engine/operation.hpp"

namespace kolo {

struct LaunchMember {
  std::shared_ptr<Operation> operation;
  bool absent_everywhere = false;
};

// For messages: "allreduce of 'x' and 3 more".
std::string what_runs(const std::vector<LaunchMember>& members);

// The buffer of a bucket. Allocated when the bucket begins, and used for each of its executions.
struct BucketBuffer {
  std::shared_ptr<std::byte[]> data;
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;  // of its members
  std::vector<std::size_t> sizes;    // in bytes
};

struct LaunchOptions {
  std::vector<int> ranks;  // the group's, in the world
  // Tensors of a group up to this size are sent together. Larger ones are sent alone, in place.
  std::size_t fusion_tensor_bytes = 128 << 10;
};

// Members must outlive their work, and must not move.

// Makes the work of one operation. Returns null if there is nothing to move. The ranks exchange
// sizes over `host`, which is the backend itself unless the tensors are on a device.
std::unique_ptr<Work> launch_single(Backend& backend, Backend& host, Turn turn,
                                    const LaunchMember& member, const LaunchOptions& options);

// Makes the work of a bucket: packs the members that are not in the buffer yet, reduces the buffer,
// and unpacks it.
std::unique_ptr<Work> launch_bucket(Backend& backend, Turn turn,
                                    const std::vector<LaunchMember>& members,
                                    const BucketBuffer& buffer,
                                    const std::shared_ptr<std::byte[]>& data,
                                    const LaunchOptions& options);

// Makes a placeholder, the operation of a rank that has joined: neutral values for a reduction,
// nothing for a gather. In a bucket it needs no memory of its own.
std::shared_ptr<Operation> make_placeholder(const std::string& name, const Descriptor& descriptor,
                                            Backend& backend, bool in_bucket);

}  // namespace kolo
