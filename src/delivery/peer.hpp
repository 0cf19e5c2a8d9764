// The server's side of a connection to a training rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/thread_annotations.hpp"
#include "delivery/connection.hpp"
#include "delivery/message.hpp"
#include "delivery/parcel.hpp"
#include "delivery/slots.hpp"

namespace kolo::delivery {

// Sends in its own thread, so that a slow rank does not delay others. Any thread may call.
class Peer {
 public:
  explicit Peer(Connection connection);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Waits for the rank's hello. Returns false if it does not belong to this job. Called once,
  // first.
  bool shake_hands(const std::string& token, const Welcome& welcome);
  std::uint32_t rank() const { return rank_; }

  // Only one thread may call. Throws ConnectionLost.
  Frame receive() const { return connection_.receive(); }
  void release(std::uint32_t slot) { slots_.release(slot); }

  // Queue an answer. It is dropped if the rank is gone.
  void send(std::uint64_t id, Parcel parcel);
  void send_error(std::uint64_t id, const std::string& message);

  // Ends the connection, so that receive() throws.
  void close() noexcept;
  // Called when the receiving thread has ended.
  void set_ended() { has_ended_ = true; }
  bool has_ended() const { return has_ended_; }

 private:
  struct Outgoing {
    FrameKind kind = FrameKind::kError;
    std::uint64_t id = 0;
    Bytes body;
    BatchPlaces places;  // of a batch
    Parcel parcel;       // the payload, if it is not in a slot
    int descriptor = -1;
  };

  void queue(Outgoing outgoing) KOLO_EXCLUDES(mutex_);
  std::optional<Outgoing> wait_for_outgoing() KOLO_EXCLUDES(mutex_);
  void send_all();

  Connection connection_;
  const bool is_local_;
  std::uint32_t rank_ = 0;  // constant after shake_hands()
  Slots slots_;
  std::atomic<bool> has_ended_{false};

  Mutex mutex_;
  CondVar changed_;
  std::deque<Outgoing> outbox_ KOLO_GUARDED_BY(mutex_);
  bool is_closed_ KOLO_GUARDED_BY(mutex_) = false;

  std::thread sender_;  // used only by the owner's thread
};

}  // namespace kolo::delivery
