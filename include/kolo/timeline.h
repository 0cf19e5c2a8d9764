// A timeline: what each rank does when, in files for Perfetto, chrome://tracing and `kolo trace`.
// See docs/timeline.md.
#pragma once

#include <torch/arg.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace kolo {

// What a timeline shows.
struct TimelineOptions {
  // A span for each tensor, also of those that travel in a bucket together. false: then only one
  // for the bucket, for models of many thousands of tensors.
  TORCH_ARG(bool, bucket_members) = true;
};

// Collective over all ranks. From now on each rank writes timeline-rank-N.json into the folder,
// which is made if need be; a file that is there is replaced. Also begun by init() where
// KOLO_TIMELINE names a folder. Throws FileError, on all ranks, where one cannot write, and
// InvalidArgumentError while a timeline is on.
void start_timeline(const std::string& folder, const TimelineOptions& options = {});

// Collective. The files are complete afterwards. Nothing where no timeline is on. shutdown() does
// the same without the others.
void stop_timeline();

// Not collective. A step of training ends here, and the next one begins; `kolo trace` tells what
// each was spent on. Steps are numbered from 1 on. The first DistributedOptimizer that makes a step
// does this by itself; a program that calls it before that counts its own steps instead.
void mark_step();

namespace detail {

extern std::atomic<bool> timeline_is_on;

}  // namespace detail

// What trace() gives: its life is shown in the timeline.
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

// Not collective; any thread. Shows in the timeline what the thread does until the end of the
// scope; scopes of a thread may lie in each other. Costs a branch while no timeline is on.
//
//   const auto scope = kolo::trace("forward");
inline TraceScope trace(std::string_view name) {
  return TraceScope(name);
}

}  // namespace kolo
