#include "collectives/hierarchy/backend.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/messages/backend.hpp"
#include "collectives/subset/transport.hpp"
#include "core/ranks.hpp"

namespace kolo {
namespace {

// Smallest slice, in bytes, that is worth a message of its own between nodes.
constexpr std::size_t kSmallestSlice = 8 << 10;

class HierarchicalAllreduce final : public Work {
 public:
  HierarchicalAllreduce(const Levels& levels, Turn turn, void* data, std::size_t count,
                        const Reduction& reduction)
      : levels_(levels),
        turn_(turn),
        data_(static_cast<std::byte*>(data)),
        count_(count),
        element_(size_of(reduction.dtype)),
        reduction_(reduction),
        chunks_((count * element_ + levels.chunk - 1) / levels.chunk) {}

  Status start() override { return Status::ok(); }

  Progress step(Status& status) override {
    bool moved = false;
    for (const auto stage :
         {&HierarchicalAllreduce::step_local, &HierarchicalAllreduce::step_cross}) {
      const Progress progress = (this->*stage)(status);
      if (progress == Progress::kFailed) return progress;
      moved = moved || progress == Progress::kAdvanced;
    }
    if (gathered_ == chunks_) return Progress::kDone;
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

  std::optional<int> waits_for() const override {
    const std::optional<int> local = local_ == nullptr ? std::nullopt : local_->waits_for();
    return local || cross_ == nullptr ? local : cross_->waits_for();
  }

 private:
  // Whether a work within the node is an all-gather. The works are reduce-scatters, each but the
  // first followed by the all-gather of the chunk before, and then the last all-gather.
  bool is_gather(std::size_t work) const {
    return work == 2 * chunks_ - 1 || (work > 0 && work % 2 == 0);
  }

  Progress step_local(Status& status) {
    if (gathered_ == chunks_) return Progress::kWaiting;
    const std::size_t work = reduced_ + gathered_;
    const bool gathers = is_gather(work);
    if (gathers && crossed_ <= gathered_) return Progress::kWaiting;
    if (local_ == nullptr && levels_.local != nullptr) {
      local_ = gathers ? make_gather(work, gathered_) : make_reducescatter(work, reduced_);
      status = local_->start();
      if (!status.is_ok()) return Progress::kFailed;
    }
    const Progress progress = local_ == nullptr ? Progress::kDone : local_->step(status);
    if (progress != Progress::kDone) return progress;
    local_.reset();
    ++(gathers ? gathered_ : reduced_);
    return Progress::kAdvanced;
  }

  Progress step_cross(Status& status) {
    if (crossed_ == reduced_) return Progress::kWaiting;
    if (cross_ == nullptr) {
      const std::vector<std::size_t> slices = slices_of(crossed_);
      const auto mine = static_cast<std::size_t>(levels_.local_rank);
      const std::size_t count = slices[mine + 1] - slices[mine];
      if (levels_.cross == nullptr || count == 0) {
        ++crossed_;
        return Progress::kAdvanced;
      }
      cross_ = levels_.cross->make(
          turn_, collective::Allreduce{at(crossed_) + slices[mine] * element_, count, reduction_});
      status = cross_->start();
      if (!status.is_ok()) return Progress::kFailed;
    }
    const Progress progress = cross_->step(status);
    if (progress != Progress::kDone) return progress;
    cross_.reset();
    ++crossed_;
    return Progress::kAdvanced;
  }

  std::unique_ptr<Work> make_reducescatter(std::size_t work, std::size_t chunk) const {
    Reduction reduction = reduction_;
    if (reduction.op == ReduceOp::Average) reduction.op = ReduceOp::Sum;
    reduction.divisor = 1;
    reduction.postscale = 1.0;
    return levels_.local->make(turn_of(work),
                               collective::Reducescatter{at(chunk), slices_of(chunk), reduction});
  }

  std::unique_ptr<Work> make_gather(std::size_t work, std::size_t chunk) const {
    std::vector<std::size_t> slices = slices_of(chunk);
    for (std::size_t& boundary : slices) boundary *= element_;
    return levels_.local->make(turn_of(work), collective::Allgather{at(chunk), std::move(slices)});
  }

  // Returns the turn of a work, with a part of its own. Two works that follow each other, also in
  // different parts of the decision, must not have the same stamp, which holds 8 bits of the part.
  // (The last work of a part is odd, the first one even.)
  Turn turn_of(std::size_t work) const {
    return {turn_.sequence, turn_.part * 64 + static_cast<std::uint32_t>(work % 64)};
  }

  std::byte* at(std::size_t chunk) const { return data_ + chunk * levels_.chunk; }

  // Returns the boundaries of the slices of a chunk, in elements, by local rank.
  std::vector<std::size_t> slices_of(std::size_t chunk) const {
    const std::size_t whole = levels_.chunk / element_;
    const std::size_t count = std::min(whole, count_ - chunk * whole);
    const auto most = static_cast<std::size_t>(levels_.slices);
    const std::size_t slices = std::clamp<std::size_t>(count * element_ / kSmallestSlice, 1, most);
    const int ranks = levels_.local == nullptr ? 1 : levels_.local->size();
    const std::size_t line = 64 / element_;
    std::vector<std::size_t> boundaries;
    for (std::size_t i = 0; i <= static_cast<std::size_t>(ranks); ++i) {
      const std::size_t cut = count * std::min(i, slices) / slices;
      boundaries.push_back(i >= slices ? count : cut / line * line);
    }
    return boundaries;
  }

  const Levels levels_;
  const Turn turn_;
  std::byte* const data_;  // kept alive by the owner of the work
  const std::size_t count_;
  const std::size_t element_;
  const Reduction reduction_;
  const std::size_t chunks_;
  std::unique_ptr<Work> local_;
  std::unique_ptr<Work> cross_;
  // Chunks that have passed each stage.
  std::size_t reduced_ = 0;
  std::size_t crossed_ = 0;
  std::size_t gathered_ = 0;
};

class HierarchicalBackend final : public Backend {
 public:
  HierarchicalBackend(const Hierarchy& hierarchy, Transport& transport, Tag first_tag,
                      const Tuning& tuning, std::unique_ptr<Backend> local,
                      std::unique_ptr<Backend> messages)
      : local_(std::move(local)), messages_(std::move(messages)) {
    levels_.local = local_.get();
    levels_.local_rank = hierarchy.local_rank;
    levels_.slices = hierarchy.slices;
    if (hierarchy.cross.empty()) return;
    cross_transport_ = make_subset_transport(transport, hierarchy.cross);
    cross_ = make_message_backend(*cross_transport_, first_tag, tuning);
    levels_.cross = cross_.get();
  }

