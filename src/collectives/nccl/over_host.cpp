#include "collectives/nccl/over_host.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "collectives/nccl/check.hpp"

namespace kolo::nccl {
namespace {

// Pieces of a tensor that have memory at the same time.
constexpr std::size_t kPiecesAtOnce = 8;

// Bytes on the device, and their place in the host's memory.
struct Span {
  std::byte* device = nullptr;
  std::size_t at = 0;
  std::size_t bytes = 0;
};

// One work of the host, with the copies to the host before it and back after it.
struct Part {
  std::vector<Span> there;
  std::vector<Span> back;
  std::function<std::unique_ptr<Work>(std::byte* memory)> make;
};

class Staged final : public Work {
 public:
  // Any kPiecesAtOnce consecutive parts use disjoint ranges of the `bytes` bytes.
  Staged(std::shared_ptr<Streams> streams, std::shared_ptr<PinnedPool> pool, std::size_t bytes,
         std::vector<Part> parts)
      : streams_(std::move(streams)),
        pool_(std::move(pool)),
        bytes_(bytes),
        parts_(std::move(parts)),
        copied_(parts_.size()) {}

  // The memory may have been an earlier work's, whose copies the reducing stream waits for.
  Status start() override {
    const OnDevice here(streams_->device());
    if (!here.status().is_ok()) return here.status();
    if (Status s = pool_->take(bytes_, memory_); !s.is_ok()) return s;
    if (Status s = streams_->join(); !s.is_ok()) return s;
    if (Status s = streams_->make_copying(); !s.is_ok()) return s;
    if (Status s = after(streams_->to_host(), streams_->reducing()); !s.is_ok()) return s;
    for (std::size_t i = 0; i < std::min(parts_.size(), kPiecesAtOnce); ++i) {
      if (Status s = copy_there(i); !s.is_ok()) return s;
    }
    return Status::ok();
  }

  Progress step(Status& status) override {
    if (current_ == parts_.size()) return Progress::kDone;
    if (work_ == nullptr) {
      const Progress progress = begin_when_copied(status);
      if (progress != Progress::kAdvanced) return progress;
    }
    const Progress progress = work_->step(status);
    if (progress != Progress::kDone) return progress;
    work_.reset();
    const OnDevice here(streams_->device());
    status = here.status();
    if (status.is_ok()) status = copy_back();
    if (!status.is_ok()) return Progress::kFailed;
    return ++current_ == parts_.size() ? Progress::kDone : Progress::kAdvanced;
  }

  std::optional<int> waits_for() const override {
    return work_ == nullptr ? std::nullopt : work_->waits_for();
  }

 private:
  Status after(cudaStream_t stream, cudaStream_t other) {
    return wait_for(stream, other, *streams_->events());
  }

  // The part's memory belongs to the host only once the device gets here, even if there is nothing
  // to copy.
  Status copy_there(std::size_t part) {
    if (Status s = copy(parts_[part].there, cudaMemcpyDeviceToHost); !s.is_ok()) return s;
    return streams_->events()->record(streams_->to_host(), copied_[part]);
  }

  // Copies the current part's results back. Its memory then passes to a later part. After the last
  // part, the reducing stream waits for all copies.
  Status copy_back() {
    if (Status s = copy(parts_[current_].back, cudaMemcpyHostToDevice); !s.is_ok()) return s;
    const std::size_t next = current_ + kPiecesAtOnce;
    if (next < parts_.size()) {
      Status status = after(streams_->to_host(), streams_->from_host());
      return status.is_ok() ? copy_there(next) : status;
    }
    if (current_ + 1 < parts_.size()) return Status::ok();
    return after(streams_->reducing(), streams_->from_host());
  }

  Progress begin_when_copied(Status& status) {
    const Progress progress = copied_[current_]->look(status);
    if (progress != Progress::kDone) return progress;
    work_ = parts_[current_].make(memory_.get());
    status = work_->start();
    return status.is_ok() ? Progress::kAdvanced : Progress::kFailed;
  }

  Status copy(const std::vector<Span>& spans, cudaMemcpyKind kind) const {
    const bool back = kind == cudaMemcpyHostToDevice;
    cudaStream_t const stream = back ? streams_->from_host() : streams_->to_host();
    for (const Span& span : spans) {
      if (span.bytes == 0) continue;
      std::byte* const host = memory_.get() + span.at;
      Status status =
          cuda_status(cudaMemcpyAsync(back ? span.device : host, back ? host : span.device,
                                      span.bytes, kind, stream),
                      "cudaMemcpyAsync");
      if (!status.is_ok()) return status;
    }
    return Status::ok();
  }

