#include "collectives/nccl/backend.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/hierarchy/backend.hpp"
#include "collectives/nccl/check.hpp"
#include "collectives/nccl/communicator.hpp"
#include "collectives/nccl/device_memory.hpp"
#include "collectives/nccl/kernels.hpp"
#include "collectives/nccl/over_host.hpp"
#include "collectives/nccl/preparation.hpp"
#include "collectives/nccl/timing.hpp"
#include "collectives/nccl/works.hpp"

namespace kolo::nccl {
namespace {

bool are_equal(const std::vector<std::size_t>& boundaries) {
  const std::size_t first = boundaries[1] - boundaries[0];
  for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) {
    if (boundaries[i + 1] - boundaries[i] != first) return false;
  }
  return true;
}

// Returns the operations that the host carries out. If allreduce is to go in stages and each rank
// is alone on its node, all of it is between nodes, so the host carries it out.
std::set<OpKind> over_host(const Options& options, const Backend& host) {
  std::set<OpKind> kinds = options.over_host;
  const bool between_nodes = host.medium(OpKind::kAllreduce, ReduceOp::Sum) == Medium::kMpi;
  if (options.hierarchical_allreduce && between_nodes) kinds.insert(OpKind::kAllreduce);
  return kinds;
}

constexpr auto kChoices = static_cast<std::size_t>(
    std::count_if(kOperations.begin(), kOperations.end(),
                  [](const OperationTraits& traits) { return traits.has_gpu_choice; }));

class NcclBackend final : public DeviceBackend {
 public:
  NcclBackend(std::shared_ptr<Streams> streams, std::shared_ptr<Communicators> communicators,
              Backend& host, const Options& options)
      : streams_(std::move(streams)),
        communicators_(std::move(communicators)),
        host_(host),
        card_{streams_->device(), options.rank, options.may_share},
        over_host_(over_host(options, host)),
        carried_by_host_(streams_, host, options.piece_bytes),
        memory_(streams_, options.free_kept),
        communicator_(*communicators_, host.rank(), host.size()) {
    if (options.hierarchical_allreduce && !is_over_host(OpKind::kAllreduce) &&
        host.levels() != nullptr)
      make_levels(*host.levels(), options);
  }

  void* queue() const override { return streams_->reducing(); }
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  Memory& memory() override { return memory_; }
  std::shared_ptr<std::byte[]> make_buffer(std::size_t bytes) override {
    return memory_.allocate(bytes);
  }
  Medium medium(OpKind kind, ReduceOp op) const override {
    if (size() == 1) return Medium::kNone;
    if (is_over_host(kind, op)) return host_.medium(kind, op);
    const bool in_stages = levels_ && kind == OpKind::kAllreduce;
    return in_stages ? Medium::kStaged : Medium::kNccl;
  }

  std::unique_ptr<Work> preparation(Turn turn, std::optional<int> peer) override {
    if (peer) return pair_preparation(turn, *peer);
    if (std::exchange(prepared_, true)) return nullptr;  // later works start when it is done
    std::unique_ptr<Work> all;
    if (size() > 1 && over_host_.size() + (levels_ ? 1 : 0) < kChoices)
      all = make_preparation(host_, turn, communicator_, card_);
    std::unique_ptr<Work> node;
    if (within_ != nullptr) node = within_->preparation(turn, std::nullopt);
    if (all == nullptr || node == nullptr) return all == nullptr ? std::move(node) : std::move(all);
    return one_after_the_other(std::move(all), std::move(node));
  }

  // Waits only for the last of several points on one stream.
  Status enter(std::span<const std::shared_ptr<DevicePoint>> ready, bool timed) override {
    const OnDevice here(streams_->device());
    if (!here.status().is_ok()) return here.status();
    if (timed) {
      streams_->begin_span();
      if (Status s = streams_->compare_clocks(); !s.is_ok()) return s;
    }
    std::vector<const Point*> last;
    for (const std::shared_ptr<DevicePoint>& one : ready) {
      const auto* const point = static_cast<const Point*>(one.get());
      auto same = last.begin();
      while (same != last.end() && (*same)->stream() != point->stream()) ++same;
      if (same == last.end()) {
        last.push_back(point);
      } else if ((*same)->number() < point->number()) {
        *same = point;
      }
    }
    for (const Point* point : last) {
      if (Status s = wait_for(streams_->packing(), *point); !s.is_ok()) return s;
    }
    return streams_->mark(&WorkSpan::data_ready, streams_->packing());
  }

  Status leave(std::shared_ptr<DevicePoint>& results, std::shared_ptr<DeviceSpan>& span) override {
    const OnDevice here(streams_->device());
    if (!here.status().is_ok()) return here.status();
    if (Status s = streams_->join(); !s.is_ok()) return s;
    Status status = streams_->mark(&WorkSpan::ended, streams_->reducing());
    span = streams_->take_span();
    if (!status.is_ok()) return status;
    std::shared_ptr<Point> point;
    status = streams_->events()->record(streams_->reducing(), point);
    results = std::move(point);
    return status;
  }

