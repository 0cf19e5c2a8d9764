// An NCCL communicator that never blocks this thread: what it is told to do it may still be at when
// a call returns, and settle() says when it is done with that.
#pragma once

#include <nccl.h>

#include "collectives/transport.hpp"
#include "core/status.hpp"

namespace kolo::nccl {

// Used by who drives the engine. Of a rank alone it is nothing, and always done.
class Communicator {
 public:
  Communicator(int rank, int size, int device) : rank_(rank), size_(size), device_(device) {}
  // What is enqueued still ends, or, after some seconds, is aborted.
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

  // What went wrong since.
  Status check() const;

  // Ends what is enqueued. Nothing else may be called afterwards.
  void abort();

 private:
  const int rank_;
  const int size_;
  const int device_;
  ncclComm_t comm_ = nullptr;  // before begin() and after abort()
};

}  // namespace kolo::nccl
