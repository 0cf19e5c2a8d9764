// How a group works with a device, where what is done is enqueued and comes to pass later.
#include <thread>
#include <utility>

#include "coordinator/group.hpp"
#include "core/ranks.hpp"

namespace kolo {
namespace {

// A rank's lifeline may tell of its end some moments after the network does.
constexpr Clock::duration kPatienceWithLifelines = std::chrono::seconds(1);

}  // namespace

// The first time something is on a device, it and what works there are made; all ranks come here in
// the same place of the one sequence.
Backend& Group::backend_on(DeviceKind device) {
  if (device == DeviceKind::kCpu) return *backend_;
  if (device_backend_ != nullptr) return *device_backend_;
  if (!options_.find_device) throw_if_error(Status::internal("this process has no device"));
  throw_if_error(options_.find_device(device_));
  device_backend_ = device_->make_backend(*backend_);
  return *device_backend_;
}

std::unique_ptr<Work> Group::prepare_first(Turn turn, const Descriptor& descriptor,
                                           std::unique_ptr<Work> work) {
  std::optional<int> peer;
  if (descriptor.is_between_two()) {
    const int source = index_of(options_.launch.ranks, descriptor.root);
    const int destination = index_of(options_.launch.ranks, descriptor.destination);
    peer = source == transport_->rank() ? destination : source;
  }
  std::unique_ptr<Work> preparation = device_backend_->preparation(turn, peer);
  if (preparation == nullptr) return work;
  return one_after_the_other(std::move(preparation), std::move(work));
}

Status Group::start(RunningCollective& running) {
  if (running.on_device) {
    std::vector<std::shared_ptr<DevicePoint>> ready;
    ready.reserve(running.members.size());
    for (const LaunchMember& member : running.members) {
      const auto& on_device = member.operation->on_device;
      if (on_device == nullptr) continue;  // a stand-in
      on_device->queue = device_backend_->queue();
      ready.push_back(on_device->ready);
    }
    if (Status s = device_backend_->enter(ready, tracing_.on()); !s.is_ok()) return s;
  }
  return running.work->start();
}

// All is enqueued. What finishes a result is enqueued, too, so the point comes after it; names are
// free then, for whatever comes next is enqueued behind.
Status Group::end_on_device(RunningCollective& running) {
  const Unfinished unfinished = finish_all(running.members);
  std::shared_ptr<DevicePoint> results;
  std::shared_ptr<DeviceSpan> span;
  if (Status s = device_backend_->leave(results, span); !s.is_ok()) return s;
  for (const LaunchMember& member : running.members) {
    if (member.operation->on_device != nullptr) member.operation->on_device->results = results;
  }
  tell(running.members, unfinished);
  if (enqueued_.empty()) device_moved_ = Clock::now();
  enqueued_.push_back({std::move(running), std::move(results), std::move(span)});
  return Status::ok();
}

// Lets go of what the device has done with.
Status Group::look_at_device(bool& moved) {
  if (enqueued_.back().span != nullptr) {
    if (Status s = device_backend_->compare_clocks(); !s.is_ok()) return s;
  }
  while (!enqueued_.empty()) {
    const Enqueued& first = enqueued_.front();
    Status status;
    const Progress progress = first.results->look(status);
    if (progress == Progress::kFailed) return status;
    if (progress == Progress::kWaiting) break;
    recorder_.ended(first.running, first.span == nullptr ? DeviceTimes{} : first.span->times());
    for (const LaunchMember& member : first.running.members) member.operation->let_go();
    enqueued_.pop_front();
    device_moved_ = Clock::now();
    moved = true;
  }
  return Status::ok();
}

void Group::abort_device() {
  if (device_backend_ != nullptr) device_->abort();
}

// NCCL says that a rank is lost, but not which one.
Status Group::name_lost_rank(const Status& status) const {
  if (status.code() != StatusCode::kPeerLost || options_.lifelines == nullptr) return status;
  const Clock::time_point deadline = Clock::now() + kPatienceWithLifelines;
  do {
    if (const auto lost = options_.lifelines->lost_rank(options_.launch.ranks)) {
      return Status::peer_lost("the process of rank " + std::to_string(*lost) + " has ended; " +
                               status.message());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (Clock::now() < deadline);
  return status;
}

Status Group::watch_device(Clock::time_point now) {
  if (device_backend_ == nullptr) return Status::ok();
  if (const Status s = device_backend_->check(); !s.is_ok()) {
    Status named = name_lost_rank(s);
    if (enqueued_.empty()) return named;
    return {named.code(), what_runs(enqueued_.front().running.members) + ": " + named.message()};
  }
  if (enqueued_.empty() || now - device_moved_ <= options_.collective_timeout) return Status::ok();
  return Status::peer_lost(
      what_runs(enqueued_.front().running.members) + " was enqueued on the device of rank " +
      std::to_string(options_.launch.ranks[static_cast<std::size_t>(transport_->rank())]) + " " +
      to_text(options_.collective_timeout) + " ago and has not ended: " + what_stops_devices() +
      ". See KOLO_COLLECTIVE_TIMEOUT_SECONDS");
}

}  // namespace kolo
