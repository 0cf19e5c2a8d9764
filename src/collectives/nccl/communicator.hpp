// An NCCL communicator that never blocks this thread: what it is told to do it may still be at when
// a call returns, and settle() says when it is done with that.
#pragma once

#include <nccl.h>

#include <future>
#include <vector>

#include "collectives/nccl/check.hpp"
#include "collectives/transport.hpp"
#include "core/status.hpp"

namespace kolo::nccl {

class Communicator;

// All that this process has on a device. Used by who drives the engine.
class Communicators {
 public:
  explicit Communicators(int device) : device_(device) {}

  int device() const { return device_; }

  // Ends what is enqueued on all of them; waits some seconds for that. Nothing else may be asked of
  // them afterwards.
  void abort();

 private:
  friend class Communicator;

  // On a thread of its own, for NCCL waits there for other ranks, which may come to the ends of two
  // communicators in different order, or never.
  void end(ncclComm_t communicator);
  // At most for some seconds.
  void wait_for_ends();

  const int device_;
  std::vector<Communicator*> made_;
  std::vector<std::future<void>> ending_;
};

// Used by who drives the engine. Of a rank alone it is nothing, and always done.
class Communicator {
 public:
  // `all` outlives it.
  Communicator(Communicators& all, int rank, int size);
  // Enqueued commands still end or, after some seconds, are aborted. The last communicator waits
  // some seconds at most for the ends of all.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  ncclComm_t get() const { return comm_; }

  // Collective over the group: begins to find the others, until settle() says that it is done.
  Status begin(const ncclUniqueId& id);

  // kWaiting while NCCL is at what it was told, kDone, or kFailed. Nothing else may be asked of it
  // before that is kDone, nor may a point be recorded behind it.
  Progress settle(Status& status) const;

  // Returns an error that has occurred since.
  Status check() const;

 private:
  friend class Communicators;

  Communicators& all_;
  const int rank_;
  const int size_;
  ncclComm_t comm_ = nullptr;  // before begin(), and when it was aborted
};

// Several calls that NCCL carries out as one.
template <typename Calls>
Status in_group(const Calls& calls) {
  if (Status s = nccl_status(ncclGroupStart(), "ncclGroupStart"); !s.is_ok()) return s;
  const Status status = calls();
  const Status ended = nccl_status(ncclGroupEnd(), "ncclGroupEnd");
  return status.is_ok() ? ended : status;
}

}  // namespace kolo::nccl
