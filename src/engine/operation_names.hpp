#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/operations.hpp"
#include "engine/operation.hpp"

namespace kolo {

// The names of the operations in flight on this rank, and the places that tensors of these names
// have in buckets. The mailbox's lock guards it.
class OperationNames {
 public:
  enum class Booking : std::uint8_t {
    kBooked,  // the name is the operation's until release()
    kQueued,  // a refusal of the name is in flight; the operation gets the name after it
    kTaken,   // another operation of this kind and name is in flight
  };

  // Books the operation's name, and finds the place of its tensor in a bucket, if it has one. The
  // program cannot know how long a refusal takes, so an operation may queue behind one.
  Booking book(const std::shared_ptr<Operation>& operation);
  // Frees the name of an operation that has ended, or was not taken. Returns the operation that
  // gets the name next, or null.
  std::shared_ptr<Operation> release(Operation& operation);
  // Whether the operation waits for its name.
  bool is_queued(const Operation& operation) const;
  // Sets where the tensor of an allreduce of that name is packed; without a place it is not packed.
  void set_place(int process_set, const std::string& name, std::optional<BufferPlace> place);

 private:
  // A refusal, and the operations queued behind it.
  using Queue = std::deque<std::shared_ptr<Operation>>;
  using Names = std::unordered_map<std::string, BookedName>;

  bool queue_up(BookedName& name, const std::shared_ptr<Operation>& operation);
  void unbook(Operation& operation);
  void forget(int process_set, OpKind kind, const std::string& name);

  std::map<std::pair<int, OpKind>, Names> names_;  // by process set and kind of operation
  std::map<const BookedName*, Queue> queues_;
};

}  // namespace kolo
