#include "collectives/messages/control_channel.hpp"

#include <deque>
#include <utility>

namespace kolo {
namespace {

class MessageControlChannel final : public ControlChannel {
 public:
  explicit MessageControlChannel(Transport& transport) : transport_(transport) {}

  int rank() const override { return transport_.rank(); }
  int size() const override { return transport_.size(); }

  Status send(const Bytes& message) override {
    const auto bytes = std::make_shared<const Bytes>(message);
    if (rank() != 0) return send_to(0, bytes, kReportTag);
    Status first;
    for (int peer = 1; peer < size(); ++peer) {
      Status status = send_to(peer, bytes, kDecisionTag);
      if (first.is_ok()) first = std::move(status);
    }
    return first;
  }

  Status receive(std::optional<Message>& message) override {
    message.reset();
    if (Status s = find_arrivals(); !s.is_ok() || inbox_.empty()) return s;
    Status status;
    Incoming& first = inbox_.front();
    const Progress progress = transport_.poll(first.ticket, status);
    if (progress == Progress::kWaiting) return Status::ok();
    if (progress == Progress::kFailed) return status;
    message = std::move(first.message);
    inbox_.pop_front();
    return Status::ok();
  }

  Status advance(bool& moved) override {
    while (!outbox_.empty()) {
      Status status;
      const Progress progress = transport_.poll(outbox_.front().ticket, status);
      if (progress == Progress::kWaiting) break;
      if (progress == Progress::kFailed) return status;
      outbox_.pop_front();
      moved = true;
    }
    return Status::ok();
  }

  bool sending() const override { return !outbox_.empty(); }

 private:
  struct Outgoing {
    std::shared_ptr<const Bytes> bytes;
    Ticket ticket;
  };
  struct Incoming {
    Message message;
    Ticket ticket;
  };

  Status send_to(int peer, const std::shared_ptr<const Bytes>& bytes, Tag tag) {
    Outgoing& message = outbox_.emplace_back(Outgoing{bytes, {}});
    Status status = transport_.send(bytes->data(), bytes->size(), peer, tag, message.ticket);
    if (!status.is_ok()) outbox_.pop_back();
    return status;
  }

  Status find_arrivals() {
    if (size() == 1) return Status::ok();
    const Tag tag = rank() == 0 ? kReportTag : kDecisionTag;
    while (true) {
      std::optional<Arrival> arrival;
      if (Status s = transport_.probe(tag, arrival); !s.is_ok() || !arrival) return s;
      Incoming& incoming = inbox_.emplace_back();
      incoming.message.from = arrival->peer;
      incoming.message.bytes.resize(arrival->bytes);
      Status s = transport_.receive(incoming.message.bytes.data(), arrival->bytes, arrival->peer,
                                    tag, incoming.ticket);
      if (!s.is_ok()) return s;
    }
  }

  Transport& transport_;  // outlives this
  std::deque<Outgoing> outbox_;
  std::deque<Incoming> inbox_;  // messages that are being received, in order
};

}  // namespace

std::unique_ptr<ControlChannel> make_message_control_channel(Transport& transport) {
  return std::make_unique<MessageControlChannel>(transport);
}

}  // namespace kolo
