// The session between kolo::init() and kolo::shutdown().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <typeinfo>

#include "collectives/mpi/parent.hpp"
#include "core/config.hpp"
#include "core/loader_place.hpp"
#include "core/thread_annotations.hpp"
#include "core/topology.hpp"
#include "engine/engine.hpp"
#include "metrics/server.hpp"
#include "timeline/watcher.hpp"
#include "torch_ops/session/clock_reader.hpp"
#include "torch_ops/session/process_device.hpp"
#include "torch_ops/session/unnamed_names.hpp"

namespace kolo {

struct NodeConnection;

class Session {
 public:
  // `nodes`: see GroupOptions. `job`: a number that no other job has.
  Session(const Config& config, const Topology& topology, std::int64_t job,
          std::unique_ptr<Transport> transport, const NodeConnection& node, std::vector<int> nodes,
          AllreduceTable allreduce);

  // Shuts down, which also ends the timeline, unless shut_down() was called.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Config& config() const { return config_; }
  const Topology& topology() const { return topology_; }
  shm::Node* node() const { return node_.get(); }  // null if memory is not shared
  Engine& engine() { return engine_; }
  ProcessDevice& device() { return device_; }

  // Names for unnamed operations of all ranks. Other process sets have their own.
  UnnamedNames& unnamed() { return unnamed_; }
  // Returns the next number for a DistributedOptimizer.
  std::uint64_t next_optimizer() { return optimizers_++; }
  // Returns the next number for a Checkpoint.
  std::uint64_t next_checkpoint() { return checkpoints_++; }

  // Shuts down like Engine::shut_down(), and ends the timeline.
  bool shut_down();
  // The timeline's clock, or null without a timeline. Used by the program's thread that starts and
  // stops the timeline.
  ClockReader* clock() const { return clock_.get(); }
  // `at_end` is called when the timeline ends.
  void begin_timeline(std::unique_ptr<ClockReader> clock, std::function<void()> at_end);
  void end_timeline();
  // This process's numbers for the program. In a loader process kolo run has assigned them.
  int rank() const { return loader_ ? loader_->ranks + loader_->number : topology_.rank; }
  int size() const { return loader_ ? loader_->ranks : topology_.size; }

  // Returns state that a part of kolo above this folder keeps for the session. The first call
  // creates it.
  template <typename Part>
  std::shared_ptr<Part> part() KOLO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::shared_ptr<void>& kept = parts_[std::type_index(typeid(Part))];
    if (kept == nullptr) kept = std::make_shared<Part>();
    return std::static_pointer_cast<Part>(kept);
  }

  // Releases what a forked child, which has none of the threads, must not keep.
  void leave_to_parent() {
    if (metrics_ != nullptr) metrics_->close_in_child();
    if (lifelines_ != nullptr) lifelines_->drop_own();
  }

 private:
  void serve_metrics();

  const Config config_;
  const Topology topology_;
  const std::optional<LoaderPlace> loader_ = own_loader_place();
  const std::shared_ptr<Lifelines> lifelines_;  // null: alone on its node, or not connected
  const std::shared_ptr<shm::Node> node_;
  UnnamedNames unnamed_;
  std::atomic<std::uint64_t> optimizers_{0};
  std::atomic<std::uint64_t> checkpoints_{0};
  ProcessDevice device_;
  Mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> parts_ KOLO_GUARDED_BY(mutex_);
  Engine engine_;
  std::unique_ptr<ClockReader> clock_;  // null without a timeline
  std::function<void()> at_timeline_end_;
  std::optional<timeline::Watcher> watcher_;
  std::unique_ptr<MetricsServer> metrics_;  // null: not served, or not by this rank
};

// Makes the session of this process. Collective over `parent`. Returns false if there is one
// already.
bool make_session(MpiParent parent);
// Returns the session of this process. Throws NotInitializedError, which names `call`.
std::shared_ptr<Session> session(const char* call);
// Returns null before init() and after shutdown().
std::shared_ptr<Session> session_or_null();
// Whether this process was forked from a rank, and therefore has no session.
bool is_fork_of_rank();

}  // namespace kolo
