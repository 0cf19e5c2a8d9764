#include "collectives/nccl/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
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

// Longest wait for communicators to end: all ranks end theirs, or have died.
constexpr Clock::duration kLastWait = std::chrono::seconds(5);
constexpr Clock::duration kFinalizing = std::chrono::seconds(2);
constexpr Clock::duration kNap = std::chrono::milliseconds(1);

// Starts `action` on a thread that nobody joins. The result is ready when the action has returned,
// or could not be started.
std::future<void> on_own_thread(std::function<void()> action) {
  auto over = std::make_shared<std::promise<void>>();
  std::future<void> is_over = over->get_future();
  try {
    std::thread([over, action = std::move(action)] {
      action();
      over->set_value();
    }).detach();
  } catch (const std::system_error& error) {
    log::warning(std::string("no thread can end NCCL's communicators on this rank: ") +
                 error.what());
    over->set_value();
  }
  return is_over;
}

// Aborts all communicators at once. ncclCommAbort() makes the device end what it does, and then
// waits until its streams are empty, also of commands that another communicator or the program has
// enqueued before. Commands that do not end for another reason are left alone.
void abort_all(int device, const std::vector<ncclComm_t>& communicators) {
  std::vector<std::future<void>> ends;
  ends.reserve(communicators.size());
  for (ncclComm_t one : communicators) {
    ends.push_back(on_own_thread([device, one] {
      const OnDevice here(device);
      const Status status = nccl_status(ncclCommAbort(one), "ncclCommAbort");
      if (!status.is_ok()) log::warning(status.message());
    }));
  }
  const Clock::time_point deadline = Clock::now() + kLastWait;
  for (const std::future<void>& one : ends) {
    if (one.wait_until(deadline) == std::future_status::ready) continue;
    log::warning(
        "the work that is enqueued on this rank's device does not end, although NCCL was asked to "
        "abort it: the program's own work on the device may be stuck");
    return;
  }
}

Progress progress_of(ncclComm_t communicator, Status& status) {
  ncclResult_t state = ncclSuccess;
  status = nccl_status(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError",
                       communicator);
  if (status.is_ok()) status = nccl_status(state, "NCCL", communicator);
  if (!status.is_ok()) return Progress::kFailed;
  return state == ncclInProgress ? Progress::kWaiting : Progress::kDone;
}

// Finalizing waits for enqueued commands, and destroying waits for other ranks' threads.
void finalize_and_destroy(int device, ncclComm_t communicator) {
  const OnDevice here(device);
  Status status = nccl_status(ncclCommFinalize(communicator), "ncclCommFinalize", communicator);
  const Clock::time_point deadline = Clock::now() + kFinalizing;
  Progress progress = status.is_ok() ? progress_of(communicator, status) : Progress::kFailed;
  while (progress == Progress::kWaiting && Clock::now() < deadline) {
    std::this_thread::sleep_for(kNap);
    progress = progress_of(communicator, status);
  }
  status = progress == Progress::kDone
               ? nccl_status(ncclCommDestroy(communicator), "ncclCommDestroy")
               : nccl_status(ncclCommAbort(communicator), "ncclCommAbort");
  if (!status.is_ok()) log::warning(status.message());
}

}  // namespace

void Communicators::wait_for_ends() {
  const Clock::time_point deadline = Clock::now() + kLastWait;
  for (const std::future<void>& one : std::exchange(ending_, {})) {
    if (one.wait_until(deadline) == std::future_status::ready) continue;
    log::warning("NCCL does not end a communicator of this rank: another rank may be gone");
    return;
  }
}

void Communicators::end(ncclComm_t communicator) {
  ending_.erase(std::remove_if(ending_.begin(), ending_.end(),
                               [](const std::future<void>& one) {
                                 return one.wait_for(Clock::duration::zero()) ==
                                        std::future_status::ready;
                               }),
                ending_.end());
  ending_.push_back(on_own_thread(
      [device = device_, communicator] { finalize_and_destroy(device, communicator); }));
}

void Communicators::abort() {
  std::vector<ncclComm_t> all;
  for (Communicator* one : made_) {
    if (one->comm_ != nullptr) all.push_back(std::exchange(one->comm_, nullptr));
  }
  abort_all(device_, all);
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
  return progress_of(comm_, status);
}

Status Communicator::check() const {
  Status status;
  if (comm_ != nullptr) static_cast<void>(settle(status));
  return status;
}

Communicator::~Communicator() {
  all_.made_.erase(std::find(all_.made_.begin(), all_.made_.end(), this));
  if (comm_ != nullptr) all_.end(comm_);
  if (all_.made_.empty()) all_.wait_for_ends();
}

}  // namespace kolo::nccl
