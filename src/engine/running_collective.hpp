// A collective that was launched, with its members and the places where it is recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/work.hpp"
#include "core/clock.hpp"
#include "engine/launch.hpp"
#include "timeline/nvtx.hpp"
#include "timeline/recorder.hpp"

namespace kolo {

struct RunningCollective {
  std::unique_ptr<Work> work;
  std::vector<LaunchMember> members;
  std::uint64_t sequence = 0;
  std::size_t bytes = 0;
  timeline::Recorder::Place recorded = timeline::Recorder::kNowhere;  // of a bucket
  Work::BufferTimes buffer_times;
  std::optional<timeline::nvtx::Range> range;  // open while it runs; empty if NVTX is off
  bool small = false;
  bool started = false;
  bool on_device = false;
  Clock::time_point last_moved;
};

}  // namespace kolo
