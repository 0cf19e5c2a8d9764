#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/algorithms/folding.hpp"
#include "collectives/algorithms/tickets.hpp"
#include "collectives/reduce/combine.hpp"

namespace kolo {
namespace {

// Maximum number of receives posted ahead, and of sends in flight, as in the ring.
constexpr std::size_t kPiecesAhead = 4;

// Segments begin at multiples of this size.
constexpr std::size_t kLine = 64;

// A range of elements of the data.
struct Segment {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t count() const { return end - begin; }
};

enum class Arriving : std::uint8_t { kReduced, kReducedAndFinished, kReplacing };

// A rank sends one segment to a peer and gets another from it; either may be empty.
struct Exchange {
  int peer = -1;
  Segment out;
  Segment in;
  Arriving arriving = Arriving::kReplacing;
};

// The two halves of a segment. The lower half consists of whole cache lines. It is empty if the
// segment has fewer than two.
struct Halves {
  Segment lower;
  Segment upper;
};
Halves cut(const Segment& segment, std::size_t line_elements) {
  const std::size_t middle = segment.begin + segment.count() / 2 / line_elements * line_elements;
  return {{segment.begin, middle}, {middle, segment.end}};
}

// Plans the exchanges of one rank. For each bit of their places, two partners halve the segment
// that both hold. Each sends the half that the other keeps, and reduces the half that it gets.
// Then, for the bits in reverse order, each sends what it has and gets the other half.
std::deque<Exchange> plan_exchanges(int size, int rank, std::size_t count,
                                    std::size_t line_elements) {
  std::deque<Exchange> plan;
  const Folding folding(size, rank);
  const Segment all{0, count};
  if (folding.gives()) {
    plan.push_back({rank - 1, all, {}, Arriving::kReduced});
    plan.push_back({rank - 1, {}, all, Arriving::kReplacing});
    return plan;
  }
  if (folding.takes()) plan.push_back({rank + 1, {}, all, Arriving::kReduced});
  std::vector<Exchange> way_back;
  Segment held = all;
  for (int bit = 1; bit < folding.places(); bit *= 2) {
    const int peer = folding.rank_at(folding.place() ^ bit);
    const Halves halves = cut(held, line_elements);
    const bool is_lower = (folding.place() & bit) == 0;
    const Segment& kept = is_lower ? halves.lower : halves.upper;
    const Segment& given = is_lower ? halves.upper : halves.lower;
    const bool last = bit * 2 == folding.places();
    plan.push_back({peer, given, kept, last ? Arriving::kReducedAndFinished : Arriving::kReduced});
    way_back.push_back({peer, kept, given, Arriving::kReplacing});
    held = kept;
  }
  plan.insert(plan.end(), way_back.rbegin(), way_back.rend());
  if (folding.takes()) plan.push_back({rank + 1, all, {}, Arriving::kReplacing});
  return plan;
}

// Runs the exchanges one after another: the next begins when all messages of the one before have
// ended. Two ranks meet in the same order on both sides, and cut their data into the same pieces,
// so one tag is enough. The rank that keeps an element in the end finishes its sum. The lower
// rank's operand always comes first, as in recursive doubling.
class HalvingDoubling final : public Work {
 public:
  HalvingDoubling(Transport& transport, Tag tag, void* data, std::size_t count,
                  const Reduction& reduction, std::size_t chunk_bytes)
      : transport_(transport),
        tag_(tag),
        data_(static_cast<std::byte*>(data)),
        count_(count),
        reduction_(reduction),
        element_bytes_(size_of(reduction.dtype)),
        piece_elements_(std::max<std::size_t>(1, chunk_bytes / element_bytes_)) {}

  Status start() override {
    if (transport_.size() == 1) finish(data_, count_, reduction_);
    if (transport_.size() == 1 || count_ == 0) return Status::ok();
    exchanges_ =
        plan_exchanges(transport_.size(), transport_.rank(), count_, kLine / element_bytes_);
    landing_bytes_ = std::min(piece_elements_, count_) * element_bytes_;
    // Not filled with zeros, which would cost as much as a copy.
    const std::size_t pieces = (count_ + piece_elements_ - 1) / piece_elements_;
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(std::min(kPiecesAhead, pieces) *
                                                           landing_bytes_);
    return Status::ok();
  }

