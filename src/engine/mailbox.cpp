#include "engine/mailbox.hpp"

#include <cstring>
#include <utility>

#include "core/operations.hpp"

namespace kolo {

// Says why no operation is taken now. A rank that has joined stands in with neutral values for
// itself, so what another thread of it submits could not be told from that.
Status Mailbox::refusal_of(const Operation& operation) const {
  if (!closed_.is_ok()) return closed_;
  if (joining_.count(operation.process_set) == 0) return Status::ok();
  return Status::invalid_argument(
      std::string(name_of(operation.descriptor.kind)) + " of '" + operation.name +
      "': another thread of this rank is in join(), which ends when all ranks have joined; submit "
      "it before or after that");
}

// Books the operation's name. `entered`: it was handed over already, or will be when it gets its
// name.
Status Mailbox::reserve(const std::shared_ptr<Operation>& operation, bool& entered) {
  const MutexLock lock(mutex_);
  if (Status refusal = refusal_of(*operation); !refusal.is_ok()) return refusal;
  const OperationNames::Booking booking = names_.book(operation);
  if (booking == OperationNames::Booking::kTaken) {
    return Status::duplicate_name(
        std::string(name_of(operation->descriptor.kind)) + " of tensor '" + operation->name +
        "': another one of this name is still in flight on this rank; wait for its handle first, "
        "or give each operation a name of its own. The first operation is not affected");
  }
  const bool is_refusal = !operation->descriptor.refusal.empty();
  entered = booking == OperationNames::Booking::kQueued || is_refusal;
  if (booking == OperationNames::Booking::kBooked && is_refusal) enter(operation, false);
  return Status::ok();
}

Status Mailbox::submit(const std::shared_ptr<Operation>& operation, bool& packed, bool quietly) {
  bool entered = false;
  packed = false;
  if (Status status = reserve(operation, entered); !status.is_ok() || entered) return status;
  packed = operation->packed_at.has_value();
  if (packed && !operation->absent) {
    std::memcpy(operation->packed_at->data(), operation->tensors[0].data,
                operation->packed_at->bytes);
  }
  const MutexLock lock(mutex_);
  if (Status refusal = refusal_of(*operation); !refusal.is_ok()) {
    names_.release(*operation);
    return refusal;
  }
  enter(operation, quietly);
  return Status::ok();
}

void Mailbox::enter(const std::shared_ptr<Operation>& operation, bool quietly) {
  entries_.push_back({Entry::Kind::kSubmit, operation});
  if (operation->descriptor.kind == OpKind::kJoin) {
    joining_.insert(operation->process_set);
    submitted_since_boundary_.erase(operation->process_set);  // a boundary by itself
  } else if (!operation->queued) {
    submitted_since_boundary_.insert(operation->process_set);
  }
  any_since_boundary_.store(!submitted_since_boundary_.empty(), std::memory_order_relaxed);
  parking_.call_for_submission(quietly);
}

void Mailbox::wanted(const std::shared_ptr<Operation>& operation, bool drives) {
  const bool done = operation->done();
  if (done && !any_since_boundary_.load(std::memory_order_relaxed)) return;
  const MutexLock lock(mutex_);
  // The boundary is entered even if the operation is done already: its place must not depend on how
  // fast the engine was.
  const bool is_boundary = submitted_since_boundary_.erase(operation->process_set) > 0;
  if (is_boundary) {
    entries_.push_back({Entry::Kind::kBoundary, nullptr, operation->process_set});
    any_since_boundary_.store(!submitted_since_boundary_.empty(), std::memory_order_relaxed);
  }
  if (done && is_boundary) parking_.call_for_submission(false);
  if (done || std::exchange(operation->wanted, true) || names_.is_queued(*operation)) return;
  entries_.push_back({Entry::Kind::kWanted, operation});
  parking_.call(drives);
}

void Mailbox::shut_down(const Status& reason) {
  const MutexLock lock(mutex_);
  if (closed_.is_ok()) closed_ = reason;
  entries_.push_back({Entry::Kind::kShutdown, nullptr});
  parking_.call();
}

void Mailbox::take(std::vector<Entry>& entries) {
  entries.clear();
  parking_.about_to_take();
  const MutexLock lock(mutex_);
  entries.swap(entries_);
}

void Mailbox::release(const std::vector<Operation*>& operations) {
  const MutexLock lock(mutex_);
  for (Operation* operation : operations) {
    if (operation->descriptor.kind == OpKind::kJoin) joining_.erase(operation->process_set);
    const std::shared_ptr<Operation> next = names_.release(*operation);
    if (next == nullptr) continue;
    enter(next, false);
    if (next->wanted) entries_.push_back({Entry::Kind::kWanted, next});
  }
}

void Mailbox::close(const Status& reason) {
  const MutexLock lock(mutex_);
  if (closed_.is_ok()) closed_ = reason;
}

void Mailbox::set_place(int process_set, const std::string& name,
                        std::optional<BufferPlace> place) {
  const MutexLock lock(mutex_);
  names_.set_place(process_set, name, std::move(place));
}

}  // namespace kolo
