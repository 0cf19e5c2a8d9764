#include "benchmarks/limit.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "collectives/reduce/combine.hpp"

namespace kolo::bench {
namespace {

// Pieces after which the next one's range may still be in the cache.
constexpr std::size_t kPiece = (512 << 10) / sizeof(float);

class MemoryLimit final : public Contender {
 public:
  MemoryLimit(Group& group, std::size_t elements)
      : group_(group), elements_(elements), window_(group.allocate_window(elements)) {}

  bool possible() const { return !window_->by_rank().empty(); }
  std::string name() const override { return "limit"; }
  void refresh(const Pattern& pattern) override { pattern.fill(mine(), elements_); }

  // Of each piece this rank's share, from all ranks and to all.
  void run() override {
    const auto ranks = static_cast<std::size_t>(group_.size());
    const auto rank = static_cast<std::size_t>(group_.rank());
    for (std::size_t begin = 0; begin < elements_; begin += kPiece) {
      const std::size_t piece = std::min(kPiece, elements_ - begin);
      const std::size_t from = begin + piece * rank / ranks;
      const std::size_t to = begin + piece * (rank + 1) / ranks;
      std::vector<const void*> sources;
      std::vector<Destination> destinations;
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        float* const at = window_->by_rank()[peer] + from;
        sources.push_back(at);
        destinations.push_back({at, peer != rank});
      }
      combine(sources, destinations, to - from, {});
    }
    group_.barrier();
  }

  std::string check(const Pattern& pattern) override {
    const auto difference = pattern.first_difference(mine(), elements_);
    return difference ? describe(*difference, "the tensor", group_.rank()) : "";
  }

 private:
  float* mine() const { return window_->by_rank()[static_cast<std::size_t>(group_.rank())]; }

  Group& group_;  // outlives the benchmark's contenders
  const std::size_t elements_;
  const std::unique_ptr<Group::Window> window_;
};

// With n ranks an allreduce of m bytes sends at least 2 m (n - 1) / n from each on average:
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
class LinkLimit final : public Contender {
 public:
  LinkLimit(Group& group, std::size_t elements)
      : group_(group),
        to_((group.rank() + 1) % group.size()),
        from_((group.rank() + group.size() - 1) % group.size()),
        out_(sent_by_each(elements, static_cast<std::size_t>(group.size()))),
        in_(out_.size()) {}

  std::string name() const override { return "limit"; }
  void refresh(const Pattern& pattern) override {
    pattern.fill(out_.data(), out_.size());
    std::fill(in_.begin(), in_.end(), std::numeric_limits<float>::quiet_NaN());
  }
  void run() override { group_.sendrecv(out_.data(), out_.size(), to_, in_.data(), from_); }
  std::string check(const Pattern& pattern) override {
    const auto difference = pattern.first_difference_from(from_, in_.data(), in_.size());
    return difference ? describe(*difference, "what came", group_.rank()) : "";
  }

 private:
  static std::size_t sent_by_each(std::size_t elements, std::size_t ranks) {
    return (2 * elements * (ranks - 1) + ranks - 1) / ranks;
  }

  Group& group_;  // outlives the benchmark's contenders
  const int to_;
  const int from_;
  std::vector<float> out_;
  std::vector<float> in_;
};

}  // namespace

std::unique_ptr<Contender> make_memory_limit(Group& group, std::size_t elements) {
  auto limit = std::make_unique<MemoryLimit>(group, elements);
  return limit->possible() ? std::move(limit) : nullptr;
}

std::unique_ptr<Contender> make_link_limit(Group& group, std::size_t elements) {
  std::vector<int> own_nodes(static_cast<std::size_t>(group.size()));
  std::iota(own_nodes.begin(), own_nodes.end(), 0);
  if (group.size() == 1 || group.nodes() != own_nodes) return nullptr;
  return std::make_unique<LinkLimit>(group, elements);
}

}  // namespace kolo::bench
