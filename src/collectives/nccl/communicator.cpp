#include "collectives/nccl/communicator.hpp"

#include <chrono>
#include <string>
#include <thread>

#include "collectives/nccl/check.hpp"
#include "core/clock.hpp"
#include "core/log.hpp"

namespace kolo::nccl {
namespace {

// How long the end of a communicator is waited for: all of its ranks come to it, or have died.
constexpr Clock::duration kLastWait = std::chrono::seconds(5);
constexpr Clock::duration kNap = std::chrono::milliseconds(1);

}  // namespace

Status Communicator::begin(const ncclUniqueId& id) {
  const OnDevice here(device_);
  if (!here.status().is_ok()) return here.status();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return nccl_status(ncclCommInitRankConfig(&comm_, size_, id, rank_, &config),
                     "ncclCommInitRankConfig", comm_);
}

Progress Communicator::settle(Status& status) const {
  if (size_ == 1) return Progress::kDone;
  if (comm_ == nullptr) {
    status = Status::peer_lost("the NCCL communicator was aborted");
    return Progress::kFailed;
  }
  ncclResult_t state = ncclSuccess;
  status = nccl_status(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
  if (status.is_ok()) status = nccl_status(state, "NCCL", comm_);
  if (!status.is_ok()) return Progress::kFailed;
  return state == ncclInProgress ? Progress::kWaiting : Progress::kDone;
}

Status Communicator::check() const {
  Status status;
  if (comm_ != nullptr) static_cast<void>(settle(status));
  return status;
}

void Communicator::abort() {
  if (comm_ == nullptr) return;
  const OnDevice here(device_);
  const Status status = nccl_status(ncclCommAbort(comm_), "ncclCommAbort");
  if (!status.is_ok()) log::warning(status.message());
  comm_ = nullptr;
}

// Finalizing is collective: a rank that never comes must not be waited for.
Communicator::~Communicator() {
  if (comm_ == nullptr) return;
  const OnDevice here(device_);
  Status status = nccl_status(ncclCommFinalize(comm_), "ncclCommFinalize", comm_);
  const Clock::time_point deadline = Clock::now() + kLastWait;
  Progress progress = status.is_ok() ? settle(status) : Progress::kFailed;
  while (progress == Progress::kWaiting && Clock::now() < deadline) {
    std::this_thread::sleep_for(kNap);
    progress = settle(status);
  }
  if (progress != Progress::kDone) {
    abort();
    return;
  }
  status = nccl_status(ncclCommDestroy(comm_), "ncclCommDestroy");
  if (!status.is_ok()) log::warning(status.message());
}

}  // namespace kolo::nccl
