// Collectives that the host has enqueued on a device, where they are carried out later.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/backend.hpp"
#include "collectives/device.hpp"
#include "collectives/lifelines.hpp"
#include "core/clock.hpp"
#include "core/status.hpp"
#include "engine/completion.hpp"
#include "engine/operation_recorder.hpp"
#include "engine/running_collective.hpp"

namespace kolo {

// Used by the thread that drives.
class DeviceQueue {
 public:
  struct Options {
    std::vector<int> ranks;  // of the group, in the world
    int rank = 0;            // this one's place among them
    // Returns this process's device, which is made when its first collective is about to run. Null:
    // there is no device.
    std::function<Status(std::shared_ptr<Device>& device)> find_device;
    std::shared_ptr<const Lifelines> lifelines;  // or null
  };

  // `host`: the group's backend for host memory. All arguments outlive this.
  DeviceQueue(Options options, Backend& host, Completion& completion, OperationRecorder& recorder)
      : options_(std::move(options)), host_(host), completion_(completion), recorder_(recorder) {}

  // The backend of the device. The first call makes it; all ranks make this call at the same place
  // of the sequence. Throws if there is no device.
  Backend& backend();

  // Returns `work`, preceded by the device's one-time preparation, of the group or of a pair of
  // ranks, if that is still due. Only after backend().
  std::unique_ptr<Work> prepared(Turn turn, const Descriptor& descriptor,
                                 std::unique_ptr<Work> work);

  // Starts a collective when its tensors have their values on the device.
  Status start(RunningCollective& running, bool is_timed);
  // The work of a collective is done: all of it is enqueued. Ends its operations, whose results
  // come later, and takes it over until then. After an error the caller keeps it.
  Status enqueue(RunningCollective& running);
  // Lets go of the collectives that the device has carried out.
  Status look(bool& moved);

  // An error if the device or a peer has failed.
  Status check() const;
  // Adds to an error of the device which rank is lost, which NCCL does not say.
  Status name_lost_rank(const Status& status) const;
  // Ends what waits for lost ranks.
  void abort();

  bool is_empty() const { return enqueued_.empty(); }
  std::size_t size() const { return enqueued_.size(); }
  // The queue must not be empty.
  const RunningCollective& first() const { return enqueued_.front().running; }
  const RunningCollective& last() const { return enqueued_.back().running; }
  // When the first one became the first.
  Clock::time_point moved() const { return moved_; }
  void count_from(Clock::time_point now) { moved_ = now; }

 private:
  // A collective that has ended for the program, while the device still uses its tensors.
  struct Enqueued {
    RunningCollective running;
    std::shared_ptr<DevicePoint> results;
    std::shared_ptr<DeviceSpan> span;  // null: not timed
  };

  const Options options_;
  Backend& host_;
  Completion& completion_;
  OperationRecorder& recorder_;
  std::shared_ptr<Device> device_;          // null until backend() was called
  std::unique_ptr<DeviceBackend> backend_;  // likewise
  std::deque<Enqueued> enqueued_;           // in the device's order
  Clock::time_point moved_;
};

}  // namespace kolo
