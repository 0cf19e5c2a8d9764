// An NCCL communicator that never blocks the calling thread. A call may return before its action is
// complete; settle() reports when it is.
#pragma once

#include <nccl.h>

#include <future>
#include <vector>

#include "collectives/nccl/check.hpp"
#include "collectives/transport.hpp"
#include "core/status.hpp"

namespace kolo::nccl {

class Communicator;

// All communicators of this process on a device. Used by the driving thread.
class Communicators {
 public:
  explicit Communicators(int device) : device_(device) {}

  int device() const { return device_; }

  // Ends the commands that are enqueued on all communicators, and waits some seconds for that. The
  // communicators must not be used afterwards.
  void abort();

 private:
  friend class Communicator;

  // Ends a communicator on a thread of its own, because NCCL waits there for other ranks, which may
  // end two communicators in different orders, or never.
  void end(ncclComm_t communicator);
  // Waits some seconds at most.
  void wait_for_ends();

  const int device_;
  std::vector<Communicator*> made_;
  std::vector<std::future<void>> ending_;
};

// Used by the driving thread. In a group of one rank it does nothing, and is always done.
class Communicator {
 public:
  // `all` outlives the object.
  Communicator(Communicators& all, int rank, int size);
  // Enqueued commands still end or, after some seconds, are aborted. The last communicator waits
  // some seconds at most until all have ended.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  ncclComm_t get() const { return comm_; }

  // Begins to find the other ranks; settle() reports when that is done. Collective over the group.
  Status begin(const ncclUniqueId& id);

  // Returns kWaiting while NCCL is still busy with the last call, then kDone or kFailed. Before
  // kDone, nothing else may be called, and no point may be recorded behind the call.
  Progress settle(Status& status) const;

  // Returns an error that has occurred asynchronously.
  Status check() const;

 private:
  friend class Communicators;

  Communicators& all_;
  const int rank_;
  const int size_;
  ncclComm_t comm_ = nullptr;  // null before begin() and after an abort
};

// Makes several calls that NCCL carries out as one.
template <typename Calls>
Status in_group(const Calls& calls) {
  if (Status s = nccl_status(ncclGroupStart(), "ncclGroupStart"); !s.is_ok()) return s;
  const Status status = calls();
  const Status ended = nccl_status(ncclGroupEnd(), "ncclGroupEnd");
  return status.is_ok() ? ended : status;
}

}  // namespace kolo::nccl
