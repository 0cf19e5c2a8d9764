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

  // From rank 0 to every other rank, else to rank 0. All are tried; then the first error is given.
  virtual Status send(const Bytes& message) = 0;

  // The next message that has come.
  virtual Status receive(std::optional<Message>& message) = 0;

  // Goes on with what could not be sent at once. `moved` is set if something was.
  virtual Status advance(bool& moved) = 0;
  // Whether something is still to be sent.
  virtual bool sending() const = 0;
};

}  // namespace kolo
