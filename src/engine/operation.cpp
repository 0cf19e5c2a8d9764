#include "engine/operation.hpp"

namespace kolo {
namespace {

// Enough for the tensors of the largest models; a few hundred bytes each.
constexpr std::size_t kMostKept = 16384;

// Whether the thread's are destroyed already: programs may use kolo while the process ends.
thread_local bool none_are_kept = false;

struct KeptOperations {
  std::vector<std::shared_ptr<Operation>> operations;
  std::size_t next = 0;
  ~KeptOperations() { none_are_kept = true; }
};

}  // namespace

std::shared_ptr<Operation> Operation::make() {
  if (none_are_kept) return std::make_shared<Operation>();
  static thread_local KeptOperations kept;
  if (!kept.operations.empty()) {
    kept.next = (kept.next + 1) % kept.operations.size();
    if (kept.operations[kept.next].use_count() == 1) {
      std::shared_ptr<Operation> oldest = kept.operations[kept.next];
      // Giving a reference back, other than counting them, comes after what others did before they
      // gave theirs back.
      std::shared_ptr<Operation>(oldest).reset();
      oldest->start_over();
      return oldest;
    }
  }
  auto operation = std::make_shared<Operation>();
  if (kept.operations.size() < kMostKept) kept.operations.push_back(operation);
  return operation;
}

void Operation::start_over() {
  name.clear();
  process_set = 0;
  if (!descriptor.tensors.empty()) old_specs = std::move(descriptor.tensors);
  descriptor = Descriptor();
  tensors.clear();
  splits.clear();
  let_go();
  absent = transient = placeholder = false;
  number = -1;
  wanted = queued = false;
  booked = nullptr;
  recorded = timeline::Recorder::kNowhere;
  status_ = Status::ok();
  on_device.reset();
  absent_everywhere_ = false;
  has_let_go_.store(false, std::memory_order_relaxed);
  awaited_.store(false, std::memory_order_relaxed);
  done_.store(false, std::memory_order_relaxed);
}

void Operation::let_go() {
  let_go_of_tensors(&Holder::let_go);
  packed_at.reset();
  if (on_device != nullptr) on_device->ready.reset();
}

void Operation::let_go_behind_results() {
  let_go_of_tensors(&Holder::let_go_behind_results);
}

// On a device both the waiting thread and the driving thread call this. The second call does
// nothing.
void Operation::let_go_of_tensors(void (Holder::*how)()) {
  if (has_let_go_.exchange(true)) return;
  if (holder != nullptr) (holder.get()->*how)();
  if (finish) finish = nullptr;
  if (make_result) make_result = nullptr;
}

void Operation::complete(Status status, bool absent_everywhere) {
  if (status.is_ok() && results() == nullptr) let_go();
  status_ = std::move(status);
  absent_everywhere_ = absent_everywhere;
  // Either this thread sees the waiting thread, or the waiting thread sees the end. (Both accesses
  // are sequentially consistent.)
  done_.store(true);
  if (!awaited_.load()) return;
  const MutexLock lock(mutex_);
  condition_.notify_all();
}

bool Operation::wait_until(std::optional<Clock::time_point> deadline) const {
  MutexLock lock(mutex_);
  awaited_.store(true);
  while (!done_.load()) {
    if (!deadline) {
      condition_.wait(mutex_);
    } else if (!condition_.wait_until(mutex_, *deadline)) {
      return done();
    }
  }
  return true;
}

}  // namespace kolo
