#include "collectives/nccl/streams.hpp"

#include <initializer_list>
#include <utility>

#include "collectives/nccl/check.hpp"
#include "collectives/nccl/kernels.hpp"
#include "collectives/nccl/timing.hpp"

namespace kolo::nccl {

// --- points ---

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
    static_cast<void>(cudaGetLastError());  // it is kept as an error
    return Progress::kWaiting;
  }
  status = cuda_status(code, "cudaEventQuery (an earlier kernel or copy may have failed)");
  return Progress::kFailed;
}

// The process may be ending, and CUDA gone before this.
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

// CUDA makes who records wait where a stream has no room for more, which others must not wait for.
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

// --- streams ---

namespace {

// Those that are not there yet: of the highest priority, on the current device.
Status make(std::initializer_list<cudaStream_t*> streams) {
  int least = 0;
  int greatest = 0;
  Status status = cuda_status(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                              "cudaDeviceGetStreamPriorityRange");
  for (cudaStream_t* const stream : streams) {
    if (!status.is_ok()) return status;
    if (*stream != nullptr) continue;
    status = cuda_status(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, greatest),
                         "cudaStreamCreateWithPriority");
  }
  return status;
}

}  // namespace

Status Streams::create(std::shared_ptr<Events> events, std::unique_ptr<Streams>& streams) {
  const OnDevice here(events->device());
  if (!here.status().is_ok()) return here.status();
  if (Status s = load_kernels(); !s.is_ok()) return s;
  std::unique_ptr<Streams> made(new Streams(std::move(events)));
  if (Status s = make({&made->packing_, &made->reducing_}); !s.is_ok()) return s;
  streams = std::move(made);
  return Status::ok();
}

// What is on them still ends. The process may be ending, and CUDA gone before this.
Streams::~Streams() {
  const OnDevice here(device());
  for (cudaStream_t stream : {packing_, reducing_, to_host_, from_host_}) {
    if (stream != nullptr) static_cast<void>(cudaStreamDestroy(stream));
  }
}

Status Streams::join() {
  return wait_for(reducing_, packing_, *events_);
}

Status Streams::make_copying() {
  return from_host_ == nullptr ? make({&to_host_, &from_host_}) : Status::ok();
}

void Streams::begin_span() {
  if (timing_ == nullptr) timing_ = std::make_shared<Timing>(events_);
  span_ = std::make_shared<WorkSpan>(timing_);
}

Status Streams::mark(std::shared_ptr<Point> WorkSpan::*what, cudaStream_t stream) {
  if (span_ == nullptr) return Status::ok();
  // A work of several collectives begins with the first.
  if (what == &WorkSpan::begun && span_->begun != nullptr) return Status::ok();
  return events_->record(stream, (*span_).*what, Events::Kind::kTimed);
}

Status Streams::compare_clocks() {
  return timing_ == nullptr ? Status::ok() : timing_->compare();
}

}  // namespace kolo::nccl
