#include "engine/launch.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "core/ranks.hpp"
#include "engine/bucket_layout.hpp"

namespace kolo {
namespace {

// An average of integers is only added up here. The submitter has scaled the values and divides the
// result.
Scaling scaling_of(const Backend& backend, const Descriptor& descriptor, DType dtype) {
  Reduction reduction;
  reduction.dtype = dtype;
  reduction.op = descriptor.op;
  const bool averages = descriptor.op == ReduceOp::Average;
  if (!averages || is_floating(dtype)) {
    reduction.divisor = averages ? backend.size() : 1;
    reduction.prescale = descriptor.prescale;
    reduction.postscale = descriptor.postscale;
  }
  return backend.scaling_of(carried_out_as(descriptor.kind), reduction);
}

// Describes how a tensor of an operation is copied to the place where it is worked on, and back.
Piece piece_of(const LaunchMember& member, std::size_t index, std::byte* at, std::size_t bytes) {
  const Operation& operation = *member.operation;
  auto* const data = static_cast<std::byte*>(operation.tensors[index].data);
  Piece piece;
  piece.at = at;
  // Packed when it was submitted: here, or in the place of a bucket that has ended since.
  piece.from = operation.absent      ? nullptr
               : operation.packed_at ? operation.packed_at->data()
                                     : data;
  piece.to = member.absent_everywhere ? nullptr : data;
  piece.bytes = bytes;
  if (operation.on_device != nullptr && !operation.on_device->outside.empty()) {
    const ValuesOutside& outside = operation.on_device->outside[index];
    if (outside.data == nullptr) return piece;
    if (piece.from != nullptr) piece.from = outside.data;
    if (piece.to != nullptr) piece.to = outside.data;
    piece.outside = outside.dtype;
  }
  return piece;
}

// The memory that one collective works on: pieces that lie together.
struct Region {
  std::vector<Piece> pieces;
  std::byte* data = nullptr;  // in the buffer, or an operation's
  std::size_t bytes = 0;
  std::shared_ptr<std::byte[]> buffer;  // of a bucket, which may end while this runs; or null
};

class AllreduceLaunch final : public Work {
 public:
  AllreduceLaunch(Backend& backend, Turn turn, const LaunchMember& first, Region region,
                  DType dtype, const LaunchOptions& /*options*/)
      : memory_(backend.memory()),
        region_(std::move(region)),
        dtype_(dtype),
        scaling_(scaling_of(backend, first.operation->descriptor, dtype)),
        inner_(
            backend.make(turn, collective::Allreduce{region_.data, region_.bytes / size_of(dtype),
                                                     scaling_.reduction})) {}

  Status start() override {
    const ReduceOp op = scaling_.reduction.op;
    if (Status s = memory_.put(region_.pieces, dtype_, op, scaling_.before); !s.is_ok()) return s;
    if (region_.buffer != nullptr) times_.filled = Clock::now();
    return inner_->start();
  }

  Progress step(Status& status) override {
    const Progress progress = inner_->step(status);
    if (progress != Progress::kDone) return progress;
    if (region_.buffer != nullptr) times_.ready = Clock::now();
    status = memory_.take(region_.pieces, dtype_);
    return status.is_ok() ? Progress::kDone : Progress::kFailed;
  }

  std::optional<int> waits_for() const override { return inner_->waits_for(); }
  BufferTimes buffer_times() const override { return times_; }

 private:
  Memory& memory_;  // the backend's
  const Region region_;
  const DType dtype_;
  const Scaling scaling_;
  std::unique_ptr<Work> inner_;
  BufferTimes times_;
};

// A broadcast of bytes; their dtype does not matter.
class BroadcastLaunch final : public Work {
 public:
  BroadcastLaunch(Backend& backend, Turn turn, const LaunchMember& first, Region region,
                  DType /*dtype*/, const LaunchOptions& options)
      : memory_(backend.memory()),
        region_(std::move(region)),
        root_(index_of(options.ranks, first.operation->descriptor.root)),
        is_root_(backend.rank() == root_),
        inner_(backend.make(turn, collective::Broadcast{region_.data, region_.bytes, root_})) {}

