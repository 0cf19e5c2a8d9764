#include "collectives/subset/transport.hpp"

#include <algorithm>
#include <utility>

namespace kolo {
namespace {

constexpr Tag kFewestTags = 1024;
constexpr Tag kMostSlots = 1024;

class SubsetTransport final : public Transport {
 public:
  SubsetTransport(Transport& parent, std::vector<int> ranks, Tag first_tag, Tag tags)
      : parent_(parent),
        ranks_(std::move(ranks)),
        index_(static_cast<std::size_t>(parent.size()), -1),
        first_tag_(first_tag),
        tags_(tags) {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      index_[static_cast<std::size_t>(ranks_[i])] = static_cast<int>(i);
  }

  int rank() const override { return index_[static_cast<std::size_t>(parent_.rank())]; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  Tag max_tag() const override { return tags_ - 1; }
  bool takes_device_memory() const override { return parent_.takes_device_memory(); }

  Status send(const void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    return parent_.send(data, bytes, ranks_[static_cast<std::size_t>(peer)], first_tag_ + tag,
                        ticket);
  }
  Status receive(void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    return parent_.receive(data, bytes, ranks_[static_cast<std::size_t>(peer)], first_tag_ + tag,
                           ticket);
  }
  Progress poll(Ticket& ticket, Status& status) override { return parent_.poll(ticket, status); }
  int world_peer(const Ticket& ticket) const override { return parent_.world_peer(ticket); }
  Status probe(Tag tag, std::optional<Arrival>& arrival) override {
    Status status = parent_.probe(first_tag_ + tag, arrival);
    if (arrival) arrival->peer = index_[static_cast<std::size_t>(arrival->peer)];
    return status;
  }

 private:
  Transport& parent_;             // outlives this
  const std::vector<int> ranks_;  // of the parent
  std::vector<int> index_;        // rank in this view, by rank of the parent
  const Tag first_tag_;
  const Tag tags_;
};

}  // namespace

int subset_slots(const Transport& parent) {
  return static_cast<int>(std::clamp<Tag>((parent.max_tag() + 1) / kFewestTags, 1, kMostSlots));
}

std::unique_ptr<Transport> make_subset_transport(Transport& parent, std::vector<int> ranks,
                                                 int slot) {
  const Tag tags = (parent.max_tag() + 1) / static_cast<Tag>(subset_slots(parent));
  return std::make_unique<SubsetTransport>(parent, std::move(ranks), static_cast<Tag>(slot) * tags,
                                           tags);
}

std::unique_ptr<Transport> make_subset_transport(Transport& parent, std::vector<int> ranks) {
  return std::make_unique<SubsetTransport>(parent, std::move(ranks), 0, parent.max_tag() + 1);
}

}  // namespace kolo
