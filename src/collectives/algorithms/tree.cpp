#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/algorithms/tickets.hpp"
#include "collectives/reduce/combine.hpp"

namespace kolo {
namespace {

// Maximum number of messages in flight between two ranks in one direction, and of pieces of a child
// that land ahead of the reduction.
constexpr std::size_t kPiecesAhead = 4;

// The second tree's half begins at a multiple of this size.
constexpr std::size_t kLine = 64;

// A place's neighbours in one tree.
struct Neighbours {
  int parent = -1;  // -1: this is the root
  std::vector<int> children;
};

// Returns the parent of a place: the place with its lowest set bit moved up by one or, if there is
// no such place, without that bit. So 0 is the root, the odd places are leaves, and no path is
// longer than log2(size), rounded up. No place has more than two children.
int parent_of(int place, int size) {
  const int bit = place & -place;
  const int above = (place ^ bit) | (bit << 1);
  return above < size ? above : place ^ bit;
}

Neighbours neighbours_of(int place, int size) {
  Neighbours found;
  if (place != 0) found.parent = parent_of(place, size);
  const int bit =
      place != 0 ? place & -place : static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)));
  for (int distance = bit / 2; distance > 0; distance /= 2) {
    for (const int child : {place - distance, place + distance}) {
      if (child > 0 && child < size && parent_of(child, size) == place)
        found.children.push_back(child);
    }
  }
  return found;
}

// Returns a rank's neighbours in one of two trees. Only rank 0, and only if n is odd, has children
// in both: in the second tree the ranks take their places in reverse order or, if n is odd, shifted
// by one. Sanders, Speck and Träff, 2009.
Neighbours in_tree(std::size_t tree, int rank, int size) {
  const auto renumber = [&](int from, int by) {
    if (tree == 0) return from;
    return size % 2 == 0 ? size - 1 - from : (from + by + size) % size;
  };
  Neighbours found = neighbours_of(renumber(rank, -1), size);
  if (found.parent >= 0) found.parent = renumber(found.parent, 1);
  for (int& child : found.children) child = renumber(child, 1);
  return found;
}

enum class Direction : std::uint8_t { kUp, kDown };

// A piece on its way through a tree: up to be reduced, or down once it is reduced.
struct Message {
  Direction direction = Direction::kUp;
  std::size_t piece = 0;
  std::size_t tree = 0;
  auto operator<=>(const Message&) const = default;
};

// All messages from one rank to another, in the order of <=>: those that go up, by piece, then
// those that go down. Both ranks derive this order from the plan alone, so one tag is enough even
// if the two ranks are neighbours in both trees. There is no circular wait: a message that goes up
// needs only other messages that go up, of no higher piece and, in the same tree, from further
// below. A message that goes down needs messages that go up and, likewise, messages that go down
// from further above. The order costs little: of two ranks that are each other's parent, the one
// that sends up is a leaf in that tree.
struct Lane {
  Lane(int other, bool outgoing) : peer(other), sends(outgoing) {}

  const int peer;
  const bool sends;
  std::vector<Message> streams;  // the next message of each stream
  std::deque<Message> messages;  // in flight
  std::deque<Ticket> tickets;    // of `messages`
};

// A rank's place in one tree, and the progress of that tree's half of the data.
struct Tree {
  Neighbours at;
  std::size_t begin = 0;  // in elements
  std::size_t end = 0;
  std::size_t pieces = 0;
  std::unique_ptr<std::byte[]> landings;  // places() for each child
  std::vector<std::size_t> landed;        // pieces that have come from each child
  std::size_t reduced = 0;                // pieces that hold all values from here down
  std::size_t given = 0;                  // pieces sent up, which may be received again
  std::size_t complete = 0;               // pieces with the result
};