  const std::shared_ptr<Streams> streams_;
  const std::shared_ptr<PinnedPool> pool_;
  const std::size_t bytes_;
  const std::vector<Part> parts_;
  std::vector<std::shared_ptr<Point>> copied_;  // by part
  std::size_t current_ = 0;
  std::unique_ptr<Work> work_;           // of the current part, while it runs
  std::shared_ptr<std::byte[]> memory_;  // in use until the device has copied all back
};

// A work of the host on device memory. It begins when the device has reached its place in the
// queue.
class Direct final : public Work {
 public:
  using Make = std::function<std::unique_ptr<Work>()>;

  Direct(std::shared_ptr<Streams> streams, Make make)
      : streams_(std::move(streams)), make_(std::move(make)) {}

  Status start() override {
    const OnDevice here(streams_->device());
    if (!here.status().is_ok()) return here.status();
    if (Status s = streams_->join(); !s.is_ok()) return s;
    return streams_->events()->record(streams_->reducing(), ready_);
  }

  // MPI may copy on the device, and may need it to be current.
  Progress step(Status& status) override {
    const OnDevice here(streams_->device());
    status = here.status();
    if (!status.is_ok()) return Progress::kFailed;
    if (work_ == nullptr) {
      const Progress progress = ready_->look(status);
      if (progress != Progress::kDone) return progress;
      work_ = make_();
      status = work_->start();
      if (!status.is_ok()) return Progress::kFailed;
    }
    return work_->step(status);
  }

  std::optional<int> waits_for() const override {
    return work_ == nullptr ? std::nullopt : work_->waits_for();
  }

