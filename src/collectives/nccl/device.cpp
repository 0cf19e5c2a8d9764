#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/nccl/backend.hpp"
#include "collectives/nccl/check.hpp"
#include "collectives/nccl/communicator.hpp"
#include "collectives/nccl/nccl.hpp"
#include "collectives/nccl/streams.hpp"
#include "core/host.hpp"
#include "core/log.hpp"

namespace kolo::nccl {
namespace {

Status look_at_capture(cudaStream_t stream, bool& captured) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  Status status = cuda_status(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing");
  captured = capture != cudaStreamCaptureStatusNone;
  return status;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, const Options& options)
      : events_(std::make_shared<Events>(index)),
        communicators_(std::make_shared<Communicators>(index)),
        options_(options) {}

  int index() const override { return events_->device(); }

  bool captures(void* queue) const override {
    const OnDevice here(index());
    bool captured = false;
    return !here.status().is_ok() ||
           !look_at_capture(static_cast<cudaStream_t>(queue), captured).is_ok() || captured;
  }

  Status record(void* queue, std::shared_ptr<DevicePoint>& point) override {
    const OnDevice here(index());
    if (!here.status().is_ok()) return here.status();
    auto* const stream = static_cast<cudaStream_t>(queue);
    bool captured = false;
    Status status = look_at_capture(stream, captured);
    if (status.is_ok() && captured) {
      status = Status::invalid_argument(
          "a reduction cannot be captured into a CUDA graph, because the ranks agree on each "
          "reduction anew: capture forward and backward under no_sync(), and reduce outside of the "
          "graph");
    }
    if (!status.is_ok()) return status;
    std::shared_ptr<Point> recorded;
    status = events_->record(stream, recorded);
    point = std::move(recorded);
    return status;
  }

  Status wait(void* queue, const DevicePoint& point) override {
    const OnDevice here(index());
    if (!here.status().is_ok()) return here.status();
    return wait_for(static_cast<cudaStream_t>(queue), static_cast<const Point&>(point));
  }

  std::unique_ptr<DeviceBackend> make_backend(Backend& host) override {
    std::unique_ptr<Streams> streams;
    throw_if_error(Streams::create(events_, streams));
    return nccl::make_backend(std::move(streams), communicators_, host, options_);
  }
  void abort() override { communicators_->abort(); }

 private:
  const std::shared_ptr<Events> events_;
  const std::shared_ptr<Communicators> communicators_;
  const Options options_;
};

// Removes a variable from the environment that would hold for all communicators, whatever a program
// asks for.
void undo(const char* name, const char* why) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr || std::string_view(value) == "0") return;
  log::warning("removed " + std::string(name) + "=" + value + " from the environment: " + why);
  unsetenv(name);  // NOLINT(concurrency-mt-unsafe): before NCCL has threads
}
void undo_settings() {
  undo("NCCL_COMM_BLOCKING",
       "kolo's communicators must not block; otherwise kolo cannot distinguish a lost rank from a "
       "slow one");
  undo("NCCL_LAUNCH_ORDER_IMPLICIT",
       "communicators that do not block launch from NCCL's own threads; if two process sets launch "
       "at the same time, NCCL takes that for a race and fails");
}

// Makes NCCL accept several ranks on one device, which it refuses by default. From 2.30 on a
// variable allows it. Before that, ranks pass if they claim to be on different hosts, and
// communicate over sockets.
Status allow_sharing(int rank) {
  int version = 0;
  if (Status s = nccl_status(ncclGetVersion(&version), "ncclGetVersion"); !s.is_ok()) return s;
  const std::string host = host_name() + "-kolo-" + std::to_string(rank);
  const bool can_be_told = version >= 23000;
  const char* const name = can_be_told ? "NCCL_MULTI_RANK_GPU_ENABLE" : "NCCL_HOSTID";
  const std::string value = can_be_told ? "1" : host;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before NCCL has threads
  const int failed = setenv(name, value.c_str(), 0);
  return failed == 0 ? Status::ok() : Status::internal("setenv failed for KOLO_SHARE_DEVICE");
}

}  // namespace

Status available() {
  return Status::ok();
}

bool any_device() {
  int count = 0;
  return cuda_status(cudaGetDeviceCount(&count), "cudaGetDeviceCount").is_ok() && count > 0;
}

Status make_device(int index, const Options& options, std::shared_ptr<Device>& device) {
  undo_settings();
  if (options.may_share) {
    if (Status s = allow_sharing(options.rank); !s.is_ok()) return s;
  }
  const OnDevice here(index);  // fails unless it exists and CUDA works on it
  if (!here.status().is_ok()) return here.status();
  device = std::make_shared<CudaDevice>(index, options);
  return Status::ok();
}

}  // namespace kolo::nccl