  Status start() override {
    if (is_root_) {
      Status status = memory_.put(region_.pieces, DType::kUint8, ReduceOp::Sum, 1.0);
      if (!status.is_ok()) return status;
    }
    return inner_->start();
  }

  Progress step(Status& status) override {
    const Progress progress = inner_->step(status);
    if (progress != Progress::kDone || is_root_) return progress;
    status = memory_.take(region_.pieces, DType::kUint8);
    return status.is_ok() ? Progress::kDone : Progress::kFailed;
  }

  std::optional<int> waits_for() const override { return inner_->waits_for(); }

 private:
  Memory& memory_;  // the backend's
  const Region region_;
  const int root_;  // in the group
  const bool is_root_;
  std::unique_ptr<Work> inner_;
};

// Cuts a tensor into the ranks' shares of its rows, in elements.
std::vector<std::size_t> boundaries_of_shares(const TensorSpec& spec, int ranks) {
  const std::int64_t rows = spec.shape[0];
  const std::size_t row = rows == 0 ? 0 : spec.count() / static_cast<std::size_t>(rows);
  std::vector<std::size_t> boundaries = {0};
  for (int rank = 0; rank < ranks; ++rank) {
    const auto share = static_cast<std::size_t>(rows_of(rows, rank, ranks));
    boundaries.push_back(boundaries.back() + share * row);
  }
  return boundaries;
}

// A reducescatter of one tensor of an operation. Works on the tensor itself, unless it is only
// read: by the backend, or here to make a copy.
class ReducescatterLaunch final : public Work {
 public:
  ReducescatterLaunch(Backend& backend, Turn turn, const Operation& operation, std::size_t index)
      : memory_(backend.memory()),
        spec_(operation.descriptor.tensors[index]),
        scaling_(scaling_of(backend, operation.descriptor, spec_.dtype)) {
    const OperationTensor& tensor = operation.tensors[index];
    auto* const data = static_cast<std::byte*>(tensor.data);
    auto* const result = static_cast<std::byte*>(tensor.result);
    const bool needs_no_copy = backend.takes_result() && scaling_.before == 1.0;
    if (tensor.is_only_read && !needs_no_copy)
      copy_ = std::make_unique_for_overwrite<std::byte[]>(spec_.bytes());
    std::byte* const at = copy_ != nullptr ? copy_.get() : data;
    all_ = {at, operation.absent ? nullptr : data, at, spec_.bytes()};
    std::vector<std::size_t> boundaries = boundaries_of_shares(spec_, backend.size());
    if (copy_ != nullptr) {
      const auto rank = static_cast<std::size_t>(backend.rank());
      const std::size_t element = size_of(spec_.dtype);
      std::byte* const share = at + boundaries[rank] * element;
      share_ = {share, share, result, (boundaries[rank + 1] - boundaries[rank]) * element};
    }
    inner_ =
        backend.make(turn, collective::Reducescatter{at, std::move(boundaries), scaling_.reduction,
                                                     copy_ == nullptr ? result : nullptr});
  }

  Status start() override {
    Status status = memory_.put({&all_, 1}, spec_.dtype, scaling_.reduction.op, scaling_.before);
    return status.is_ok() ? inner_->start() : status;
  }

  Progress step(Status& status) override {
    const Progress progress = inner_->step(status);
    if (progress != Progress::kDone || copy_ == nullptr) return progress;
    status = memory_.take({&share_, 1}, spec_.dtype);
    return status.is_ok() ? Progress::kDone : Progress::kFailed;
  }

  std::optional<int> waits_for() const override { return inner_->waits_for(); }

 private:
  Memory& memory_;          // the backend's
  const TensorSpec& spec_;  // the operation's
  const Scaling scaling_;
  std::unique_ptr<std::byte[]> copy_;
  Piece all_;
  Piece share_;  // of the copy
  std::unique_ptr<Work> inner_;
};

// Works that run one after the other. Each is made at its turn, because it may depend on the result
// of the one before.
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

  std::optional<int> waits_for() const override {
    return current_ == nullptr ? std::nullopt : current_->waits_for();
  }

 private:
  // A maker without work had something to do in between.
  Status begin_next() {
    current_.reset();
    while (current_ == nullptr && next_ < makers_.size()) {
      const Turn mine = turn_;
      ++turn_.part;
      current_ = makers_[next_++](mine);
    }
    return current_ == nullptr ? Status::ok() : current_->start();
  }