 private:
  const std::shared_ptr<Streams> streams_;
  const Make make_;
  std::shared_ptr<Point> ready_;
  std::unique_ptr<Work> work_;
};

// A tensor that is handled in pieces. Their host memory is a ring.
struct InPieces {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t piece = 0;
  std::size_t ring() const { return std::min(bytes, kPiecesAtOnce * piece); }
};

// Returns a part for each piece, and at least one.
template <typename Make>
std::vector<Part> parts_of(const InPieces& tensor, bool there, bool back, const Make& make) {
  std::vector<Part> parts;
  for (std::size_t begin = 0; begin < tensor.bytes || parts.empty(); begin += tensor.piece) {
    const Span span{tensor.data + begin, begin % (kPiecesAtOnce * tensor.piece),
                    std::min(tensor.piece, tensor.bytes - begin)};
    Part& part = parts.emplace_back();
    if (there) part.there = {span};
    if (back) part.back = {span};
    part.make = [make, span](std::byte* memory) { return make(memory + span.at, span.bytes); };
  }
  return parts;
}

// Returns one side of an alltoall without the rank's own segment. `at`: where the side begins in
// the host's memory.
std::vector<Span> all_but_own(const AlltoallSide& side, int rank, std::size_t at) {
  auto* const data = static_cast<std::byte*>(side.data);
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t begin = side.boundaries[own];
  const std::size_t end = side.boundaries[own + 1];
  return {{data, at, begin}, {data + end, at + end, side.boundaries.back() - end}};
}

}  // namespace

// --- memory ---

PinnedPool::~PinnedPool() {
  const OnDevice here(device_);
  for (const auto& [bytes, memory] : free_) static_cast<void>(cudaFreeHost(memory));
}

// Takes the smallest free block that is large enough. Sizes are powers of two, so that growing
// requests do not leave many blocks behind that are too small.
Status PinnedPool::take(std::size_t bytes, std::shared_ptr<std::byte[]>& memory) {
  bytes = std::bit_ceil(std::max<std::size_t>(bytes, 1));
  std::byte* found = nullptr;
  if (const auto free = free_.lower_bound(bytes); free != free_.end()) {
    bytes = free->first;
    found = free->second;
    free_.erase(free);
  } else {
    void* made = nullptr;
    Status status = cuda_status(cudaMallocHost(&made, bytes), "cudaMallocHost");
    if (!status.is_ok()) return status;
    found = static_cast<std::byte*>(made);
  }
  memory = {found, [pool = shared_from_this(), bytes](std::byte* returned) {
              pool->free_.emplace(bytes, returned);
            }};
  return Status::ok();
}

// --- works ---

Turn OverHost::next(Turn turn) {
  if (next_.sequence != turn.sequence || next_.part < turn.part) next_ = turn;
  const Turn mine = next_;
  ++next_.part;
  return mine;
}

std::unique_ptr<Work> OverHost::make(Turn turn, Collective collective) {
  if (host_.takes_device_memory(kind_of(collective))) {
    return std::make_unique<Direct>(streams_, [this, turn, on_device = std::move(collective)] {
      return host_.make(next(turn), on_device);
    });
  }
  return std::visit([&](auto& one) { return make_one(turn, one); }, collective);
}

std::unique_ptr<Work> OverHost::make_one(Turn turn, const collective::Allreduce& one) {
  auto* const bytes = static_cast<std::byte*>(one.data);
  const std::size_t element = size_of(one.reduction.dtype);
  const auto make = [this, turn, element, reduction = one.reduction](std::byte* memory,
                                                                     std::size_t size) {
    return host_.make(next(turn), collective::Allreduce{memory, size / element, reduction});
  };
  const std::size_t all_bytes = one.count * element;
  if (one.reduction.op == ReduceOp::Adasum) {  // needs whole tensors
    const Span all{bytes, 0, all_bytes};
    Part part{{all}, {all}, [make, all](std::byte* memory) { return make(memory, all.bytes); }};
    return std::make_unique<Staged>(streams_, pool_, all_bytes, std::vector<Part>{std::move(part)});
  }
  const InPieces pieces{bytes, all_bytes, piece_bytes_};
  return std::make_unique<Staged>(streams_, pool_, pieces.ring(),
                                  parts_of(pieces, true, true, make));
}

std::unique_ptr<Work> OverHost::make_one(Turn turn, const collective::Broadcast& one) {
  const bool is_root = host_.rank() == one.root;
  const InPieces pieces{static_cast<std::byte*>(one.data), one.bytes, piece_bytes_};
  return std::make_unique<Staged>(
      streams_, pool_, pieces.ring(),
      parts_of(pieces, is_root, !is_root,
               [this, turn, root = one.root](std::byte* memory, std::size_t size) {
                 return host_.make(next(turn), collective::Broadcast{memory, size, root});
               }));
}

std::unique_ptr<Work> OverHost::make_one(Turn turn, collective::Allgather& one) {
  const auto own = static_cast<std::size_t>(host_.rank());
  const std::size_t begin = one.boundaries[own];
  const std::size_t all = one.boundaries.back();
  Part part;
  part.there = {
      {static_cast<std::byte*>(one.data) + begin, begin, one.boundaries[own + 1] - begin}};
  part.back = all_but_own({one.data, one.boundaries}, host_.rank(), 0);
  part.make = [this, turn, at = std::move(one.boundaries)](std::byte* memory) {
    return host_.make(next(turn), collective::Allgather{memory, at});
  };
  return std::make_unique<Staged>(streams_, pool_, all, std::vector<Part>{std::move(part)});
}

std::unique_ptr<Work> OverHost::make_one(Turn turn, const collective::Alltoall& one) {
  const std::size_t sent = one.from.boundaries.back();
  const std::size_t received = one.to.boundaries.back();
  Part part;
  part.there = all_but_own(one.from, host_.rank(), 0);
  part.back = all_but_own(one.to, host_.rank(), sent);
  part.make = [this, turn, out = one.from.boundaries, in = one.to.boundaries,
               sent](std::byte* memory) {
    return host_.make(next(turn), collective::Alltoall{{memory, out}, {memory + sent, in}});
  };
  return std::make_unique<Staged>(streams_, pool_, sent + received,
                                  std::vector<Part>{std::move(part)});
}

std::unique_ptr<Work> OverHost::make_one(Turn turn, collective::Reducescatter& one) {
  auto* const bytes = static_cast<std::byte*>(one.data);
  const std::size_t element = size_of(one.reduction.dtype);
  const auto own = static_cast<std::size_t>(host_.rank());
  const std::size_t begin = one.boundaries[own] * element;
  const std::size_t end = one.boundaries[own + 1] * element;
  const std::size_t all = one.boundaries.back() * element;
  Part part;
  part.there = {{bytes, 0, all}};
  part.back = {{bytes + begin, begin, end - begin}};
  part.make = [this, turn, at = std::move(one.boundaries),
               reduction = one.reduction](std::byte* memory) {
    return host_.make(next(turn), collective::Reducescatter{memory, at, reduction});
  };
  return std::make_unique<Staged>(streams_, pool_, all, std::vector<Part>{std::move(part)});
}

std::unique_ptr<Work> OverHost::make_one(Turn turn, const collective::Transfer& one) {
  const InPieces pieces{static_cast<std::byte*>(one.data), one.bytes, piece_bytes_};
  return std::make_unique<Staged>(
      streams_, pool_, pieces.ring(),
      parts_of(pieces, host_.rank() == one.source, host_.rank() == one.destination,
               [this, turn, one](std::byte* memory, std::size_t size) {
                 return host_.make(next(turn),
                                   collective::Transfer{memory, size, one.source, one.destination});
               }));
}

// The host reads clocks; no device takes part.
std::unique_ptr<Work> OverHost::make_one(Turn turn, const collective::ReadClock& one) {
  return host_.make(turn, one);
}

}  // namespace kolo::nccl
