#include "collectives/nccl/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "collectives/nccl/check.hpp"
#include "core/clock.hpp"
#include "core/log.hpp"

namespace kolo::nccl {
namespace {

// How long the end of communicators is waited for: all ranks come to it, or have died.
constexpr Clock::duration kLastWait = std::chrono::seconds(5);
constexpr Clock::duration kNap = std::chrono::milliseconds(1);

Status abort_as_one(int device, const std::vector<ncclComm_t>& communicators) {
  const OnDevice here(device);
  if (!here.status().is_ok()) return here.status();
  return in_group([&] {
    Status status;
    for (ncclComm_t one : communicators) {
      const Status aborted = nccl_status(ncclCommAbort(one), "ncclCommAbort");
      if (status.is_ok()) status = aborted;
    }
    return status;
  });
}

// ncclCommAbort() tells the device to end what it is at, and then waits until all is over on the
// streams: also what another communicator, or the program, has put there before. So all are aborted
// as one, and what does not end for another reason is left to itself.
void abort_all(int device, std::vector<ncclComm_t> communicators) {
  if (communicators.empty()) return;
  const auto over = std::make_shared<std::promise<void>>();
  const std::future<void> is_over = over->get_future();
  try {
    std::thread([over, device, all = std::move(communicators)] {
      const Status status = abort_as_one(device, all);
      if (!status.is_ok()) log::warning(status.message());
      over->set_value();
    }).detach();
  } catch (const std::system_error& error) {
    log::warning(std::string("no thread can abort what is enqueued on this rank's device: ") +
                 error.what());
    return;
  }
  if (is_over.wait_for(kLastWait) != std::future_status::ready) {
    log::warning(
        "what is enqueued on this rank's device does not end, though NCCL was told to abort it: "
        "the program's own work there may be stuck");
  }
}

}  // namespace

void Communicators::abort() {
  std::vector<ncclComm_t> all;
  for (Communicator* one : made_) {
    if (one->comm_ != nullptr) all.push_back(std::exchange(one->comm_, nullptr));
  }
  abort_all(device_, std::move(all));
}

Communicator::Communicator(Communicators& all, int rank, int size)
    : all_(all), rank_(rank), size_(size) {
  all_.made_.push_back(this);
}

Status Communicator::begin(const ncclUniqueId& id) {
  const OnDevice here(all_.device());
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

// Finalizing is collective: a rank that never comes must not be waited for.
Communicator::~Communicator() {
  all_.made_.erase(std::find(all_.made_.begin(), all_.made_.end(), this));
  if (comm_ == nullptr) return;
  const OnDevice here(all_.device());
  Status status = nccl_status(ncclCommFinalize(comm_), "ncclCommFinalize", comm_);
  const Clock::time_point deadline = Clock::now() + kLastWait;
  Progress progress = status.is_ok() ? settle(status) : Progress::kFailed;
  while (progress == Progress::kWaiting && Clock::now() < deadline) {
    std::this_thread::sleep_for(kNap);
    progress = settle(status);
  }
  if (progress != Progress::kDone) {
    abort_all(all_.device(), {comm_});
    return;
  }
  status = nccl_status(ncclCommDestroy(comm_), "ncclCommDestroy");
  if (!status.is_ok()) log::warning(status.message());
}

}  // namespace kolo::nccl
