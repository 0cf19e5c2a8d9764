#include "coordinator/allreduce_launch.hpp"

#include <cstring>

#include "collectives/reduce/reduce.hpp"

namespace kolo {
namespace {

Reduction reduction_of(const Descriptor& descriptor, int size) {
  Reduction reduction;
  reduction.dtype = descriptor.dtype;
  reduction.op = descriptor.op;
  reduction.divisor = descriptor.op == ReduceOp::Average ? size : 1;
  reduction.postscale = descriptor.postscale;
  return reduction;
}

// A tensor and its place in the memory that is reduced.
struct Placed {
  LaunchMember member;
  std::byte* at = nullptr;

  std::size_t bytes() const { return member.operation->descriptor.bytes(); }
  bool packed() const { return at != member.operation->data; }

  void pack() const {
    const Operation& operation = *member.operation;
    if (operation.slot && operation.slot->data() == at) return;  // packed when it was submitted
    if (operation.absent) {
      std::memset(at, 0, bytes());
    } else if (packed()) {
      // A tensor may lie in the slot of a bucket that has ended since.
      std::memcpy(at, operation.slot ? operation.slot->data() : operation.data, bytes());
    }
  }
  void unpack() const {
    if (packed() && !member.absent_everywhere) std::memcpy(member.operation->data, at, bytes());
  }
};

class AllreduceLaunch final : public Work {
 public:
  AllreduceLaunch(Transport& transport, Tag tag, std::vector<Placed> members, void* data,
                  std::size_t bytes, const Tuning& tuning, std::shared_ptr<std::byte[]> buffer)
      : members_(std::move(members)), buffer_(std::move(buffer)), data_(data), bytes_(bytes) {
    const Descriptor& first = members_.front().member.operation->descriptor;
    dtype_ = first.dtype;
    prescale_ = first.prescale;
    inner_ = make_allreduce(transport, tag, data, count(), reduction_of(first, transport.size()),
                            tuning);
  }

  Status start() override {
    for (const Placed& member : members_) {
      if (member.bytes() > 0) member.pack();
    }
    scale(data_, count(), dtype_, prescale_);
    return inner_->start();
  }

  Progress step(Status& status) override {
    const Progress progress = inner_->step(status);
    if (progress != Progress::kDone) return progress;
    for (const Placed& member : members_) {
      if (member.bytes() > 0) member.unpack();
    }
    return progress;
  }

 private:
  std::size_t count() const { return bytes_ / size_of(dtype_); }

  std::vector<Placed> members_;
  const std::shared_ptr<std::byte[]> buffer_;  // of a bucket, which may end while this runs
  void* const data_;                           // in buffer_, or an operation's
  const std::size_t bytes_;
  DType dtype_ = DType::kFloat32;
  double prescale_ = 1.0;
  std::unique_ptr<Work> inner_;
};

}  // namespace

std::unique_ptr<Work> launch_single(Transport& transport, Tag tag, const LaunchMember& member,
                                    const Tuning& tuning) {
  const Operation& operation = *member.operation;
  const std::size_t bytes = operation.descriptor.bytes();
  if (operation.descriptor.kind == OpKind::kBroadcast) {
    return make_broadcast(transport, tag, operation.data, bytes, operation.descriptor.root,
                          tuning.chunk_bytes);
  }
  auto* at = operation.slot ? operation.slot->data() : static_cast<std::byte*>(operation.data);
  return std::make_unique<AllreduceLaunch>(transport, tag, std::vector<Placed>{{member, at}}, at,
                                           bytes, tuning, nullptr);
}

std::unique_ptr<Work> launch_bucket(Transport& transport, Tag tag,
                                    const std::vector<LaunchMember>& members,
                                    const BucketBuffer& buffer, const Tuning& tuning) {
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < members.size(); ++i) {
    placed.push_back({members[i], buffer.data.get() + buffer.offsets[i]});
  }
  return std::make_unique<AllreduceLaunch>(transport, tag, std::move(placed), buffer.data.get(),
                                           buffer.bytes, tuning, buffer.data);
}

}  // namespace kolo
