// A timeline: what each rank does when, in files for Perfetto, chrome://tracing and `kolo trace`.
// See docs/timeline.md.
#pragma once

#include <torch/arg.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace kolo {

// Options of a timeline.
struct TimelineOptions {
  // true: a span for each tensor, also if it is reduced in a bucket. false: one span for each
  // bucket, for models of many thousands of tensors.
  TORCH_ARG(bool, bucket_members) = true;
};

// Starts a timeline: each rank writes timeline-rank-N.json into the folder, which is created if it
// does not exist. Existing files are replaced. init() starts a timeline if KOLO_TIMELINE names a
// folder. Collective over all ranks. Throws FileError on all ranks if one of them cannot write, and
// InvalidArgumentError if a timeline is already running.
void start_timeline(const std::string& folder, const TimelineOptions& options = {});

// Ends the timeline and completes the files. Does nothing if no timeline is running. Collective;
// shutdown() also completes this rank's file, without the other ranks.
void stop_timeline();

// Ends a training step and begins the next one; `kolo trace` shows how the time of each step was
// spent. Steps are numbered from 1. The first DistributedOptimizer that makes a step calls this by
// itself, unless the program has called it before. Not collective.
void mark_step();

namespace detail {

extern std::atomic<bool> timeline_is_on;

}  // namespace detail

// The result of trace(). The timeline shows its lifetime as a span.
class [[nodiscard]] TraceScope {
 public:
  // Made by trace().
  explicit TraceScope(std::string_view name) {
    if (detail::timeline_is_on.load(std::memory_order_relaxed)) begin(name);
  }
  ~TraceScope() {
    if (begin_ != 0) end();
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  void begin(std::string_view name);
  void end() noexcept;

  std::string name_;
  std::int64_t begin_ = 0;  // 0: the timeline was off
};

// Shows in the timeline what the thread does until the end of the scope. Scopes of a thread may be
// nested. Costs one branch while no timeline is running. Not collective; any thread.
//
//   const auto scope = kolo::trace("forward");
inline TraceScope trace(std::string_view name) {
  return TraceScope(name);
}

}  // namespace kolo
