// Arrays that one process hands to others of its machine.
#pragma once

#include <memory>
#include <string>

#include "collectives/shm/segment.hpp"
#include "core/clock.hpp"
#include "core/fd.hpp"
#include "delivery/message.hpp"
#include "delivery/parcel.hpp"

namespace kolo::delivery {

// Hands memory with arrays to processes of the same user.
class NodeMemory {
 public:
  // Memory for these places, of zeros. Throws std::system_error or DataError.
  explicit NodeMemory(const BatchPlaces& places);

  // The name of the socket at which get_node_memory() finds it.
  const std::string& name() const { return name_; }
  // The arrays; they own the memory.
  Parcel arrays() const;

  // Waits until so many processes have it. Throws DataError at the deadline.
  void hand_out(int processes, Clock::time_point deadline) const;

 private:
  BatchPlaces places_;
  std::shared_ptr<shm::Segment> memory_;
  std::string name_;
  Fd listener_;
};

// Gets the arrays from the process that has this NodeMemory. Throws DataError.
Parcel get_node_memory(const std::string& name, Clock::time_point deadline);

}  // namespace kolo::delivery
