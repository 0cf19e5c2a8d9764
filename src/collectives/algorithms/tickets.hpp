// Helpers for messages in flight, which algorithms keep in the order in which they were started.
#pragma once

#include <deque>
#include <optional>

#include "collectives/transport.hpp"

namespace kolo {

// Drops finished messages from the front, and sets `moved` if there were any.
inline Status retire(Transport& transport, std::deque<Ticket>& tickets, bool& moved) {
  while (!tickets.empty()) {
    Status status;
    const Progress progress = transport.poll(tickets.front(), status);
    if (progress == Progress::kWaiting) break;
    tickets.pop_front();
    if (progress == Progress::kFailed) return status;
    moved = true;
  }
  return Status::ok();
}

// Returns the rank, in the world, at the other end of the oldest message in flight, or nothing if
// there is none. An empty message is never sent, so its ticket is not pending and is skipped.
inline std::optional<int> oldest_peer(const Transport& transport,
                                      const std::deque<Ticket>& tickets) {
  for (const Ticket& ticket : tickets) {
    if (ticket.pending()) return transport.world_peer(ticket);
  }
  return std::nullopt;
}

// The same for two directions. A peer whose message is missing comes before one that does not take
// a message.
inline std::optional<int> oldest_peer(const Transport& transport,
                                      const std::deque<Ticket>& receives,
                                      const std::deque<Ticket>& sends) {
  const std::optional<int> sender = oldest_peer(transport, receives);
  return sender ? sender : oldest_peer(transport, sends);
}

}  // namespace kolo
