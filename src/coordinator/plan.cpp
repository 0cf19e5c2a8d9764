#include "coordinator/plan.hpp"

namespace kolo {
namespace {

bool same_kind(const Descriptor& a, const Descriptor& b) {
  return a.device == b.device && a.tensors[0].dtype == b.tensors[0].dtype && a.op == b.op &&
         a.prescale == b.prescale && a.postscale == b.postscale;
}

struct OpenBucket {
  const Descriptor* kind = nullptr;
  std::vector<std::size_t> members;
  std::size_t bytes = 0;
};

constexpr std::size_t kAlignment = 64;

}  // namespace

std::size_t bytes_in_bucket(std::size_t tensor_bytes) {
  return (tensor_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool fits_bucket(const Descriptor& descriptor, const PlanLimits& limits) {
  return descriptor.kind == OpKind::kAllreduce && descriptor.tensors.size() == 1 &&
         descriptor.op != ReduceOp::Adasum && descriptor.bytes() > 0 &&
         (descriptor.device != DeviceKind::kCpu || descriptor.bytes() <= limits.tensor_bytes) &&
         bytes_in_bucket(descriptor.bytes()) <= limits.bucket_bytes_on(descriptor.device);
}

std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<const Descriptor*>& tensors,
                                                   const PlanLimits& limits) {
  std::vector<std::vector<std::size_t>> buckets;
  std::vector<OpenBucket> open;
  const auto close = [&](OpenBucket& bucket) {
    if (bucket.members.size() > 1) buckets.push_back(bucket.members);
    bucket.members.clear();
    bucket.bytes = 0;
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Descriptor& tensor = *tensors[i];
    if (!fits_bucket(tensor, limits)) continue;
    auto bucket = open.begin();
    while (bucket != open.end() && !same_kind(*bucket->kind, tensor)) ++bucket;
    if (bucket == open.end()) bucket = open.insert(open.end(), {&tensor, {}, 0});
    const std::size_t bytes = bytes_in_bucket(tensor.bytes());
    if (bucket->bytes + bytes > limits.bucket_bytes_on(tensor.device)) close(*bucket);
    bucket->members.push_back(i);
    bucket->bytes += bytes;
  }
  for (OpenBucket& bucket : open) close(bucket);
  return buckets;
}

}  // namespace kolo
