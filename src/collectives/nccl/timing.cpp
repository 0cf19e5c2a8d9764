#include "collectives/nccl/timing.hpp"

#include "collectives/nccl/check.hpp"

namespace kolo::nccl {
namespace {

constexpr Clock::duration kBetweenComparisons = std::chrono::seconds(1);
// Clocks drift by less than 50 us a second: with its age, a comparison gets worse by that.
constexpr int kDrift = 20000;

}  // namespace

Timing::~Timing() {
  const OnDevice here(events_->device());
  if (idle_ != nullptr) static_cast<void>(cudaStreamDestroy(idle_));
}

Status Timing::compare() {
  const Clock::time_point now = Clock::now();
  if (begun_.point != nullptr) {
    Status status;
    const Progress progress = begun_.point->look(status);
    if (progress != Progress::kDone) return status;
    begun_.error = (now - begun_.at) / 2;
    begun_.at += begun_.error;
    if (best_.point == nullptr || begun_.error <= best_.error + (now - best_.at) / kDrift)
      best_ = begun_;
    begun_ = {};
    return Status::ok();
  }
  if (best_.point != nullptr && now - best_.at < kBetweenComparisons) return Status::ok();
  const OnDevice here(events_->device());
  if (!here.status().is_ok()) return here.status();
  if (idle_ == nullptr) {
    Status status = cuda_status(cudaStreamCreateWithPriority(&idle_, cudaStreamNonBlocking, 0),
                                "cudaStreamCreateWithPriority");
    if (!status.is_ok()) return status;
  }
  begun_.at = now;
  return events_->record(idle_, begun_.point, Events::Kind::kTimed);
}

Clock::time_point Timing::when(const Point& point) const {
  const OnDevice here(events_->device());
  if (best_.point == nullptr || !here.status().is_ok()) return {};
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, best_.point->event(), point.event()) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // CUDA keeps it as an error
    return {};
  }
  return best_.at + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double, std::milli>(milliseconds));
}

DeviceTimes WorkSpan::times() const {
  const auto when = [this](const std::shared_ptr<Point>& point) {
    return point == nullptr ? Clock::time_point{} : timing_->when(*point);
  };
  return {when(data_ready), when(packed), when(begun), when(reduced), when(ended)};
}

}  // namespace kolo::nccl