  Turn turn_;  // of the next one
  std::size_t next_ = 0;
  std::vector<Maker> makers_;
  std::unique_ptr<Work> current_;
};

// Independent works that the backend carries out as one.
class Together final : public Work {
 public:
  Together(Backend& backend, Turn turn, std::vector<Sequence::Maker> makers)
      : backend_(backend), turn_(turn), makers_(std::move(makers)) {}

  Status start() override {
    works_.reserve(makers_.size());
    for (const Sequence::Maker& maker : makers_) {
      works_.push_back(maker(turn_));
      ++turn_.part;
    }
    return backend_.start_all(works_);
  }

  Progress step(Status& status) override {
    const std::size_t before = done_;
    for (; done_ < works_.size(); ++done_) {
      const Progress progress = works_[done_]->step(status);
      if (progress == Progress::kWaiting && done_ > before) return Progress::kAdvanced;
      if (progress != Progress::kDone) return progress;
    }
    return Progress::kDone;
  }

  std::optional<int> waits_for() const override {
    return done_ < works_.size() ? works_[done_]->waits_for() : std::nullopt;
  }

 private:
  Backend& backend_;  // outlives this
  Turn turn_;         // of the next one
  const std::vector<Sequence::Maker> makers_;
  std::vector<std::unique_ptr<Work>> works_;
  std::size_t done_ = 0;
};

std::unique_ptr<Work> in_parts(Backend& backend, Turn turn, const Descriptor& descriptor,
                               std::vector<Sequence::Maker> makers) {
  if (makers.size() > 1 && backend.starts_together(descriptor.kind, descriptor.op))
    return std::make_unique<Together>(backend, turn, std::move(makers));
  return std::make_unique<Sequence>(turn, std::move(makers));
}

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
  Region region;
  if (part.size() == 1) {
    region.data = operation.packed_at ? operation.packed_at->data()
                                      : static_cast<std::byte*>(operation.tensors[part[0]].data);
    region.bytes = specs[part[0]].bytes();
    region.pieces = {piece_of(member, part[0], region.data, region.bytes)};
  } else {
    std::vector<std::size_t> sizes;
    sizes.reserve(part.size());
    for (const std::size_t i : part) sizes.push_back(specs[i].bytes());
    const BucketLayout layout = layout_bucket(sizes);
    region.buffer = backend.make_buffer(layout.bytes);
    region.data = region.buffer.get();
    region.bytes = layout.bytes;
    for (std::size_t k = 0; k < part.size(); ++k) {
      region.pieces.push_back(piece_of(member, part[k], region.data + layout.offsets[k], sizes[k]));
    }
  }
  return std::make_unique<Launch>(backend, turn, member, std::move(region), specs[part[0]].dtype,
                                  options);
}

// An allreduce, reduce or broadcast of one tensor or of a group.
template <typename Launch>
std::unique_ptr<Work> launch_in_place(Backend& backend, Turn turn, const LaunchMember& member,
                                      const LaunchOptions& options) {
  // On a device, allocating memory that was not planned takes too long.
  const Descriptor& descriptor = member.operation->descriptor;
  const auto parts = share_out(
      descriptor, descriptor.device == DeviceKind::kCpu ? options.fusion_tensor_bytes : 0);
  if (parts.size() == 1) return launch_part<Launch>(backend, turn, member, parts[0], options);
  std::vector<Sequence::Maker> makers;
  makers.reserve(parts.size());
  for (const std::vector<std::size_t>& part : parts) {
    makers.emplace_back([&backend, &member, part, options](Turn one) {
      return launch_part<Launch>(backend, one, member, part, options);
    });
  }
  return in_parts(backend, turn, descriptor, std::move(makers));
}

