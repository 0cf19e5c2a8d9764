#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/status.hpp"
#include "core/thread_annotations.hpp"
#include "engine/operation.hpp"
#include "engine/operation_names.hpp"
#include "engine/parking.hpp"

namespace kolo {

// Hands submissions and waits from the program's threads to the thread that drives the engine, in
// order. A small tensor with a place in a bucket is copied there by the submitting thread, which
// has the tensor in its cache.
class Mailbox {
 public:
  // `parking` must outlive the mailbox.
  explicit Mailbox(Parking& parking) : parking_(parking) {}

  struct Entry {
    enum class Kind : std::uint8_t { kSubmit, kBoundary, kWanted, kShutdown };
    Kind kind = Kind::kSubmit;
    std::shared_ptr<Operation> operation;  // of kSubmit and kWanted
    int process_set = 0;                   // of kBoundary
  };

  // --- any thread ---
  // Hands the operation over. Fails if the mailbox is closed, if an operation of the same kind and
  // name is in flight on this rank, or amid a join of its process set. `packed`: set if the tensor
  // now lies in its bucket. `quietly`: see Parking::call_for_submission().
  Status submit(const std::shared_ptr<Operation>& operation, bool& packed, bool quietly = false)
      KOLO_EXCLUDES(mutex_);
  // Notes that a thread begins to wait for the operation, or asks whether it is done. `drives`:
  // that thread drives the engine.
  void wanted(const std::shared_ptr<Operation>& operation, bool drives = false)
      KOLO_EXCLUDES(mutex_);
  // Lets all further submissions fail with `reason`, and enters kShutdown for the engine.
  void shut_down(const Status& reason) KOLO_EXCLUDES(mutex_);

  // --- the thread that drives ---
  // Replaces `entries` by all entries since the last call.
  void take(std::vector<Entry>& entries) KOLO_EXCLUDES(mutex_);
  // Frees the names of operations that have ended. The next operation in line gets the name.
  void release(const std::vector<Operation*>& operations) KOLO_EXCLUDES(mutex_);
  // Lets all further submissions fail with `reason`.
  void close(const Status& reason) KOLO_EXCLUDES(mutex_);
  // See OperationNames.
  void set_place(int process_set, const std::string& name, std::optional<BufferPlace> place)
      KOLO_EXCLUDES(mutex_);

 private:
  Status reserve(const std::shared_ptr<Operation>& operation, bool& entered) KOLO_EXCLUDES(mutex_);
  Status refusal_of(const Operation& operation) const KOLO_REQUIRES(mutex_);
  void enter(const std::shared_ptr<Operation>& operation, bool quietly) KOLO_REQUIRES(mutex_);

  Parking& parking_;
  Mutex mutex_;
  std::vector<Entry> entries_ KOLO_GUARDED_BY(mutex_);
  OperationNames names_ KOLO_GUARDED_BY(mutex_);
  Status closed_ KOLO_GUARDED_BY(mutex_);
  std::unordered_set<int> joining_ KOLO_GUARDED_BY(mutex_);  // process sets with a join in flight
  std::unordered_set<int> submitted_since_boundary_ KOLO_GUARDED_BY(mutex_);  // process sets
  // Whether that set has any. Changed under the lock.
  std::atomic<bool> any_since_boundary_{false};
};

}  // namespace kolo
