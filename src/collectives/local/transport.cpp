#include "collectives/local/transport.hpp"

#include <cstring>
#include <deque>
#include <map>
#include <string>

#include "core/thread_annotations.hpp"

namespace kolo {
namespace {

// Small messages are copied when they are sent ("eager"), as MPI does. The receiver copies a larger
// one from the sender's buffer, so that tests meet sends that stay pending.
constexpr std::size_t kEagerBytes = 256;

struct Message {
  const void* data = nullptr;
  std::vector<std::byte> eager;  // holds the bytes of a small message
  std::size_t bytes = 0;
  bool taken = false;  // copied by the receiver
};

}  // namespace

// State that the transports of a group share.
class LocalHub {
 public:
  explicit LocalHub(int size) : size_(size), alive_(size, true) {}

  int size() const { return size_; }

  std::shared_ptr<Message> post(int from, int to, Tag tag, const void* data, std::size_t bytes) {
    auto message = std::make_shared<Message>();
    message->bytes = bytes;
    message->data = data;
    if (bytes <= kEagerBytes) {
      const auto* first = static_cast<const std::byte*>(data);
      message->eager.assign(first, first + bytes);
      message->data = message->eager.data();
    }
    MutexLock lock(mutex_);
    queues_[{from, to, tag}].push_back(message);
    return message;
  }

  bool taken(const Message& message) {
    MutexLock lock(mutex_);
    return message.taken;
  }

  // Takes the next message of this channel. Returns null if none has arrived. The caller copies the
  // message and then calls release().
  std::shared_ptr<Message> take(int from, int to, Tag tag) {
    MutexLock lock(mutex_);
    auto found = queues_.find({from, to, tag});
    if (found == queues_.end()) return nullptr;
    std::shared_ptr<Message> message = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) queues_.erase(found);
    return message;
  }

  void release(Message& message) {
    MutexLock lock(mutex_);
    message.taken = true;
  }

  // Returns the size of the first message of this channel after the first `skip` ones.
  std::optional<std::size_t> peek(int from, int to, Tag tag, std::size_t skip) {
    MutexLock lock(mutex_);
    const auto found = queues_.find({from, to, tag});
    if (found == queues_.end() || found->second.size() <= skip) return std::nullopt;
    return found->second[skip]->bytes;
  }

  void kill(int rank) {
    MutexLock lock(mutex_);
    alive_[rank] = false;
  }

  bool alive(int rank) {
    MutexLock lock(mutex_);
    return alive_[rank];
  }

 private:
  struct Channel {
    int from, to;
    Tag tag;
    auto operator<=>(const Channel&) const = default;
  };

  const int size_;
  Mutex mutex_;
  std::map<Channel, std::deque<std::shared_ptr<Message>>> queues_ KOLO_GUARDED_BY(mutex_);
  std::vector<bool> alive_ KOLO_GUARDED_BY(mutex_);
};

namespace {

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  Tag max_tag() const override { return (Tag{1} << 20) - 1; }

  Status send(const void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    if (!hub_->alive(peer)) return lost(peer);
    Operation operation;
    operation.message = hub_->post(rank_, peer, tag, data, bytes);
    operation.peer = peer;
    operation.eager = bytes <= kEagerBytes;
    ticket.request = store(std::move(operation));
    return Status::ok();
  }

  Status receive(void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    Operation operation;
    operation.into = data;
    operation.bytes = bytes;
    operation.peer = peer;
    operation.tag = tag;
    ticket.request = store(std::move(operation));
    posted_[{peer, tag}].push_back(ticket.request);
    return Status::ok();
  }

  Progress poll(Ticket& ticket, Status& status) override {
    Operation& operation = operations_[ticket.request];
    const Progress progress =
        operation.message ? poll_send(operation, status) : poll_receive(ticket.request, status);
    if (progress == Progress::kWaiting) return progress;
    operation = Operation{};
    free_.push_back(ticket.request);
    ticket.request = -1;
    return progress;
  }

  int world_peer(const Ticket& ticket) const override { return operations_[ticket.request].peer; }

  Status probe(Tag tag, std::optional<Arrival>& arrival) override {
    arrival.reset();
    for (int peer = 0; peer < size() && !arrival; ++peer) {
      const auto posted = posted_.find({peer, tag});
      const std::size_t taken = posted == posted_.end() ? 0 : posted->second.size();
      const std::optional<std::size_t> bytes = hub_->peek(peer, rank_, tag, taken);
      if (bytes) arrival = Arrival{peer, *bytes};
    }
    return Status::ok();
  }

  LocalHub& hub() { return *hub_; }

 private:
  struct Operation {
    std::shared_ptr<Message> message;  // of a send
    bool eager = false;
    void* into = nullptr;  // of a receive
    std::size_t bytes = 0;
    int peer = -1;
    Tag tag = 0;
  };

  struct Source {
    int peer;
    Tag tag;
    auto operator<=>(const Source&) const = default;
  };

  static Status lost(int peer) {
    return Status::peer_lost("rank " + std::to_string(peer) + " of the local group is gone");
  }

  int store(Operation operation) {
    if (free_.empty()) {
      operations_.push_back(std::move(operation));
      return static_cast<int>(operations_.size()) - 1;
    }
    const int index = free_.back();
    free_.pop_back();
    operations_[index] = std::move(operation);
    return index;
  }

  Progress poll_send(Operation& operation, Status& status) {
    const bool alive = hub_->alive(operation.peer);  // first: what it took before it died counts
    if (operation.eager || hub_->taken(*operation.message)) return Progress::kDone;
    if (alive) return Progress::kWaiting;
    status = lost(operation.peer);
    return Progress::kFailed;
  }

  // Receives of one channel are served in the order in which they were posted.
  Progress poll_receive(int index, Status& status) {
    Operation& operation = operations_[index];
    auto& waiting = posted_[{operation.peer, operation.tag}];
    if (waiting.front() != index) return Progress::kWaiting;
    const bool alive = hub_->alive(operation.peer);  // first: what it sent before it died counts
    std::shared_ptr<Message> message = hub_->take(operation.peer, rank_, operation.tag);
    if (!message) {
      if (alive) return Progress::kWaiting;
      status = lost(operation.peer);
    } else if (message->bytes != operation.bytes) {
      status = Status::internal("rank " + std::to_string(rank_) + " expected " +
                                std::to_string(operation.bytes) + " bytes from rank " +
                                std::to_string(operation.peer) + " and got " +
                                std::to_string(message->bytes));
    } else if (message->bytes > 0) {
      std::memcpy(operation.into, message->data, message->bytes);
    }
    waiting.pop_front();
    if (waiting.empty()) posted_.erase({operation.peer, operation.tag});
    if (message) hub_->release(*message);
    return status.is_ok() ? Progress::kDone : Progress::kFailed;
  }

  const std::shared_ptr<LocalHub> hub_;
  const int rank_;
  std::deque<Operation> operations_;
  std::vector<int> free_;
  std::map<Source, std::deque<int>> posted_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(int size) {
  auto hub = std::make_shared<LocalHub>(size);
  std::vector<std::unique_ptr<Transport>> transports;
  transports.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    transports.push_back(std::make_unique<LocalTransport>(hub, rank));
  }
  return transports;
}

void kill_local_rank(Transport& any_of_the_group, int rank) {
  static_cast<LocalTransport&>(any_of_the_group).hub().kill(rank);
}

}  // namespace kolo
