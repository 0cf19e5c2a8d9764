#include "collectives/nccl/streams.hpp"

#include <initializer_list>
#include <utility>

#include "collectives/nccl/check.hpp"
#include "collectives/nccl/kernels.hpp"
#include "collectives/nccl/timing.hpp"

namespace kolo::nccl {

namespace {

// Makes the streams that do not exist yet, with the highest priority, on the current device.
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

// Commands on the streams still end. Ignores errors: the process may be ending, and CUDA gone
// before this.
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