// Numbers of rows come from other ranks.
std::vector<std::size_t> byte_boundaries(const std::vector<std::int64_t>& rows,
                                         std::size_t row_bytes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::vector<std::size_t> boundaries = {0};
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const std::int64_t left = kMost - static_cast<std::int64_t>(boundaries.back());
    if (rows[rank] < 0 ||
        rows[rank] > left / static_cast<std::int64_t>(std::max<std::size_t>(row_bytes, 1))) {
      throw_if_error(Status::internal(
          "rank " + std::to_string(rank) + " of the group gives " + std::to_string(rows[rank]) +
          " rows, which is impossible. This is a defect of kolo, or memory was overwritten"));
    }
    boundaries.push_back(boundaries.back() + static_cast<std::size_t>(rows[rank]) * row_bytes);
  }
  return boundaries;
}

// Exchanges the ranks' numbers of rows of each tensor first, then the rows, tensor by tensor.
std::unique_ptr<Work> launch_allgather(Backend& backend, Backend& host, Turn turn,
                                       const LaunchMember& member) {
  const auto ranks = static_cast<std::size_t>(backend.size());
  const auto rank = static_cast<std::size_t>(backend.rank());
  const std::size_t tensors = member.operation->tensors.size();
  const auto rows = std::make_shared<std::vector<std::int64_t>>(tensors * ranks, 0);
  for (std::size_t i = 0; i < tensors; ++i)
    (*rows)[i * ranks + rank] = member.operation->tensors[i].rows;
  std::vector<Sequence::Maker> gathers;
  gathers.reserve(tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    gathers.emplace_back([&backend, rows, &member, i, ranks, rank](Turn one) {
      const Operation& operation = *member.operation;
      const auto first = rows->begin() + static_cast<std::ptrdiff_t>(i * ranks);
      const std::vector<std::int64_t> mine(first, first + static_cast<std::ptrdiff_t>(ranks));
      const std::size_t row_bytes = operation.descriptor.tensors[i].bytes();
      std::vector<std::size_t> boundaries = byte_boundaries(mine, row_bytes);
      auto* result = static_cast<std::byte*>(operation.make_result(i, mine));
      const std::size_t own = boundaries[rank + 1] - boundaries[rank];
      std::byte* const place = result + boundaries[rank];
      if (place != operation.tensors[i].data)  // the program may have put them there
        throw_if_error(backend.memory().copy(place, operation.tensors[i].data, own));
      return backend.make(one, collective::Allgather{result, std::move(boundaries)});
    });
  }
  std::vector<Sequence::Maker> makers;
  makers.emplace_back([&host, rows](Turn one) {
    Reduction sum;
    sum.dtype = DType::kInt64;
    return host.make(one, collective::Allreduce{rows->data(), rows->size(), sum});
  });
  makers.emplace_back([&backend, &member, all = std::move(gathers)](Turn one) {
    return in_parts(backend, one, member.operation->descriptor, all);
  });
  return std::make_unique<Sequence>(turn, std::move(makers));
}

// Exchanges the number of rows between each pair of ranks first, then the rows.
std::unique_ptr<Work> launch_alltoall(Backend& backend, Backend& host, Turn turn,
                                      const LaunchMember& member) {
  const auto ranks = static_cast<std::size_t>(backend.size());
  const auto own = static_cast<std::size_t>(backend.rank());
  const auto received = std::make_shared<std::vector<std::int64_t>>(ranks, 0);
  (*received)[own] = member.operation->splits[own];
  std::vector<Sequence::Maker> makers;
  makers.emplace_back([&host, &member, received, ranks](Turn one) {
    const std::vector<std::size_t> one_each =
        byte_boundaries(std::vector<std::int64_t>(ranks, 1), sizeof(std::int64_t));
    return host.make(one, collective::Alltoall{{member.operation->splits.data(), one_each},
                                               {received->data(), one_each}});
  });
  makers.emplace_back([&backend, &member, received, own](Turn one) {
    const Operation& operation = *member.operation;
    const std::size_t row_bytes = operation.descriptor.tensors[0].bytes();
    AlltoallSide from{operation.tensors[0].data, byte_boundaries(operation.splits, row_bytes)};
    AlltoallSide to{operation.make_result(0, *received), byte_boundaries(*received, row_bytes)};
    throw_if_error(
        backend.memory().copy(static_cast<std::byte*>(to.data) + to.boundaries[own],
                              static_cast<const std::byte*>(from.data) + from.boundaries[own],
                              from.boundaries[own + 1] - from.boundaries[own]));
    return backend.make(one, collective::Alltoall{std::move(from), std::move(to)});
  });
  return std::make_unique<Sequence>(turn, std::move(makers));
}