  Status compare_clocks() override { return streams_->compare_clocks(); }

  Status check() override {
    Status status = communicator_.check();
    for (const auto& [ranks, pair] : pairs_) {
      if (status.is_ok()) status = pair.communicator.check();
    }
    return status.is_ok() && within_ != nullptr ? within_->check() : status;
  }

  std::unique_ptr<Work> make(Turn turn, Collective collective) override {
    if (moves_nothing(collective)) return std::make_unique<Nothing>();
    if (is_over_host(kind_of(collective), op_of(collective)))
      return carried_by_host_.make(turn, std::move(collective));
    return std::visit([&](auto& one) { return make_one(turn, one); }, collective);
  }

  // Divides an average before the reduction. NCCL's own average multiplies by 1 / size in the
  // values' dtype, which is off by up to 0.4 % in a half type, and does not use NVLS or CollNet,
  // which only add.
  Scaling scaling_of(OpKind kind, const Reduction& reduction) const override {
    if (is_over_host(kind, reduction.op)) return scaled_before(host_.scaling_of(kind, reduction));
    if (!is_nccl_alone(kind, reduction.op)) return scaled_for_partial_sums(reduction, size());
    Scaling scaling = scaled_before(reduction);
    scaling.before /= static_cast<double>(reduction.divisor);
    scaling.reduction.divisor = 1;
    return scaling;
  }

  bool starts_together(OpKind kind, ReduceOp op) const override { return is_nccl_alone(kind, op); }
  Status start_all(std::span<const std::unique_ptr<Work>> works) override {
    return in_group([&] {
      for (const std::unique_ptr<Work>& work : works) {
        if (Status s = work->start(); !s.is_ok()) return s;
      }
      return Status::ok();
    });
  }

 private:
  void make_levels(const Levels& of_host, Options options) {
    levels_ = of_host;
    levels_->chunk = options.piece_bytes * static_cast<std::size_t>(of_host.slices);
    options.hierarchical_allreduce = false;
    options.over_host = {};
    if (of_host.local != nullptr) {
      within_ = std::make_unique<NcclBackend>(streams_, communicators_, *of_host.local, options);
    }
    if (of_host.cross != nullptr) {
      options.over_host = {OpKind::kAllreduce};
      between_ = std::make_unique<NcclBackend>(streams_, communicators_, *of_host.cross, options);
    }
    levels_->local = within_.get();
    levels_->cross = between_.get();
  }

  bool is_nccl_alone(OpKind kind, ReduceOp op) const {
    return !is_over_host(kind, op) && !(levels_ && kind == OpKind::kAllreduce);
  }

  // NCCL has no Adasum.
  bool is_over_host(OpKind kind, ReduceOp op = ReduceOp::Sum) const {
    return size() > 1 && (over_host_.count(kind) > 0 || op == ReduceOp::Adasum);
  }

  // The communicator of two ranks. The other ranks take no part in a transfer, and may not know of
  // it or never use a device, so each pair of ranks has a communicator of its own.
  struct PairOfRanks {
    PairOfRanks(Communicators& all, int rank) : communicator(all, rank, 2) {}
    Communicator communicator;
    bool prepared = false;
  };

  PairOfRanks& pair_with(int peer) {
    const std::pair<int, int> ranks = std::minmax({rank(), peer});
    return pairs_.try_emplace(ranks, *communicators_, rank() == ranks.first ? 0 : 1).first->second;
  }

  std::unique_ptr<Work> pair_preparation(Turn turn, int peer) {
    if (is_over_host(OpKind::kSend)) return nullptr;
    PairOfRanks& pair = pair_with(peer);
    if (std::exchange(pair.prepared, true)) return nullptr;
    const auto [lower, higher] = std::minmax({rank(), peer});
    return make_pair_preparation(host_, turn, pair.communicator, card_, lower, higher);
  }

  // Whether this rank has nothing to send or to receive. False for a reduction, which may have to
  // scale its values.
  bool moves_nothing(const Collective& collective) const {
    if (const auto* const one = std::get_if<collective::Transfer>(&collective))
      return one->bytes == 0 || (rank() != one->source && rank() != one->destination);
    if (const auto* const one = std::get_if<collective::Broadcast>(&collective))
      return one->bytes == 0 || size() == 1;
    return size() == 1 && (std::holds_alternative<collective::Allgather>(collective) ||
                           std::holds_alternative<collective::Alltoall>(collective));
  }

