#include "engine/device_queue.hpp"

#include <thread>
#include <utility>

#include "core/ranks.hpp"

namespace kolo {
namespace {

// A rank's lifeline may tell of its end some moments after the network does.
constexpr Clock::duration kPatienceWithLifelines = std::chrono::seconds(1);

}  // namespace

Backend& DeviceQueue::backend() {
  if (backend_ != nullptr) return *backend_;
  if (!options_.find_device) throw_if_error(Status::internal("this process has no device"));
  throw_if_error(options_.find_device(device_));
  backend_ = device_->make_backend(host_);
  return *backend_;
}

std::unique_ptr<Work> DeviceQueue::prepared(Turn turn, const Descriptor& descriptor,
                                            std::unique_ptr<Work> work) {
  std::optional<int> peer;
  if (descriptor.is_between_two()) {
    const int source = index_of(options_.ranks, descriptor.root);
    const int destination = index_of(options_.ranks, descriptor.destination);
    peer = source == options_.rank ? destination : source;
  }
  std::unique_ptr<Work> preparation = backend_->preparation(turn, peer);
  if (preparation == nullptr) return work;
  return one_after_the_other(std::move(preparation), std::move(work));
}

Status DeviceQueue::start(RunningCollective& running, bool is_timed) {
  std::vector<std::shared_ptr<DevicePoint>> ready;
  ready.reserve(running.members.size());
  for (const LaunchMember& member : running.members) {
    const auto& on_device = member.operation->on_device;
    if (on_device == nullptr) continue;  // a placeholder
    on_device->queue = backend_->queue();
    ready.push_back(on_device->ready);
  }
  if (Status s = backend_->enter(ready, is_timed); !s.is_ok()) return s;
  return running.work->start();
}

// Finishing a result is enqueued, too, so the point comes after it. The names are free then,
// because later commands are enqueued behind it.
Status DeviceQueue::enqueue(RunningCollective& running) {
  const Completion::Unfinished unfinished = Completion::finish(running.members);
  std::shared_ptr<DevicePoint> results;
  std::shared_ptr<DeviceSpan> span;
  if (Status s = backend_->leave(results, span); !s.is_ok()) return s;
  for (const LaunchMember& member : running.members) {
    if (member.operation->on_device != nullptr) member.operation->on_device->results = results;
  }
  completion_.release(running.members, unfinished);
  if (enqueued_.empty()) moved_ = Clock::now();
  enqueued_.push_back({std::move(running), std::move(results), std::move(span)});
  return Status::ok();
}

Status DeviceQueue::look(bool& moved) {
  if (enqueued_.empty()) return Status::ok();
  if (enqueued_.back().span != nullptr) {
    if (Status s = backend_->compare_clocks(); !s.is_ok()) return s;
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
    moved_ = Clock::now();
    moved = true;
  }
  return Status::ok();
}

Status DeviceQueue::check() const {
  if (backend_ == nullptr) return Status::ok();
  Status status = backend_->check();
  if (status.is_ok()) return status;
  Status named = name_lost_rank(status);
  if (enqueued_.empty()) return named;
  return {named.code(), what_runs(first().members) + ": " + named.message()};
}

Status DeviceQueue::name_lost_rank(const Status& status) const {
  if (status.code() != StatusCode::kPeerLost || options_.lifelines == nullptr) return status;
  const Clock::time_point deadline = Clock::now() + kPatienceWithLifelines;
  do {
    if (const auto lost = options_.lifelines->lost_rank(options_.ranks)) {
      return Status::peer_lost("the process of rank " + std::to_string(*lost) + " has ended; " +
                               status.message());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (Clock::now() < deadline);
  return status;
}

void DeviceQueue::abort() {
  if (backend_ != nullptr) device_->abort();
}

}  // namespace kolo
