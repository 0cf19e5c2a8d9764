// Shares arrays of one process with others on its machine.
#pragma once

#include <memory>
#include <string>

#include "collectives/shm/segment.hpp"
#include "core/clock.hpp"
#include "core/fd.hpp"
#include "delivery/message.hpp"
#include "delivery/parcel.hpp"

namespace kolo::delivery {

// Memory with arrays that is handed to processes of the same user.
class NodeMemory {
 public:
  // Allocates zeroed memory for these arrays. Throws std::system_error or DataError.
  explicit NodeMemory(const BatchPlaces& places);

  // The name of the socket that get_node_memory() connects to.
  const std::string& name() const { return name_; }
  // Returns the arrays, which own the memory.
  Parcel arrays() const;

  // Waits until this many processes have fetched the memory. Throws DataError at the deadline.
  void hand_out(int processes, Clock::time_point deadline) const;

 private:
  BatchPlaces places_;
  std::shared_ptr<shm::Segment> memory_;
  std::string name_;
  Fd listener_;
};

// Fetches the arrays of the NodeMemory with this name. Throws DataError.
Parcel get_node_memory(const std::string& name, Clock::time_point deadline);

}  // namespace kolo::delivery