  std::unique_ptr<Work> make_one(Turn turn, const collective::Allreduce& one) {
    if (levels_)
      return make_hierarchical_allreduce(*levels_, turn, one.data, one.count, one.reduction);
    const auto finish = [this, one] { return scale_result(one.data, one.count, one.reduction); };
    if (size() == 1) return enqueue([] { return Status::ok(); }, finish);
    if (one.reduction.dtype == DType::kInt16)
      return allreduce_widened(one.data, one.count, one.reduction);
    return enqueue([this, one] { return call_allreduce(one.data, one.count, one.reduction); },
                   finish);
  }

  std::unique_ptr<Work> make_one(Turn /*turn*/, const collective::Broadcast& one) {
    return enqueue([this, one] { return call_broadcast(one.data, one.bytes, one.root); });
  }

  std::unique_ptr<Work> make_one(Turn /*turn*/, collective::Allgather& one) {
    return enqueue([this, data = static_cast<std::byte*>(one.data),
                    at = std::move(one.boundaries)] {
      if (are_equal(at)) {
        return status_of(
            ncclAllGather(data + at[rank()], data, at[1], ncclUint8, communicator_.get(), stream()),
            "ncclAllGather");
      }
      return in_group([&] {
        for (std::size_t root = 0; root + 1 < at.size(); ++root) {
          const std::size_t bytes = at[root + 1] - at[root];
          if (bytes == 0) continue;
          Status status = call_broadcast(data + at[root], bytes, static_cast<int>(root));
          if (!status.is_ok()) return status;
        }
        return Status::ok();
      });
    });
  }

  std::unique_ptr<Work> make_one(Turn /*turn*/, const collective::Alltoall& one) {
    return enqueue([this, one] { return call_alltoall(one.from, one.to); });
  }

  std::unique_ptr<Work> make_one(Turn turn, collective::Reducescatter& one) {
    // Rare, so every rank may get more than it needs.
    if (size() == 1 || one.reduction.dtype == DType::kInt16)
      return make(turn, collective::Allreduce{one.data, one.boundaries.back(), one.reduction});
    auto* const bytes = static_cast<std::byte*>(one.data);
    const std::size_t element = size_of(one.reduction.dtype);
    const auto own = static_cast<std::size_t>(rank());
    std::byte* const mine = bytes + one.boundaries[own] * element;
    const std::size_t count = one.boundaries[own + 1] - one.boundaries[own];
    return enqueue(
        [this, bytes, element, at = std::move(one.boundaries), reduction = one.reduction] {
          return call_reducescatter(bytes, element, at, reduction);
        },
        [this, mine, count, reduction = one.reduction] {
          return scale_result(mine, count, reduction);
        });
  }

  std::unique_ptr<Work> make_one(Turn /*turn*/, const collective::Transfer& one) {
    const bool sends = rank() == one.source;
    const Communicator& pair = pair_with(sends ? one.destination : one.source).communicator;
    return std::make_unique<Enqueue>(
        *streams_, pair,
        [this, &pair, one, sends] {
          const int other = 1 - pair.rank();
          if (sends) {
            return nccl_status(
                ncclSend(one.data, one.bytes, ncclUint8, other, pair.get(), stream()), "ncclSend",
                pair.get());
          }
          return nccl_status(ncclRecv(one.data, one.bytes, ncclUint8, other, pair.get(), stream()),
                             "ncclRecv", pair.get());
        },
        Enqueue::Call{});
  }

  std::unique_ptr<Work> make_one(Turn turn, const collective::ReadClock& one) {
    return host_.make(turn, one);
  }

  cudaStream_t stream() const { return streams_->reducing(); }

  Status status_of(ncclResult_t code, const char* call) const {
    return nccl_status(code, call, communicator_.get());
  }

  std::unique_ptr<Work> enqueue(Enqueue::Call call, Enqueue::Call then = {}) {
    return std::make_unique<Enqueue>(*streams_, communicator_, std::move(call), std::move(then));
  }

  Status call_allreduce(void* data, std::size_t count, const Reduction& reduction) const {
    if (count == 0) return Status::ok();
    return status_of(ncclAllReduce(data, data, count, type_of(reduction.dtype),
                                   operator_of(reduction), communicator_.get(), stream()),
                     "ncclAllReduce");
  }

  Status call_broadcast(void* data, std::size_t bytes, int root) const {
    return status_of(
        ncclBroadcast(data, data, bytes, ncclUint8, root, communicator_.get(), stream()),
        "ncclBroadcast");
  }