  Progress step(Status& status) override {
    if (exchanges_.empty()) return Progress::kDone;
    bool moved = false;
    status = post_receives();
    if (status.is_ok()) status = take_one_piece(moved);
    if (status.is_ok()) status = start_sends(moved);
    if (status.is_ok()) status = retire(transport_, sends_, moved);
    if (!status.is_ok()) return Progress::kFailed;
    const Exchange& exchange = exchanges_.front();
    if (received_ == exchange.in.count() && sent_ == exchange.out.count() && sends_.empty()) {
      exchanges_.pop_front();
      posted_ = received_ = sent_ = 0;
      if (exchanges_.empty()) return Progress::kDone;
      moved = true;
    }
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

  std::optional<int> waits_for() const override {
    return oldest_peer(transport_, receives_, sends_);
  }

 private:
  std::byte* at(const Segment& segment, std::size_t element) const {
    return data_ + (segment.begin + element) * element_bytes_;
  }
  std::size_t piece(const Segment& segment, std::size_t element) const {
    return std::min(piece_elements_, segment.count() - element);
  }

  // Returns where a piece lands: beside the data if it is reduced, otherwise at its place in the
  // data. An exchange never receives into a range that it still sends from.
  std::byte* landing(std::size_t element) const {
    const Exchange& exchange = exchanges_.front();
    if (exchange.arriving == Arriving::kReplacing) return at(exchange.in, element);
    return scratch_.get() + element / piece_elements_ % kPiecesAhead * landing_bytes_;
  }

  Status post_receives() {
    const Exchange& exchange = exchanges_.front();
    while (posted_ < exchange.in.count() && receives_.size() < kPiecesAhead) {
      const std::size_t elements = piece(exchange.in, posted_);
      Status s = transport_.receive(landing(posted_), elements * element_bytes_, exchange.peer,
                                    tag_, receives_.emplace_back());
      if (!s.is_ok()) return s;
      posted_ += elements;
    }
    return Status::ok();
  }

  Status take_one_piece(bool& moved) {
    if (receives_.empty()) return Status::ok();
    Status s;
    const Progress progress = transport_.poll(receives_.front(), s);
    if (progress == Progress::kWaiting || progress == Progress::kFailed) return s;
    receives_.pop_front();
    const Exchange& exchange = exchanges_.front();
    const std::size_t elements = piece(exchange.in, received_);
    if (exchange.arriving != Arriving::kReplacing) reduce(exchange, received_, elements);
    received_ += elements;
    moved = true;
    return s;
  }

  // The lower rank's operand comes first: Min of -0 and +0 depends on the order.
  void reduce(const Exchange& exchange, std::size_t element, std::size_t elements) const {
    std::byte* const own = at(exchange.in, element);
    const std::byte* const others = landing(element);
    const bool own_first = transport_.rank() < exchange.peer;
    const void* const sources[] = {own_first ? own : others, own_first ? others : own};
    const Destination destination[] = {{own}};
    const bool finishes = exchange.arriving == Arriving::kReducedAndFinished;
    combine(sources, destination, elements, finishes ? reduction_ : step_of(reduction_));
  }

  Status start_sends(bool& moved) {
    const Exchange& exchange = exchanges_.front();
    while (sent_ < exchange.out.count() && sends_.size() < kPiecesAhead) {
      const std::size_t elements = piece(exchange.out, sent_);
      Status s = transport_.send(at(exchange.out, sent_), elements * element_bytes_, exchange.peer,
                                 tag_, sends_.emplace_back());
      if (!s.is_ok()) return s;
      sent_ += elements;
      moved = true;
    }
    return Status::ok();
  }

  Transport& transport_;  // outlives every work
  const Tag tag_;
  std::byte* const data_;  // kept alive by the owner of the work
  const std::size_t count_;
  const Reduction reduction_;
  const std::size_t element_bytes_;
  const std::size_t piece_elements_;
  std::unique_ptr<std::byte[]> scratch_;  // kPiecesAhead landings
  std::size_t landing_bytes_ = 0;
  std::deque<Exchange> exchanges_;  // the current one first
  // Elements of the current exchange.
  std::size_t posted_ = 0;    // with a posted receive
  std::size_t received_ = 0;  // received and reduced
  std::size_t sent_ = 0;      // whose sends have started
  std::deque<Ticket> receives_;
  std::deque<Ticket> sends_;
};

}  // namespace

std::unique_ptr<Work> make_halving_doubling_allreduce(Transport& transport, Tag tag, void* data,
                                                      std::size_t count, const Reduction& reduction,
                                                      std::size_t chunk_bytes) {
  return std::make_unique<HalvingDoubling>(transport, tag, data, count, reduction, chunk_bytes);
}

}  // namespace kolo
