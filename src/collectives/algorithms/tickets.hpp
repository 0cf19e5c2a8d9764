// Messages under way that end in the order in which they were started, as algorithms keep them.
#pragma once

#include <deque>

#include "collectives/transport.hpp"

namespace kolo {

// Drops the messages that are done from the front; true in `moved` if there were any.
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

}  // namespace kolo
