#include "engine/operation_names.hpp"

namespace kolo {

OperationNames::Booking OperationNames::book(const std::shared_ptr<Operation>& operation) {
  BookedName& name = names_[{operation->process_set, operation->descriptor.kind}][operation->name];
  if (std::exchange(name.in_flight, true))
    return queue_up(name, operation) ? Booking::kQueued : Booking::kTaken;
  operation->booked = &name;
  if (!operation->descriptor.refusal.empty()) {
    queues_[&name].push_back(operation);
    return Booking::kBooked;
  }
  if (name.place && operation->descriptor.device == DeviceKind::kCpu &&
      operation->tensors.size() == 1 && name.place->bytes == operation->descriptor.bytes()) {
    operation->packed_at = name.place;
  }
  return Booking::kBooked;
}

bool OperationNames::queue_up(BookedName& name, const std::shared_ptr<Operation>& operation) {
  const auto queue = queues_.find(&name);
  if (queue == queues_.end() || queue->second.back()->descriptor.refusal.empty()) return false;
  operation->booked = &name;
  operation->queued = true;
  queue->second.push_back(operation);
  return true;
}

bool OperationNames::is_queued(const Operation& operation) const {
  if (queues_.empty()) return false;
  const auto queue = queues_.find(operation.booked);
  return queue != queues_.end() && queue->second.front().get() != &operation;
}

std::shared_ptr<Operation> OperationNames::release(Operation& operation) {
  const auto queue = queues_.empty() ? queues_.end() : queues_.find(operation.booked);
  if (queue == queues_.end()) {
    unbook(operation);
    return nullptr;
  }
  queue->second.pop_front();
  if (queue->second.empty()) {
    queues_.erase(queue);
    unbook(operation);
    return nullptr;
  }
  operation.booked = nullptr;
  return queue->second.front();
}

void OperationNames::unbook(Operation& operation) {
  BookedName& name = *std::exchange(operation.booked, nullptr);
  name.in_flight = false;
  if (!name.place) forget(operation.process_set, operation.descriptor.kind, operation.name);
}

// Names and process sets that never come again take no memory.
void OperationNames::forget(int process_set, OpKind kind, const std::string& name) {
  Names& names = names_[{process_set, kind}];
  names.erase(name);
  if (names.empty() && process_set != 0) names_.erase({process_set, kind});
}

void OperationNames::set_place(int process_set, const std::string& name,
                               std::optional<BufferPlace> place) {
  BookedName& booked = names_[{process_set, OpKind::kAllreduce}][name];
  booked.place = std::move(place);
  if (!booked.place && !booked.in_flight) forget(process_set, OpKind::kAllreduce, name);
}

}  // namespace kolo
