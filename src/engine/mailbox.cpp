#include "engine/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kolo {

namespace {

constexpr Clock::duration kLookAgain = std::chrono::milliseconds(50);

}  // namespace

bool Mailbox::line_up(BookedName& name, const std::shared_ptr<Operation>& operation) {
  const auto line = lines_.find(&name);
  if (line == lines_.end() || line->second.back()->descriptor.refusal.empty()) return false;
  operation->booked = &name;
  operation->lined_up = true;
  line->second.push_back(operation);
  return true;
}

bool Mailbox::waits_in_line(const Operation& operation) const {
  if (lines_.empty()) return false;
  const auto line = lines_.find(operation.booked);
  return line != lines_.end() && line->second.front().get() != &operation;
}

// Books the name, and finds the operation its slot. `taken`: there is nothing left to do.
Status Mailbox::reserve(const std::shared_ptr<Operation>& operation, bool& taken) {
  MutexLock lock(mutex_);
  if (!closed_.is_ok()) return closed_;
  BookedName& name = names_[{operation->process_set, operation->descriptor.kind}][operation->name];
  if (std::exchange(name.in_flight, true)) {
    taken = line_up(name, operation);
    if (taken) return Status::ok();
    return Status::duplicate_name(
        std::string(name_of(operation->descriptor.kind)) + " of tensor '" + operation->name +
        "': another one of this name is still in flight on this rank; wait for its handle first, "
        "or "
        "give each operation a name of its own. The first operation is not affected");
  }
  operation->booked = &name;
  if (!operation->descriptor.refusal.empty()) {
    lines_[&name].push_back(operation);
    enter(operation, false);
    taken = true;
    return Status::ok();
  }
  if (name.slot && operation->descriptor.device == DeviceKind::kCpu &&
      operation->tensors.size() == 1 && name.slot->bytes == operation->descriptor.bytes()) {
    operation->slot = name.slot;
  }
  return Status::ok();
}

Status Mailbox::submit(const std::shared_ptr<Operation>& operation, bool& packed, bool quietly) {
  bool taken = false;
  packed = false;
  if (Status status = reserve(operation, taken); !status.is_ok() || taken) return status;
  packed = operation->slot.has_value();
  if (packed && !operation->absent) {
    std::memcpy(operation->slot->data(), operation->tensors[0].data, operation->slot->bytes);
  }
  MutexLock lock(mutex_);
  if (!closed_.is_ok()) {
    unbook(*operation);
    return closed_;
  }
  enter(operation, quietly);
  return Status::ok();
}

void Mailbox::unbook(Operation& operation) {
  BookedName& name = *std::exchange(operation.booked, nullptr);
  name.in_flight = false;
  if (!name.slot) forget(operation.process_set, operation.descriptor.kind, operation.name);
}

// Names, and process sets, that never come again take no memory.
void Mailbox::forget(int process_set, OpKind kind, const std::string& name) {
  Names& names = names_[{process_set, kind}];
  names.erase(name);
  if (names.empty() && process_set != 0) names_.erase({process_set, kind});
}

void Mailbox::wake() {
  if (driven()) return driver_condition_.notify_one();
  wake_ = true;
  doorbell_.ring();
}

void Mailbox::lose_patience() {
  const MutexLock lock(mutex_);
  patience_.reset();
  if (std::exchange(submitted_, false)) wake();
}

// A thread that sleeps for good is woken once, to set its alarm. (Also for a boundary.)
void Mailbox::wake_for_submission() {
  if (driven() || !patience_) return wake();
  submitted_ = true;
  const Clock::time_point then = Clock::now() + *patience_;
  if (alarm_ && *alarm_ <= then) return;
  set_alarm(then);
}

// Until then nobody has to wake the engine's thread.
void Mailbox::set_alarm(Clock::time_point then) {
  alarm_ = then;
  doorbell_.stop_listening();
  doorbell_.ring();
}

void Mailbox::enter(const std::shared_ptr<Operation>& operation, bool quietly) {
  entries_.push_back({Entry::Kind::kSubmit, operation});
  if (operation->descriptor.kind == OpKind::kJoin) {
    submitted_since_boundary_.erase(operation->process_set);  // a boundary by itself
  } else if (!operation->lined_up) {
    submitted_since_boundary_.insert(operation->process_set);
  }
  any_since_boundary_.store(!submitted_since_boundary_.empty(), std::memory_order_relaxed);
  if (driven() || !quietly) wake_for_submission();
}

void Mailbox::wanted(const std::shared_ptr<Operation>& operation) {
  const bool done = operation->done();
  if (done && !any_since_boundary_.load(std::memory_order_relaxed)) return;
  MutexLock lock(mutex_);
  // The boundary is told even when the operation is done already: where it lies must not depend on
  // how fast the engine was.
  if (submitted_since_boundary_.erase(operation->process_set) > 0) {
    entries_.push_back({Entry::Kind::kBoundary, nullptr, operation->process_set});
    any_since_boundary_.store(!submitted_since_boundary_.empty(), std::memory_order_relaxed);
    if (done) wake_for_submission();
  }
  if (done || std::exchange(operation->wanted, true) || waits_in_line(*operation)) return;
  entries_.push_back({Entry::Kind::kWanted, operation});
  wake();
}