// Halves the data. Each tree reduces one half to its root and sends the result back down, in
// pieces. An inner rank reduces a piece once all children have sent it: its own values first, then
// the children's in a fixed order.
class DoubleTree final : public Work {
 public:
  DoubleTree(Transport& transport, Tag tag, void* data, std::size_t count,
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
    if (transport_.size() == 1) return Status::ok();
    const std::size_t line = kLine / element_bytes_;
    const std::size_t middle = count_ / 2 / line * line;
    plan_tree(0, 0, middle);
    plan_tree(1, middle, count_);
    return Status::ok();
  }

  Progress step(Status& status) override {
    bool moved = false;
    for (Tree& tree : trees_) reduce_one_piece(tree, moved);
    bool done = true;
    for (Lane& lane : lanes_) {
      status = end_messages(lane, moved);
      if (status.is_ok()) status = start_messages(lane, moved);
      if (!status.is_ok()) return Progress::kFailed;
      done = done && lane.tickets.empty() && next_of(lane) == nullptr;
    }
    if (done) return Progress::kDone;
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

  // A rank may wait for several peers; this names one. Missing messages from children come first,
  // because messages that go up never wait for messages that go down.
  std::optional<int> waits_for() const override {
    std::optional<int> receiver;
    std::optional<int> parent;
    for (const Lane& lane : lanes_) {
      const std::optional<int> peer = oldest_peer(transport_, lane.tickets);
      if (!peer) continue;
      if (lane.sends) {
        receiver = peer;
      } else if (lane.messages.front().direction == Direction::kUp) {
        return peer;
      } else {
        parent = peer;
      }
    }
    return parent ? parent : receiver;
  }

 private:
  void plan_tree(std::size_t index, std::size_t begin, std::size_t end) {
    Tree& tree = trees_[index];
    tree.at = in_tree(index, transport_.rank(), transport_.size());
    tree.begin = begin;
    tree.end = end;
    tree.pieces = (end - begin + piece_elements_ - 1) / piece_elements_;
    const std::size_t children = tree.at.children.size();
    tree.landed.resize(children);
    if (children == 0) tree.reduced = tree.pieces;
    // Not filled with zeros, which would cost as much as a copy.
    tree.landings =
        std::make_unique_for_overwrite<std::byte[]>(children * places(tree) * landing_bytes(tree));
    if (tree.at.parent >= 0) plan_streams(index, tree.at.parent, Direction::kUp);
    for (const int child : tree.at.children) plan_streams(index, child, Direction::kDown);
  }

  // Plans what this rank sends to a neighbour, and what it receives from it.
  void plan_streams(std::size_t tree, int peer, Direction sent) {
    const Direction received = sent == Direction::kUp ? Direction::kDown : Direction::kUp;
    lane(peer, true).streams.push_back({sent, 0, tree});
    lane(peer, false).streams.push_back({received, 0, tree});
  }

  Lane& lane(int peer, bool sends) {
    for (Lane& lane : lanes_) {
      if (lane.peer == peer && lane.sends == sends) return lane;
    }
    return lanes_.emplace_back(peer, sends);
  }

  std::size_t elements(const Tree& tree, std::size_t piece) const {
    return std::min(piece_elements_, tree.end - tree.begin - piece * piece_elements_);
  }
  static std::size_t places(const Tree& tree) { return std::min(kPiecesAhead, tree.pieces); }

  std::size_t landing_bytes(const Tree& tree) const {
    return std::min(piece_elements_, tree.end - tree.begin) * element_bytes_;
  }
  std::byte* own(const Tree& tree, std::size_t piece) const {
    return data_ + (tree.begin + piece * piece_elements_) * element_bytes_;
  }
  std::byte* landing(const Tree& tree, std::size_t child, std::size_t piece) const {
    return tree.landings.get() +
           (child * places(tree) + piece % kPiecesAhead) * landing_bytes(tree);
  }
  static std::size_t child_index(const Tree& tree, int rank) {
    const auto& children = tree.at.children;
    return static_cast<std::size_t>(std::find(children.begin(), children.end(), rank) -
                                    children.begin());
  }

  void reduce_one_piece(Tree& tree, bool& moved) {
    const std::size_t piece = tree.reduced;
    if (piece == tree.pieces) return;
    const std::size_t children = tree.landed.size();
    std::array<const void*, 3> sources = {own(tree, piece)};
    for (std::size_t child = 0; child < children; ++child) {
      if (tree.landed[child] == piece) return;
      sources[1 + child] = landing(tree, child, piece);
    }
    const bool is_root = tree.at.parent < 0;
    const Destination destination[] = {{own(tree, piece)}};
    combine(std::span(sources).first(1 + children), destination, elements(tree, piece),
            is_root ? reduction_ : step_of(reduction_));
    ++tree.reduced;
    if (is_root) ++tree.complete;
    moved = true;
  }

  // Returns the lane's next message, or null if all have been started.
  Message* next_of(Lane& lane) const {
    Message* next = nullptr;
    for (Message& message : lane.streams) {
      if (message.piece == trees_[message.tree].pieces) continue;
      if (next == nullptr || message < *next) next = &message;
    }
    return next;
  }

  // Whether a message to send has its data, or the destination of a message to receive is free.
  bool ready(const Lane& lane, const Message& message) const {
    const Tree& tree = trees_[message.tree];
    const bool up = message.direction == Direction::kUp;
    if (lane.sends) return message.piece < (up ? tree.reduced : tree.complete);
    return message.piece < (up ? tree.reduced + kPiecesAhead : tree.given);
  }

  std::byte* place(const Lane& lane, const Message& message) const {
    const Tree& tree = trees_[message.tree];
    if (lane.sends || message.direction == Direction::kDown) return own(tree, message.piece);
    return landing(tree, child_index(tree, lane.peer), message.piece);
  }

  Status start_messages(Lane& lane, bool& moved) {
    while (lane.tickets.size() < kPiecesAhead) {
      Message* const next = next_of(lane);
      if (next == nullptr || !ready(lane, *next)) break;
      std::byte* const data = place(lane, *next);
      const std::size_t bytes = elements(trees_[next->tree], next->piece) * element_bytes_;
      Ticket& ticket = lane.tickets.emplace_back();
      Status s = lane.sends ? transport_.send(data, bytes, lane.peer, tag_, ticket)
                            : transport_.receive(data, bytes, lane.peer, tag_, ticket);
      if (!s.is_ok()) return s;
      lane.messages.push_back(*next);
      ++next->piece;
      moved = moved || lane.sends;
    }
    return Status::ok();
  }

  Status end_messages(Lane& lane, bool& moved) {
    Status status = retire(transport_, lane.tickets, moved);
    for (; lane.messages.size() > lane.tickets.size(); lane.messages.pop_front()) {
      const Message& message = lane.messages.front();
      Tree& tree = trees_[message.tree];
      const bool up = message.direction == Direction::kUp;
      if (lane.sends && up) ++tree.given;
      if (!lane.sends && up) ++tree.landed[child_index(tree, lane.peer)];
      if (!lane.sends && !up) ++tree.complete;
    }
    return status;
  }

  Transport& transport_;  // outlives every work
  const Tag tag_;
  std::byte* const data_;  // kept alive by the owner of the work
  const std::size_t count_;
  const Reduction reduction_;
  const std::size_t element_bytes_;
  const std::size_t piece_elements_;
  std::array<Tree, 2> trees_;
  std::deque<Lane> lanes_;
};

}  // namespace

std::unique_ptr<Work> make_tree_allreduce(Transport& transport, Tag tag, void* data,
                                          std::size_t count, const Reduction& reduction,
                                          std::size_t chunk_bytes) {
  return std::make_unique<DoubleTree>(transport, tag, data, count, reduction, chunk_bytes);
}

}  // namespace kolo
