#include "collectives/nccl/events.hpp"

#include <utility>

#include "collectives/nccl/check.hpp"

namespace kolo::nccl {

Point::Point(std::shared_ptr<Events> events, Kind kind, cudaEvent_t event, cudaStream_t stream,
             std::uint64_t number)
    : events_(std::move(events)), kind_(kind), event_(event), stream_(stream), number_(number) {}

Point::~Point() {
  events_->give_back(event_, kind_);
}

Progress Point::look(Status& status) const {
  const OnDevice here(events_->device());
  status = here.status();
  if (!status.is_ok()) return Progress::kFailed;
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaSuccess) return Progress::kDone;
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // CUDA keeps it as an error
    return Progress::kWaiting;
  }
  status = cuda_status(code, "cudaEventQuery (an earlier kernel or copy may have failed)");
  return Progress::kFailed;
}

// Ignores errors: the process may be ending, and CUDA gone before this.
Events::~Events() {
  const OnDevice here(device_);
  for (const auto& events : free_) {
    for (cudaEvent_t event : events) static_cast<void>(cudaEventDestroy(event));
  }
}

void Events::give_back(cudaEvent_t event, Kind kind) {
  const MutexLock lock(mutex_);
  free_[static_cast<std::size_t>(kind)].push_back(event);
}

Status Events::take(Kind kind, cudaEvent_t& event) {
  {
    const MutexLock lock(mutex_);
    std::vector<cudaEvent_t>& free = free_[static_cast<std::size_t>(kind)];
    if (!free.empty()) {
      event = free.back();
      free.pop_back();
      return Status::ok();
    }
  }
  const unsigned flags = kind == Kind::kTimed ? cudaEventDefault : cudaEventDisableTiming;
  return cuda_status(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
}

Mutex& Events::order_of(cudaStream_t stream) {
  const MutexLock lock(mutex_);
  return orders_[stream];
}

// CUDA blocks the recording thread while the stream is full. Threads that record on other streams
// must not wait for that, so each stream has a lock of its own.
Status Events::record(cudaStream_t stream, std::shared_ptr<Point>& point, Kind kind) {
  const OnDevice here(device_);
  if (!here.status().is_ok()) return here.status();
  point.reset();  // it gives its event back
  cudaEvent_t event = nullptr;
  if (Status s = take(kind, event); !s.is_ok()) return s;
  const MutexLock order(order_of(stream));
  Status status = cuda_status(cudaEventRecord(event, stream), "cudaEventRecord");
  if (status.is_ok()) {
    point = std::make_shared<Point>(shared_from_this(), kind, event, stream, ++recorded_);
  } else {
    give_back(event, kind);
  }
  return status;
}

Status wait_for(cudaStream_t stream, const Point& point) {
  return cuda_status(cudaStreamWaitEvent(stream, point.event(), 0), "cudaStreamWaitEvent");
}

Status wait_for(cudaStream_t stream, cudaStream_t other, Events& events) {
  std::shared_ptr<Point> now;
  if (Status s = events.record(other, now); !s.is_ok()) return s;
  return wait_for(stream, *now);
}

}  // namespace kolo::nccl