  int rank() const override { return messages_->rank(); }
  int size() const override { return messages_->size(); }

  std::unique_ptr<Work> make(Turn turn, Collective collective) override {
    const auto* const one = std::get_if<collective::Allreduce>(&collective);
    if (one == nullptr || one->reduction.op == ReduceOp::Adasum)
      return messages_->make(turn, std::move(collective));
    return make_hierarchical_allreduce(levels_, turn, one->data, one->count, one->reduction);
  }
  Scaling scaling_of(OpKind kind, const Reduction& reduction) const override {
    return messages_->scaling_of(kind, reduction);
  }
  const Levels* levels() const override { return &levels_; }
  Medium medium(OpKind kind, ReduceOp op) const override {
    const bool in_stages = kind == OpKind::kAllreduce && op != ReduceOp::Adasum;
    return in_stages ? Medium::kStaged : Medium::kMpi;
  }
  bool takes_device_memory(OpKind kind) const override {
    return messages_->takes_device_memory(kind);
  }

  std::shared_ptr<std::byte[]> make_buffer(std::size_t bytes) override {
    return local_ == nullptr ? Backend::make_buffer(bytes) : local_->make_buffer(bytes);
  }

 private:
  const std::unique_ptr<Backend> local_;
  const std::unique_ptr<Backend> messages_;
  std::unique_ptr<Transport> cross_transport_;
  std::unique_ptr<Backend> cross_;
  Levels levels_;
};

}  // namespace

std::unique_ptr<Work> make_hierarchical_allreduce(const Levels& levels, Turn turn, void* data,
                                                  std::size_t count, const Reduction& reduction) {
  return std::make_unique<HierarchicalAllreduce>(levels, turn, data, count, reduction);
}

std::optional<Hierarchy> find_hierarchy(const std::vector<int>& nodes, int rank) {
  std::map<int, std::vector<int>> members;
  for (std::size_t i = 0; i < nodes.size(); ++i) members[nodes[i]].push_back(static_cast<int>(i));
  if (members.size() < 2 || members.size() == nodes.size()) return std::nullopt;
  Hierarchy hierarchy;
  hierarchy.local = members.at(nodes[static_cast<std::size_t>(rank)]);
  hierarchy.local_rank = index_of(hierarchy.local, rank);
  std::size_t smallest = nodes.size();
  for (const auto& [node, ranks] : members) smallest = std::min(smallest, ranks.size());
  hierarchy.slices = static_cast<int>(smallest);
  if (hierarchy.local_rank >= hierarchy.slices) return hierarchy;
  for (const auto& [node, ranks] : members)
    hierarchy.cross.push_back(ranks[static_cast<std::size_t>(hierarchy.local_rank)]);
  return hierarchy;
}

std::unique_ptr<Backend> make_hierarchical_backend(const Hierarchy& hierarchy, Transport& transport,
                                                   Tag first_tag, const Tuning& tuning,
                                                   std::unique_ptr<Backend> local,
                                                   std::unique_ptr<Backend> messages) {
  return std::make_unique<HierarchicalBackend>(hierarchy, transport, first_tag, tuning,
                                               std::move(local), std::move(messages));
}

}  // namespace kolo