  Status call_alltoall(const AlltoallSide& from, const AlltoallSide& to) const {
    const auto* const source = static_cast<const std::byte*>(from.data);
    auto* const target = static_cast<std::byte*>(to.data);
    const auto own = static_cast<std::size_t>(rank());
    return in_group([&] {
      for (std::size_t peer = 0; peer + 1 < from.boundaries.size(); ++peer) {
        if (peer == own) continue;
        const std::size_t sent = from.boundaries[peer + 1] - from.boundaries[peer];
        const std::size_t received = to.boundaries[peer + 1] - to.boundaries[peer];
        Status status;
        if (sent > 0) {
          status = status_of(ncclSend(source + from.boundaries[peer], sent, ncclUint8,
                                      static_cast<int>(peer), communicator_.get(), stream()),
                             "ncclSend");
        }
        if (status.is_ok() && received > 0) {
          status = status_of(ncclRecv(target + to.boundaries[peer], received, ncclUint8,
                                      static_cast<int>(peer), communicator_.get(), stream()),
                             "ncclRecv");
        }
        if (!status.is_ok()) return status;
      }
      return Status::ok();
    });
  }

  Status call_reducescatter(std::byte* data, std::size_t element,
                            const std::vector<std::size_t>& at, const Reduction& reduction) const {
    const ncclDataType_t type = type_of(reduction.dtype);
    const ncclRedOp_t op = operator_of(reduction);
    if (are_equal(at)) {
      if (at[1] == 0) return Status::ok();
      std::byte* const mine = data + at[static_cast<std::size_t>(rank())] * element;
      return status_of(
          ncclReduceScatter(data, mine, at[1], type, op, communicator_.get(), stream()),
          "ncclReduceScatter");
    }
    return in_group([&] {
      for (std::size_t root = 0; root + 1 < at.size(); ++root) {
        const std::size_t count = at[root + 1] - at[root];
        if (count == 0) continue;
        std::byte* const segment = data + at[root] * element;
        Status status = status_of(ncclReduce(segment, segment, count, type, op,
                                             static_cast<int>(root), communicator_.get(), stream()),
                                  "ncclReduce");
        if (!status.is_ok()) return status;
      }
      return Status::ok();
    });
  }

  // Applies the postscale after NCCL, which has not done so itself.
  Status scale_result(void* data, std::size_t count, const Reduction& reduction) const {
    if (reduction.postscale == 1.0 || reduction.dtype == DType::kBool) return Status::ok();
    auto* const bytes = static_cast<std::byte*>(data);
    const Transfer in_place{bytes, bytes, count};
    return enqueue_conversion({in_place}, reduction.dtype, reduction.dtype, reduction.postscale,
                              stream());
  }

  // Reduces int16 as int32. The conversion back wraps around exactly where a sum in int16 would.
  std::unique_ptr<Work> allreduce_widened(void* data, std::size_t count,
                                          const Reduction& reduction) {
    if (count == 0) return std::make_unique<Nothing>();
    const auto wide = std::make_shared<std::byte*>(nullptr);
    auto* const narrow = static_cast<std::byte*>(data);
    const auto begin = [this, wide, narrow, count, reduction] {
      void* memory = nullptr;
      Status status = cuda_status(cudaMallocAsync(&memory, count * sizeof(std::int32_t), stream()),
                                  "cudaMallocAsync");
      if (!status.is_ok()) return status;
      *wide = static_cast<std::byte*>(memory);
      status =
          enqueue_conversion({{*wide, narrow, count}}, DType::kInt16, DType::kInt32, 1, stream());
      return status.is_ok() ? call_allreduce(*wide, count, reduction) : status;
    };
    return enqueue(begin, [this, wide, narrow, data, count, reduction] {
      Status status =
          enqueue_conversion({{narrow, *wide, count}}, DType::kInt32, DType::kInt16, 1, stream());
      if (status.is_ok()) status = cuda_status(cudaFreeAsync(*wide, stream()), "cudaFreeAsync");
      return status.is_ok() ? scale_result(data, count, reduction) : status;
    });
  }

  const std::shared_ptr<Streams> streams_;
  const std::shared_ptr<Communicators> communicators_;
  Backend& host_;  // outlives this
  const DeviceCard card_;
  const std::set<OpKind> over_host_;
  OverHost carried_by_host_;
  DeviceMemory memory_;
  Communicator communicator_;
  std::map<std::pair<int, int>, PairOfRanks> pairs_;  // by ranks of the group, the lower one first
  bool prepared_ = false;
  // For an allreduce in stages: NCCL within the node, the host between nodes. Otherwise empty.
  std::unique_ptr<NcclBackend> within_;
  std::unique_ptr<NcclBackend> between_;
  std::optional<Levels> levels_;
};

}  // namespace

std::unique_ptr<DeviceBackend> make_backend(std::shared_ptr<Streams> streams,
                                            std::shared_ptr<Communicators> communicators,
                                            Backend& host, const Options& options) {
  return std::make_unique<NcclBackend>(std::move(streams), std::move(communicators), host, options);
}

}  // namespace kolo::nccl
