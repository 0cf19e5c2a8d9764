// Point-to-point messages between the ranks of one group, non-blocking and in order. The algorithms
// are built on them.
//
// Rules that every transport keeps and the contract tests check:
//  - Messages of one (sender, receiver, tag) are matched in the order in which they were sent.
//  - send() and receive() return at once. The buffer belongs to the transport until poll() says
//    that the ticket is done or failed; a ticket is used up by then.
//  - A receive names the exact number of bytes; a message of another length fails the receive.
//  - Nothing blocks. A lost peer makes tickets fail with StatusCode::kPeerLost.
//  - One thread (the engine) uses a transport; it is not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/status.hpp"

namespace kolo {

using Tag = std::uint32_t;

// Result of one step of an operation.
enum class Progress : std::uint8_t {
  kWaiting,   // nothing moved
  kAdvanced,  // something moved, more to do
  kDone,
  kFailed,  // the Status says why
};

// A message in flight. Only the transport that made the ticket can use it.
struct Ticket {
  std::int32_t request = -1;
  bool pending() const { return request >= 0; }
};

// A message that waits to be received.
struct Arrival {
  int peer = 0;
  std::size_t bytes = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Tags are 0 to max_tag(), messages 0 to 1 GiB long (KOLO_CHUNK_BYTES is at most that).
  virtual Tag max_tag() const = 0;

  // Whether data of messages may lie on a device, as with an MPI that is CUDA-aware.
  virtual bool takes_device_memory() const { return false; }

  // Starts a message. On success `ticket` is pending. peer is another rank of the group.
  virtual Status send(const void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) = 0;
  virtual Status receive(void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) = 0;

  // Returns kWaiting, kDone or kFailed (then `status` says why). Resets the ticket unless kWaiting.
  virtual Progress poll(Ticket& ticket, Status& status) = 0;

  // Returns the rank, in the world, at the other end of a pending message.
  virtual int world_peer(const Ticket& ticket) const = 0;

  // Looks for a message with this tag from any rank that no receive() has taken yet.
  virtual Status probe(Tag tag, std::optional<Arrival>& arrival) = 0;
};

}  // namespace kolo
