#include "delivery/peer.hpp"

#include <sys/socket.h>

#include <span>
#include <utility>
#include <vector>

#include "delivery/places.hpp"

namespace kolo::delivery {
namespace {

// Limits for a process that connects but may not belong to the job.
constexpr std::uint32_t kMostHelloBytes = 1024;
constexpr double kHelloSeconds = 10;

}  // namespace

Peer::Peer(Connection connection)
    : connection_(std::move(connection)), is_local_(connection_.is_local()) {}

Peer::~Peer() {
  close();
  if (sender_.joinable()) sender_.join();
}

bool Peer::shake_hands(const std::string& token, const Welcome& welcome) {
  connection_.limit_receiving(kHelloSeconds);
  const Frame frame = connection_.receive(kMostHelloBytes);
  const std::optional<Hello> hello = decode<Hello>(frame.body);
  if (frame.head.kind != FrameKind::kHello || !hello || hello->token != token) return false;
  rank_ = hello->rank;
  connection_.limit_receiving(0);
  connection_.send(FrameKind::kWelcome, 0, encode(welcome));
  sender_ = std::thread([this] { send_all(); });
  return true;
}

void Peer::send(std::uint64_t id, Parcel parcel) {
  Outgoing outgoing;
  outgoing.kind = FrameKind::kBatch;
  outgoing.id = id;
  outgoing.places = place(parcel);
  Slots::Taken slot;
  // Without shared memory, the batch goes through the socket.
  if (is_local_ && slots_.take(static_cast<std::size_t>(outgoing.places.size), slot).is_ok()) {
    copy_to(parcel, outgoing.places, slot.memory);
    outgoing.places.slot = slot.number;
    outgoing.descriptor = slot.descriptor;
  } else {
    outgoing.parcel = std::move(parcel);
  }
  outgoing.body = encode(outgoing.places);
  queue(std::move(outgoing));
}

void Peer::send_error(std::uint64_t id, const std::string& message) {
  Outgoing outgoing;
  outgoing.id = id;
  outgoing.body = encode(Failure{message});
  queue(std::move(outgoing));
}

void Peer::queue(Outgoing outgoing) {
  {
    const MutexLock lock(mutex_);
    if (is_closed_) return;
    outbox_.push_back(std::move(outgoing));
  }
  changed_.notify_one();
}

std::optional<Peer::Outgoing> Peer::wait_for_outgoing() {
  const MutexLock lock(mutex_);
  while (outbox_.empty() && !is_closed_) changed_.wait(mutex_);
  if (is_closed_) return std::nullopt;
  Outgoing outgoing = std::move(outbox_.front());
  outbox_.pop_front();
  return outgoing;
}

void Peer::send_all() {
  while (const std::optional<Outgoing> outgoing = wait_for_outgoing()) {
    try {
      std::vector<std::span<const std::byte>> payload;
      if (outgoing->kind == FrameKind::kBatch && outgoing->places.slot == 0)
        payload = payload_of(outgoing->parcel, outgoing->places);
      connection_.send(outgoing->kind, outgoing->id, outgoing->body, payload, outgoing->descriptor);
      if (outgoing->descriptor >= 0) slots_.sent(outgoing->places.slot, outgoing->descriptor);
    } catch (const ConnectionLost&) {
      close();
    }
  }
}

void Peer::close() noexcept {
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    outbox_.clear();
  }
  connection_.close_both();
  changed_.notify_all();
}

}  // namespace kolo::delivery
