#include "coordinator/launch.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "collectives/reduce/reduce.hpp"
#include "coordinator/plan.hpp"
#include "core/ranks.hpp"

namespace kolo {
namespace {

Reduction reduction_of(const Descriptor& descriptor, DType dtype, int size) {
  Reduction reduction;
  reduction.dtype = dtype;
  reduction.op = descriptor.op;
  reduction.divisor = descriptor.op == ReduceOp::Average ? size : 1;
  reduction.postscale = descriptor.postscale;
  return reduction;
}

// A tensor and its place in the memory that is worked on.
struct Placed {
  const LaunchMember* member = nullptr;
  std::size_t index = 0;  // among the operation's tensors
  std::byte* at = nullptr;
  std::size_t bytes = 0;

  const Operation& operation() const { return *member->operation; }
  const TensorSpec& spec() const { return operation().descriptor.tensors[index]; }
  std::byte* data() const { return static_cast<std::byte*>(operation().tensors[index].data); }

  void pack() const {
    const std::optional<Slot>& slot = operation().slot;
    if (operation().absent || (slot && slot->data() == at)) return;  // packed when it was submitted
    if (slot) {  // in the place of a bucket that has ended since
      std::memcpy(at, slot->data(), bytes);
    } else if (at != data()) {
      std::memcpy(at, data(), bytes);
    }
  }
  void fill() const {
    fill_with_identity(at, spec().count(), spec().dtype, operation().descriptor.op);
  }
  void unpack() const {
    if (at != data() && !member->absent_everywhere) std::memcpy(data(), at, bytes);
  }
};

class AllreduceLaunch final : public Work {
 public:
  AllreduceLaunch(Backend& backend, Turn turn, std::vector<Placed> members, void* data,
                  std::size_t bytes, const LaunchOptions& /*options*/,
                  std::shared_ptr<std::byte[]> buffer)
      : members_(std::move(members)), buffer_(std::move(buffer)), data_(data) {
    const Descriptor& first = members_.front().operation().descriptor;
    dtype_ = members_.front().spec().dtype;
    count_ = bytes / size_of(dtype_);
    prescale_ = first.prescale;
    inner_ = backend.allreduce(turn, data, count_, reduction_of(first, dtype_, backend.size()));
  }

  Status start() override {
    bool any_absent = false;
    for (const Placed& member : members_) {
      any_absent = any_absent || member.operation().absent;
      if (member.bytes > 0) member.pack();
    }
    scale(data_, count_, dtype_, prescale_);
    if (any_absent) {
      for (const Placed& member : members_) {
        if (member.operation().absent) member.fill();
      }
    }
    if (buffer_ != nullptr) times_.filled = Clock::now();
    return inner_->start();
  }

  Progress step(Status& status) override {
    const Progress progress = inner_->step(status);
    if (progress != Progress::kDone) return progress;
    if (buffer_ != nullptr) times_.ready = Clock::now();
    for (const Placed& member : members_) {
      if (member.bytes > 0) member.unpack();
    }
    return progress;
  }

  BufferTimes buffer_times() const override { return times_; }

 private:
  std::vector<Placed> members_;
  const std::shared_ptr<std::byte[]> buffer_;  // of a bucket, which may end while this runs
  void* const data_;                           // in buffer_, or an operation's
  DType dtype_ = DType::kFloat32;
  std::size_t count_ = 0;
  double prescale_ = 1.0;
  std::unique_ptr<Work> inner_;
  BufferTimes times_;
};

class BroadcastLaunch final : public Work {
 public:
  BroadcastLaunch(Backend& backend, Turn turn, std::vector<Placed> members, void* data,
                  std::size_t bytes, const LaunchOptions& options,
                  std::shared_ptr<std::byte[]> buffer)
      : members_(std::move(members)),
        buffer_(std::move(buffer)),
        root_(index_of(options.ranks, members_.front().operation().descriptor.root)),
        is_root_(backend.rank() == root_),
        inner_(backend.broadcast(turn, data, bytes, root_)) {}

  Status start() override {
    for (const Placed& member : members_) {
      if (is_root_ && member.bytes > 0) member.pack();
    }
    return inner_->start();
  }

  Progress step(Status& status) override {
    const Progress progress = inner_->step(status);
    if (progress != Progress::kDone || is_root_) return progress;
    for (const Placed& member : members_) {
      if (member.bytes > 0) member.unpack();
    }
    return progress;
  }

