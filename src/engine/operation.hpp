// An operation that a program has submitted: its description, its tensors, and its end.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/device.hpp"
#include "coordinator/descriptor.hpp"
#include "coordinator/plan.hpp"
#include "core/clock.hpp"
#include "core/status.hpp"
#include "core/thread_annotations.hpp"
#include "timeline/recorder.hpp"

namespace kolo {

// The place of a small tensor in its bucket's buffer. The buffer lives as long as anyone refers to
// it.
struct BufferPlace {
  std::shared_ptr<std::byte[]> buffer;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  BucketPlace place;
  std::byte* data() const { return buffer.get() + offset; }
};

// State of a name in the mailbox. It exists only while one of its members is set.
struct BookedName {
  bool in_flight = false;
  std::optional<BufferPlace> place;  // of its tensor in a bucket
};

struct OperationTensor {
  void* data = nullptr;       // worked on in place, but for gathers, which read it
  std::int64_t rows = 0;      // of gathers: the extent of dimension 0 here
  bool is_only_read = false;  // of a reducescatter: this rank's share goes to `result`
  void* result = nullptr;     // may be null if the share is empty
};

// Memory in which the program has a tensor's values and gets the result, if the operation works on
// another copy: float32 or float64 values of an operation in float16 or bfloat16.
struct ValuesOutside {
  std::byte* data = nullptr;  // or null: as all others
  DType dtype = DType::kFloat32;
};

// Additional members of an operation on a device. They lie apart because few operations have them,
// and the others stay short.
struct OperationOnDevice {
  // The point at which its tensors have their values. Constant after submission.
  std::shared_ptr<DevicePoint> ready;
  std::vector<ValuesOutside> outside;  // as the operation's tensors, or none
  // The queue on which the operation runs. The engine sets it before it calls make_result and
  // finish.
  void* queue = nullptr;
  // The point at which its results are there. Set when the operation ends.
  std::shared_ptr<DevicePoint> results;
};

// Owns the memory that the tensors of an operation point to.
class Holder {
 public:
  virtual ~Holder() = default;
  Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // Releases everything. Called by the thread that drives, or by the thread that gives the
  // operation up.
  virtual void let_go() = 0;
  // Releases everything. Called by a thread whose current stream already waits for the results on
  // the device, so later users of the memory run after the operation.
  virtual void let_go_behind_results() { let_go(); }
};

// Filled by the submitting thread, then submitted to the engine. The engine and the handle share
// it.
class Operation {
 public:
  // Returns an operation that this thread has made before and that nothing refers to any more, with
  // the memory of its members and its empty holder; or a new one.
  static std::shared_ptr<Operation> make();

  // Constant after submission. The members that each step reads come last and lie together, because
  // the cache does not hold thousands of operations.
  std::vector<std::int64_t> splits;  // of an alltoall: rows for each rank
  // Returns memory for the gathered result of a tensor, which has rows[r] rows from rank r. The
  // engine calls it when it knows the ranks' sizes.
  std::function<void*(std::size_t index, const std::vector<std::int64_t>& rows)> make_result;
  std::function<void()> finish;  // run by the engine after success, before any thread is woken
  std::string name;
  int process_set = 0;       // 0: all ranks
  bool absent = false;       // contribute zeros; see absent_everywhere()
  bool transient = false;    // the name will not come again
  bool placeholder = false;  // for a rank that has joined; no thread waits for it
  Descriptor descriptor;
  std::vector<OperationTensor> tensors;  // as descriptor.tensors
  std::unique_ptr<Holder> holder;
  // Set by the mailbox if the submitting thread has packed the tensor into its bucket.
  std::optional<BufferPlace> packed_at;
  std::unique_ptr<OperationOnDevice> on_device;  // null on the host

  // The engine's, on submission.
  Clock::time_point submitted;
  std::int64_t step = 0;  // of the program

  // The driving thread's: its place in the flight recorder, until it has ended.
  timeline::Recorder::Place recorded = timeline::Recorder::kNowhere;

  // Engine, before complete(): the last rank of a join, the number of a new process set.
  int number = -1;

  // The mailbox's, under its lock.
  bool wanted = false;           // the engine knows that a thread waits for it
  bool queued = false;           // it had to wait until its name's refusal was over
  BookedName* booked = nullptr;  // while it is in flight

  // Specs of its last use, kept for their memory; see make().
  std::vector<TensorSpec> old_specs;

  // Releases tensors, callbacks and the place in a bucket. No message may be under way.
  void let_go();
  // Releases only the tensors. Any thread may call it after its current stream waits for the
  // results.
  void let_go_behind_results();

  // Ends the operation. Called once, by the engine, which holds a reference. After a success
  // nothing refers to the program's memory any more; after a failure messages may still be in
  // flight. On a device the operation ends when everything is enqueued. Its results show when the
  // device has finished, and then the caller releases the tensors.
  void complete(Status status, bool absent_everywhere) KOLO_EXCLUDES(mutex_);

  // Any thread.
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Waits for the end, at most until the deadline. Returns false if the deadline has passed.
  bool wait_until(std::optional<Clock::time_point> deadline) const KOLO_EXCLUDES(mutex_);

  // Called only after done() or a wait has returned true.
  const Status& status() const { return status_; }
  // Null if the results were complete at the end.
  std::shared_ptr<DevicePoint> results() const {
    return on_device == nullptr ? nullptr : on_device->results;
  }
  // Whether no rank had values; then the data are unchanged.
  bool absent_everywhere() const { return absent_everywhere_; }

 private:
  void start_over();
  void let_go_of_tensors(void (Holder::*how)());

  std::atomic<bool> has_let_go_{false};       // of its tensors
  mutable std::atomic<bool> awaited_{false};  // by threads that sleep on the condition
  std::atomic<bool> done_{false};
  // Constant after the end; read only after it.
  bool absent_everywhere_ = false;
  Status status_;
  mutable Mutex mutex_;
  mutable CondVar condition_;
};

}  // namespace kolo
