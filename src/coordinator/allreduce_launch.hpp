// Runs one decision: an allreduce of a tensor where it lies, or of a bucket in its buffer.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "coordinator/operation.hpp"

namespace kolo {

struct LaunchMember {
  std::shared_ptr<Operation> operation;
  bool absent_everywhere = false;
};

// What a bucket's members are packed into. Made when the bucket begins, used for each of its
// executions.
struct BucketBuffer {
  std::shared_ptr<std::byte[]> data;
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
};

// The work of one tensor: in its slot if it was packed there, else in place.
std::unique_ptr<Work> launch_single(Transport& transport, Tag tag, const LaunchMember& member,
                                    const Tuning& tuning);

// The work of a bucket: packs what is not in the buffer yet, reduces the buffer, unpacks.
std::unique_ptr<Work> launch_bucket(Transport& transport, Tag tag,
                                    const std::vector<LaunchMember>& members,
                                    const BucketBuffer& buffer, const Tuning& tuning);

}  // namespace kolo