void Mailbox::shut_down(const Status& reason) {
  MutexLock lock(mutex_);
  if (closed_.is_ok()) closed_ = reason;
  entries_.push_back({Entry::Kind::kShutdown, nullptr});
  wake();
}

// Who drives looks at what other ranks write, and is often back before the next of them comes: to
// be called each time would cost much more. After a while the engine's thread may listen again.
bool Mailbox::begin_driving() {
  MutexLock lock(mutex_);
  if (driven_.exchange(true, std::memory_order_relaxed)) return false;
  if (doorbell_.listens()) set_alarm(Clock::now() + kLookAgain);
  return true;
}

void Mailbox::end_driving(bool more) {
  MutexLock lock(mutex_);
  driven_.store(false, std::memory_order_relaxed);
  if (more || !entries_.empty()) wake();
}

void Mailbox::rest(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (entries_.empty()) {
    if (!driver_condition_.wait_until(mutex_, deadline)) break;
  }
}

Mailbox::Waiter::Waiter(Mailbox& mailbox) : mailbox_(mailbox) {
  MutexLock lock(mailbox_.mutex_);
  ++mailbox_.waiters_;
  mailbox_.wake();
}

Mailbox::Waiter::~Waiter() {
  MutexLock lock(mailbox_.mutex_);
  --mailbox_.waiters_;
}

void Mailbox::take(std::vector<Entry>& entries) {
  entries.clear();
  MutexLock lock(mutex_);
  entries.swap(entries_);
}

void Mailbox::park(std::optional<Clock::time_point> deadline) {
  {
    MutexLock lock(mutex_);
    const Clock::time_point now = Clock::now();
    // One that is far away is for timers, and no reason to be deaf until then.
    const bool far = deadline && *deadline > now + kLookAgain;
    alarm_ = far ? std::nullopt : deadline;
    if (submitted_ && (waiters_ == 0 || !alarm_)) alarm_ = now + *patience_;
    // Nobody wakes this thread when a driver leaves nothing to do; it listens when it has looked
    // after that.
    if (!alarm_ && (driven() || !doorbell_.listens())) alarm_ = now + kLookAgain;
    if (alarm_) {
      doorbell_.stop_listening();
    } else {
      alarm_ = deadline;
    }
  }
  while (true) {
    const std::uint32_t rings = doorbell_.rings();
    std::optional<Clock::time_point> until;
    {
      MutexLock lock(mutex_);
      const Clock::time_point now = Clock::now();
      if (is_time_to_turn(now)) {
        wake_ = false;
        submitted_ = false;
        break;
      }
      if (driven()) {
        until = now + kLookAgain;
      } else if (alarm_) {
        until = time_of_alarm();
      }
    }
    doorbell_.wait(rings, until);
  }
  doorbell_.stop_listening();
}

// Helpers do not put it off for somebody who is blocked, nor for ever: they do not look at timers.
Clock::time_point Mailbox::time_of_alarm() const {
  if (!patience_ || waiters_ > 0) return *alarm_;
  const Clock::time_point helped(helped_.load(std::memory_order_relaxed));
  return std::clamp(helped + *patience_, *alarm_, *alarm_ + kLookAgain);
}

bool Mailbox::is_time_to_turn(Clock::time_point now) const {
  if (driven()) return false;
  return wake_ || (doorbell_.listens() && doorbell_.called()) || (alarm_ && now >= time_of_alarm());
}

bool Mailbox::somebody_waits() const {
  MutexLock lock(mutex_);
  return waiters_ > 0;
}

void Mailbox::release(const std::vector<Operation*>& operations) {
  MutexLock lock(mutex_);
  for (Operation* operation : operations) release(*operation);
}

void Mailbox::release(Operation& operation) {
  const auto line = lines_.empty() ? lines_.end() : lines_.find(operation.booked);
  if (line == lines_.end()) return unbook(operation);
  line->second.pop_front();
  if (line->second.empty()) {
    lines_.erase(line);
    return unbook(operation);
  }
  operation.booked = nullptr;
  const std::shared_ptr<Operation>& next = line->second.front();
  enter(next, false);
  if (next->wanted) entries_.push_back({Entry::Kind::kWanted, next});
}

void Mailbox::close(const Status& reason) {
  MutexLock lock(mutex_);
  if (closed_.is_ok()) closed_ = reason;
}

void Mailbox::set_slot(int process_set, const std::string& name, std::optional<Slot> slot) {
  MutexLock lock(mutex_);
  BookedName& booked = names_[{process_set, OpKind::kAllreduce}][name];
  booked.slot = std::move(slot);
  if (!booked.slot && !booked.in_flight) forget(process_set, OpKind::kAllreduce, name);
}

}  // namespace kolo
