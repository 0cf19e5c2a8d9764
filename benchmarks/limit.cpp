#include "benchmarks/limit.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "collectives/reduce/combine.hpp"

namespace kolo::bench {
namespace {

// Pieces after which the next one's range may still be in the cache.
constexpr std::size_t kPiece = (512 << 10) / sizeof(float);

class Limit final : public Contender {
 public:
  Limit(Group& group, std::size_t elements)
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
    if (!difference) return "";
    std::ostringstream text;
    text << "element " << difference->index << " on rank " << group_.rank() << " is "
         << difference->found << ", expected " << difference->expected;
    return text.str();
  }

 private:
  float* mine() const { return window_->by_rank()[static_cast<std::size_t>(group_.rank())]; }

  Group& group_;  // outlives the benchmark's contenders
  const std::size_t elements_;
  const std::unique_ptr<Group::Window> window_;
};

}  // namespace

std::unique_ptr<Contender> make_limit(Group& group, std::size_t elements) {
  auto limit = std::make_unique<Limit>(group, elements);
  return limit->possible() ? std::move(limit) : nullptr;
}

}  // namespace kolo::bench