 private:
  std::vector<Placed> members_;
  const std::shared_ptr<std::byte[]> buffer_;
  const int root_;  // in the group
  const bool is_root_;
  std::unique_ptr<Work> inner_;
};

// One work after the other, each made when it is its turn, for one may depend on what the one
// before has brought.
class Sequence final : public Work {
 public:
  using Maker = std::function<std::unique_ptr<Work>(Turn turn)>;

  Sequence(Turn turn, std::vector<Maker> makers) : turn_(turn), makers_(std::move(makers)) {}

  Status start() override { return begin_next(); }

  Progress step(Status& status) override {
    if (current_ == nullptr) return Progress::kDone;
    const Progress progress = current_->step(status);
    if (progress != Progress::kDone) return progress;
    status = begin_next();
    if (!status.is_ok()) return Progress::kFailed;
    return current_ == nullptr ? Progress::kDone : Progress::kAdvanced;
  }

 private:
  // A maker that gives no work had something to do in between.
  Status begin_next() {
    current_.reset();
    while (current_ == nullptr && turn_.part < makers_.size()) {
      const Turn mine = turn_;
      current_ = makers_[turn_.part++](mine);
    }
    return current_ == nullptr ? Status::ok() : current_->start();
  }

  Turn turn_;  // of the next one: its parts are numbered from 0
  std::vector<Maker> makers_;
  std::unique_ptr<Work> current_;
};

// Small tensors of a group that may share a buffer. Tensors of a reduction share only with their
// dtype.
std::vector<std::vector<std::size_t>> share_out(const Descriptor& descriptor, std::size_t largest) {
  if (descriptor.tensors.size() == 1) return {{0}};
  std::vector<std::vector<std::size_t>> parts;
  std::map<int, std::size_t> open;  // by dtype
  for (std::size_t i = 0; i < descriptor.tensors.size(); ++i) {
    const TensorSpec& tensor = descriptor.tensors[i];
    const bool alone = tensor.bytes() > largest || descriptor.op == ReduceOp::Adasum;
    const int key = descriptor.kind == OpKind::kBroadcast ? 0 : static_cast<int>(tensor.dtype);
    if (alone) {
      parts.push_back({i});
      continue;
    }
    const auto [part, is_new] = open.emplace(key, parts.size());
    if (is_new) parts.emplace_back();
    parts[part->second].push_back(i);
  }
  return parts;
}

template <typename Launch>
std::unique_ptr<Work> launch_part(Backend& backend, Turn turn, const LaunchMember& member,
                                  const std::vector<std::size_t>& part,
                                  const LaunchOptions& options) {
  const Operation& operation = *member.operation;
  const std::vector<TensorSpec>& specs = operation.descriptor.tensors;
  if (part.size() == 1) {
    auto* at = operation.slot ? operation.slot->data()
                              : static_cast<std::byte*>(operation.tensors[part[0]].data);
    const std::size_t bytes = specs[part[0]].bytes();
    return std::make_unique<Launch>(backend, turn,
                                    std::vector<Placed>{{&member, part[0], at, bytes}}, at, bytes,
                                    options, nullptr);
  }
  std::vector<std::size_t> sizes;
  sizes.reserve(part.size());
  for (const std::size_t i : part) sizes.push_back(specs[i].bytes());
  const BucketLayout layout = layout_bucket(sizes);
  const std::shared_ptr<std::byte[]> buffer = backend.make_buffer(layout.bytes);
  std::vector<Placed> placed;
  for (std::size_t k = 0; k < part.size(); ++k)
    placed.push_back({&member, part[k], buffer.get() + layout.offsets[k], sizes[k]});
  return std::make_unique<Launch>(backend, turn, std::move(placed), buffer.get(), layout.bytes,
                                  options, buffer);
}

// An allreduce or broadcast of one tensor or of a group.
template <typename Launch>
std::unique_ptr<Work> launch_in_place(Backend& backend, Turn turn, const LaunchMember& member,
                                      const LaunchOptions& options) {
  const auto parts = share_out(member.operation->descriptor, options.fusion_tensor_bytes);
  if (parts.size() == 1) return launch_part<Launch>(backend, turn, member, parts[0], options);
  std::vector<Sequence::Maker> makers;
  makers.reserve(parts.size());
  for (const std::vector<std::size_t>& part : parts) {
    makers.emplace_back([&backend, &member, part, options](Turn one) {
      return launch_part<Launch>(backend, one, member, part, options);
    });
  }
  return std::make_unique<Sequence>(turn, std::move(makers));
}

std::vector<std::size_t> byte_boundaries(const std::vector<std::int64_t>& rows,
                                         std::size_t row_bytes) {
  std::vector<std::size_t> boundaries = {0};
  for (const std::int64_t n : rows)
    boundaries.push_back(boundaries.back() + static_cast<std::size_t>(n) * row_bytes);
  return boundaries;
}

// First all ranks learn how many rows each has of each tensor; then the rows travel, tensor by
// tensor.
std::unique_ptr<Work> launch_allgather(Backend& backend, Turn turn, const LaunchMember& member) {
  const auto ranks = static_cast<std::size_t>(backend.size());
  const auto rank = static_cast<std::size_t>(backend.rank());
  const std::size_t tensors = member.operation->tensors.size();
  const auto rows = std::make_shared<std::vector<std::int64_t>>(tensors * ranks, 0);
  for (std::size_t i = 0; i < tensors; ++i)
    (*rows)[i * ranks + rank] = member.operation->tensors[i].rows;
  std::vector<Sequence::Maker> makers;
  makers.emplace_back([&backend, rows](Turn one) {
    Reduction sum;
    sum.dtype = DType::kInt64;
    return backend.allreduce(one, rows->data(), rows->size(), sum);
  });
  for (std::size_t i = 0; i < tensors; ++i) {
    makers.emplace_back([&backend, rows, &member, i, ranks, rank](Turn one) {
      const Operation& operation = *member.operation;
      const auto first = rows->begin() + static_cast<std::ptrdiff_t>(i * ranks);
      const std::vector<std::int64_t> mine(first, first + static_cast<std::ptrdiff_t>(ranks));
      const std::size_t row_bytes = operation.descriptor.tensors[i].bytes();
      std::vector<std::size_t> boundaries = byte_boundaries(mine, row_bytes);
      auto* result = static_cast<std::byte*>(operation.make_result(i, mine));
      const std::size_t own = boundaries[rank + 1] - boundaries[rank];
      if (own > 0) std::memcpy(result + boundaries[rank], operation.tensors[i].data, own);
      return backend.allgather(one, result, std::move(boundaries));
    });
  }
  return std::make_unique<Sequence>(turn, std::move(makers));
}

// First each pair of ranks exchanges how many rows go between them, then the rows.
std::unique_ptr<Work> launch_alltoall(Backend& backend, Turn turn, const LaunchMember& member) {
  const auto ranks = static_cast<std::size_t>(backend.size());
  const auto received = std::make_shared<std::vector<std::int64_t>>(ranks, 0);
  std::vector<Sequence::Maker> makers;
  makers.emplace_back([&backend, &member, received, ranks](Turn one) {
    const std::vector<std::size_t> one_each =
        byte_boundaries(std::vector<std::int64_t>(ranks, 1), sizeof(std::int64_t));
    return backend.alltoall(one, {member.operation->splits.data(), one_each},
                            {received->data(), one_each});
  });
  makers.emplace_back([&backend, &member, received](Turn one) {
    const Operation& operation = *member.operation;
    const std::size_t row_bytes = operation.descriptor.tensors[0].bytes();
    return backend.alltoall(
        one, {operation.tensors[0].data, byte_boundaries(operation.splits, row_bytes)},
        {operation.make_result(0, *received), byte_boundaries(*received, row_bytes)});
  });
  return std::make_unique<Sequence>(turn, std::move(makers));
}

// Works on the tensors themselves, which the caller has copied; rows go to ranks as rows_of() says.
std::unique_ptr<Work> launch_reducescatter(Backend& backend, Turn turn,
                                           const LaunchMember& member) {
  std::vector<Sequence::Maker> makers;
  for (std::size_t i = 0; i < member.operation->tensors.size(); ++i) {
    makers.emplace_back([&backend, &member, i](Turn one) {
      const Operation& operation = *member.operation;
      const TensorSpec& spec = operation.descriptor.tensors[i];
      void* data = operation.tensors[i].data;
      scale(data, spec.count(), spec.dtype, operation.descriptor.prescale);
      if (operation.absent) {
        fill_with_identity(data, spec.count(), spec.dtype, operation.descriptor.op);
      }
      const std::int64_t rows = spec.shape[0];
      const std::size_t row = rows == 0 ? 0 : spec.count() / static_cast<std::size_t>(rows);
      std::vector<std::size_t> boundaries = {0};
      for (int rank = 0; rank < backend.size(); ++rank) {
        const auto share = static_cast<std::size_t>(rows_of(rows, rank, backend.size()));
        boundaries.push_back(boundaries.back() + share * row);
      }
      return backend.reducescatter(one, data, std::move(boundaries),
                                   reduction_of(operation.descriptor, spec.dtype, backend.size()));
    });
  }
  return std::make_unique<Sequence>(turn, std::move(makers));
}

std::unique_ptr<Work> launch_clock_reading(Backend& backend, Turn turn,
                                           const LaunchMember& member) {
  return backend.clock_reading(turn,
                               *static_cast<ClockReading*>(member.operation->tensors[0].data));
}

std::unique_ptr<Work> launch_send(Backend& backend, Turn turn, const LaunchMember& member,
                                  const LaunchOptions& options) {
  const Operation& operation = *member.operation;
  const int source = index_of(options.ranks, operation.descriptor.root);
  const int destination = index_of(options.ranks, operation.descriptor.destination);
  return backend.transfer(turn, operation.tensors[0].data, operation.descriptor.bytes(), source,
                          destination);
}

}  // namespace

std::string what_runs(const std::vector<LaunchMember>& members) {
  const Operation& first = *members.front().operation;
  std::string text = std::string(name_of(first.descriptor.kind)) + " of '" + first.name + "'";
  if (members.size() > 1) text += " and " + std::to_string(members.size() - 1) + " more";
  return text;
}

std::unique_ptr<Work> launch_single(Backend& backend, Turn turn, const LaunchMember& member,
                                    const LaunchOptions& options) {
  switch (member.operation->descriptor.kind) {
    case OpKind::kAllreduce:
      return launch_in_place<AllreduceLaunch>(backend, turn, member, options);
    case OpKind::kBroadcast:
      return launch_in_place<BroadcastLaunch>(backend, turn, member, options);
    case OpKind::kAllgather:
      return launch_allgather(backend, turn, member);
    case OpKind::kAlltoall:
      return launch_alltoall(backend, turn, member);
    case OpKind::kReducescatter:
      return launch_reducescatter(backend, turn, member);
    case OpKind::kSend:
      return launch_send(backend, turn, member, options);
    case OpKind::kClock:
      return launch_clock_reading(backend, turn, member);
    case OpKind::kBarrier:  // all that there was to do is that every rank has come
    case OpKind::kJoin:     // the others never are executed
    case OpKind::kAddProcessSet:
    case OpKind::kRemoveProcessSet:
      break;
  }
  return nullptr;
}

std::unique_ptr<Work> launch_bucket(Backend& backend, Turn turn,
                                    const std::vector<LaunchMember>& members,
                                    const BucketBuffer& buffer,
                                    const std::shared_ptr<std::byte[]>& data,
                                    const LaunchOptions& options) {
  std::vector<Placed> placed;
  placed.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i)
    placed.push_back({&members[i], 0, data.get() + buffer.offsets[i], buffer.sizes[i]});
  return std::make_unique<AllreduceLaunch>(backend, turn, std::move(placed), data.get(),
                                           buffer.bytes, options, data);
}

std::shared_ptr<Operation> make_stand_in(const std::string& name, const Descriptor& descriptor,
                                         int size) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  operation->descriptor = descriptor;
  operation->absent = true;
  operation->stand_in = true;
  operation->splits.assign(static_cast<std::size_t>(size), 0);
  const auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (const TensorSpec& tensor : descriptor.tensors) {
    memory->emplace_back(descriptor.has_own_rows() ? 0 : tensor.bytes());
    operation->tensors.push_back({memory->back().data(), 0});
  }
  // What others send is taken and dropped. This also keeps the memory.
  operation->make_result = [memory, descriptor](std::size_t index,
                                                const std::vector<std::int64_t>& rows) -> void* {
    std::int64_t all = 0;
    for (const std::int64_t n : rows) all += n;
    (*memory)[index].resize(static_cast<std::size_t>(all) * descriptor.tensors[index].bytes());
    return (*memory)[index].data();
  };
  return operation;
}

}  // namespace kolo
