// Notices operations, ranks and devices that do not go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/stall.hpp"
#include "core/clock.hpp"
#include "core/status.hpp"
#include "engine/operation.hpp"
#include "engine/running_collective.hpp"

namespace kolo {

struct WatchdogOptions {
  std::vector<int> ranks;  // of the group, in the world
  int rank = 0;            // this one's place among them
  bool on_one_node = false;
  Clock::duration collective_timeout = std::chrono::seconds(300);
  // After these times an operation that some ranks have submitted and others have not is logged,
  // and ends the job. 0: never.
  Clock::duration stall_check = Clock::duration::zero();
  Clock::duration stall_shutdown = Clock::duration::zero();
  // Longest time for which an operation waits for others of its bucket before it is announced.
  Clock::duration fusion_hold = std::chrono::seconds(30);
  // Given ranks of the world, return those that are stopped, and one that has ended, as far as this
  // node shows. Null: not known.
  std::function<std::vector<int>(const std::vector<int>& ranks)> stopped_ranks;
  std::function<std::optional<int>(const std::vector<int>& ranks)> lost_rank;
};

// A group at one moment.
struct GroupSnapshot {
  Clock::time_point now;
  const std::list<RunningCollective>& running;  // by sequence
  const std::vector<std::shared_ptr<Operation>>&
      pending;  // not launched; may contain nulls, which are skipped
  struct OnDevice {
    const RunningCollective* first = nullptr;
    const RunningCollective* last = nullptr;
    std::size_t count = 0;
    Clock::time_point moved;  // when the first one became the first
  };
  std::optional<OnDevice> on_device;           // enqueued there; empty: nothing is
  std::optional<Clock::time_point> leaving;    // since when this rank leaves the group
  bool is_closed = false;                      // all have left, or are not waited for any more
  const std::vector<Stall>* stalls = nullptr;  // on the coordinator
};

struct Findings {
  Status status;                      // an error ends the job
  std::vector<std::string> warnings;  // for this rank's log
  std::vector<std::string> stalls;    // to be counted, with a flight record for each
  std::string announcement;           // of the coordinator for all ranks; or empty
};

// Decides from snapshots. It remembers its last looks and what it has reported. Its methods read no
// clock, and look at no rank but by the functions of its options.
class Watchdog {
 public:
  explicit Watchdog(WatchdogOptions options) : options_(std::move(options)) {}

  // Return whether the interval between two looks has passed, and start the next one.
  bool is_time_for_stalls(Clock::time_point now);
  bool is_time_for_ranks(Clock::time_point now);

  // A collective has moved no byte for longer than the timeout.
  Status check_timeouts(const GroupSnapshot& group) const;
  // A rank that is waited for has ended. MPI may not notice that.
  Status check_ranks(const GroupSnapshot& group);
  // Operations that some ranks have not submitted, and collectives that are slow.
  Findings look_for_stalls(const GroupSnapshot& group);

  // The coordinator has reported a stall.
  void heard_of_stall(Clock::time_point now) { heard_of_stall_ = now; }
  // This process was suspended until now.
  void start_over() { seen_lost_.reset(); }

 private:
  // A collective that has started and does not move, the first of its kind.
  struct Slow {
    std::string text;
    std::uint64_t sequence = 0;
    std::uint64_t last_sequence = 0;  // of all that is under way
  };

  std::string stopped() const;
  std::string this_rank() const;
  std::string cause(const Work& work) const;
  std::string cause_on_device() const;
  std::string first_without_progress(const GroupSnapshot& group) const;
  std::optional<Slow> slow_running(const GroupSnapshot& group, Clock::duration patience) const;
  std::optional<Slow> slow_on_device(const GroupSnapshot& group, Clock::duration patience) const;
  void report(const std::optional<Slow>& slow, std::uint64_t& reported, Findings& findings) const;
  void look_as_coordinator(const GroupSnapshot& group, Findings& findings);
  void look_at_coordinator(const GroupSnapshot& group, Findings& findings);
  bool ends_job(Clock::duration age) const;

  const WatchdogOptions options_;
  Clock::time_point next_look_for_stalls_;
  Clock::time_point next_look_at_ranks_;
  ToldStalls told_;
  Clock::time_point heard_of_stall_;           // from the coordinator, or of its silence
  std::uint64_t slow_reported_ = 0;            // up to this sequence number, exclusive
  std::uint64_t slow_on_device_reported_ = 0;  // likewise
  std::optional<int> seen_lost_;               // at the last look; in the world
};

}  // namespace kolo
