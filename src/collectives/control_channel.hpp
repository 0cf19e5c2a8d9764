// Messages of a group's control plane: rank 0 sends the same ones to all other ranks, and each of
// them sends to rank 0. Messages between two ranks arrive whole and in order. Nothing blocks; one
// thread at a time uses it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/status.hpp"

namespace kolo {

class ControlChannel {
 public:
  using Bytes = std::vector<std::byte>;
  struct Message {
    int from = 0;
    Bytes bytes;
  };

  virtual ~ControlChannel() = default;
  ControlChannel() = default;
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends from rank 0 to every other rank, or from another rank to rank 0. Tries all of them, then
  // returns the first error.
  virtual Status send(const Bytes& message) = 0;

  // Sets `message` to the next message that has arrived, if any.
  virtual Status receive(std::optional<Message>& message) = 0;

  // Continues what could not be sent at once. Sets `moved` if something was sent.
  virtual Status advance(bool& moved) = 0;
  // Whether something is still to be sent.
  virtual bool sending() const = 0;
};

}  // namespace kolo