std::unique_ptr<Work> launch_reducescatter(Backend& backend, Turn turn,
                                           const LaunchMember& member) {
  std::vector<Sequence::Maker> makers;
  for (std::size_t i = 0; i < member.operation->tensors.size(); ++i) {
    makers.emplace_back([&backend, &member, i](Turn one) {
      return std::make_unique<ReducescatterLaunch>(backend, one, *member.operation, i);
    });
  }
  return in_parts(backend, turn, member.operation->descriptor, std::move(makers));
}

std::unique_ptr<Work> launch_clock_reading(Backend& backend, Turn turn,
                                           const LaunchMember& member) {
  auto* const reading = static_cast<ClockReading*>(member.operation->tensors[0].data);
  return backend.make(turn, collective::ReadClock{reading});
}

std::unique_ptr<Work> launch_send(Backend& backend, Turn turn, const LaunchMember& member,
                                  const LaunchOptions& options) {
  const Operation& operation = *member.operation;
  const int source = index_of(options.ranks, operation.descriptor.root);
  const int destination = index_of(options.ranks, operation.descriptor.destination);
  return backend.make(
      turn, collective::Transfer{operation.tensors[0].data, operation.descriptor.bytes(), source,
                                 destination});
}

}  // namespace

std::string what_runs(const std::vector<LaunchMember>& members) {
  const Operation& first = *members.front().operation;
  std::string text = std::string(name_of(first.descriptor.kind)) + " of '" + first.name + "'";
  if (members.size() > 1) text += " and " + std::to_string(members.size() - 1) + " more";
  return text;
}

std::unique_ptr<Work> launch_single(Backend& backend, Backend& host, Turn turn,
                                    const LaunchMember& member, const LaunchOptions& options) {
  switch (member.operation->descriptor.kind) {
    case OpKind::kAllreduce:
    case OpKind::kReduce:  // ranks other than the root drop the result
      return launch_in_place<AllreduceLaunch>(backend, turn, member, options);
    case OpKind::kBroadcast:
      return launch_in_place<BroadcastLaunch>(backend, turn, member, options);
    case OpKind::kAllgather:
      return launch_allgather(backend, host, turn, member);
    case OpKind::kAlltoall:
      return launch_alltoall(backend, host, turn, member);
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
  Region region;
  region.data = data.get();
  region.bytes = buffer.bytes;
  region.buffer = data;
  region.pieces.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    region.pieces.push_back(
        piece_of(members[i], 0, data.get() + buffer.offsets[i], buffer.sizes[i]));
  }
  const DType dtype = members.front().operation->descriptor.tensors[0].dtype;
  return std::make_unique<AllreduceLaunch>(backend, turn, members.front(), std::move(region), dtype,
                                           options);
}

std::shared_ptr<Operation> make_placeholder(const std::string& name, const Descriptor& descriptor,
                                            Backend& backend, bool in_bucket) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  operation->descriptor = descriptor;
  operation->absent = true;
  operation->placeholder = true;
  operation->splits.assign(static_cast<std::size_t>(backend.size()), 0);
  const auto memory = std::make_shared<std::vector<std::shared_ptr<std::byte[]>>>();
  // The ranks of a process set travel as a shape; there are no values.
  const bool has_values = !in_bucket && !traits_of(descriptor.kind).changes_process_sets;
  for (const TensorSpec& tensor : descriptor.tensors) {
    const std::size_t bytes = descriptor.has_own_rows() ? 0 : tensor.bytes();
    memory->push_back(has_values ? backend.make_buffer(bytes) : nullptr);
    operation->tensors.push_back({memory->back().get(), 0});
  }
  // Receives and drops the rows of others. The callback also keeps the memory.
  operation->make_result = [memory, descriptor, &backend](
                               std::size_t index, const std::vector<std::int64_t>& rows) -> void* {
    const auto all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    (*memory)[index] =
        backend.make_buffer(static_cast<std::size_t>(all) * descriptor.tensors[index].bytes());
    return (*memory)[index].get();
  };
  return operation;
}

}  // namespace kolo
