// Timelines that a test makes up, as ranks write them.
#pragma once

#include <fstream>
#include <string>

#include "timeline/trace_text.hpp"

namespace kolo::tools {

// Milliseconds since rank 0's start, on rank 0's clock.
inline constexpr double kStart = 500'000;

class RankTimeline {
 public:
  struct Settings {
    int size = 2;
    std::string host = "node";
    std::string program;
    std::string cores;
    std::int64_t ahead = 0;        // nanoseconds that its clock shows more than rank 0's
    std::int64_t clock_error = 0;  // nanoseconds
    std::size_t bucket_bytes = 4 << 20;
    std::int64_t run = 7;
  };
  RankTimeline(int rank, const Settings& settings)
      : rank_(rank), settings_(settings), lines_(origin(rank, settings)) {
    lines_.head(text_);
    lines_.add(text_, timeline::ClockEvent{here(0), -settings.ahead, settings.clock_error});
  }

  void step(std::int64_t number, double begin, double end) {
    scope(timeline::ScopeEvent::Kind::kStep, number, "", begin, end, kThread);
  }
  void wait(std::int64_t step, const std::string& name, double begin, double end,
            std::int32_t thread = kThread) {
    scope(timeline::ScopeEvent::Kind::kWait, step, name, begin, end, thread);
  }
  void trace(std::int64_t step, const std::string& name, double begin, double end) {
    scope(timeline::ScopeEvent::Kind::kScope, step, name, begin, end, kThread);
  }

  struct Times {
    double submitted = 0;
    double agreed = 0;
    double started = 0;
    double ended = 0;
  };
  // A tensor that travels alone.
  void tensor(std::int64_t step, std::uint64_t sequence, const std::string& name,
              std::uint64_t bytes, const Times& times, OpKind kind = OpKind::kAllreduce) {
    timeline::OperationEvent event = operation(step, sequence, name, bytes, times);
    event.kind = kind;
    lines_.add(text_, event);
  }
  void bucket(std::int64_t step, std::uint64_t sequence, std::uint64_t number,
              std::uint32_t members, std::uint64_t bytes, const Times& times) {
    timeline::OperationEvent event = operation(step, sequence, "", bytes, times);
    event.bucket = number;
    event.members = members;
    event.packed = event.started;
    event.reduced = event.ended;
    lines_.add(text_, event);
  }
  void member(std::int64_t step, std::uint64_t sequence, std::uint64_t bucket,
              const std::string& name, double submitted, double agreed) {
    timeline::OperationEvent event =
        operation(step, sequence, name, 4, {submitted, agreed, agreed, agreed});
    event.bucket = bucket;
    lines_.add(text_, event);
  }

  void write(const std::string& folder, bool ended = true) {
    if (ended) lines_.end(text_);
    std::ofstream(folder + "/timeline-rank-" + std::to_string(rank_) + ".json") << text_;
  }

 private:
  static constexpr std::int32_t kThread = 77;

  static timeline::Origin origin(int rank, const Settings& settings) {
    timeline::Origin origin;
    origin.rank = rank;
    origin.size = settings.size;
    origin.host = settings.host;
    origin.program = settings.program;
    origin.cores = settings.cores;
    origin.process = kThread;
    origin.run = settings.run;
    origin.start = static_cast<std::int64_t>(kStart * 1e6) + settings.ahead;
    origin.shift = -origin.start;
    origin.bucket_bytes = settings.bucket_bytes;
    return origin;
  }

  std::int64_t here(double milliseconds) const {
    return static_cast<std::int64_t>((kStart + milliseconds) * 1e6) + settings_.ahead;
  }

  void scope(timeline::ScopeEvent::Kind kind, std::int64_t step, const std::string& name,
             double begin, double end, std::int32_t thread) {
    timeline::ScopeEvent event;
    event.begin = here(begin);
    event.end = here(end);
    event.step = step;
    event.thread = thread;
    event.kind = kind;
    event.name = timeline::Name(name);
    lines_.add(text_, event);
  }

  timeline::OperationEvent operation(std::int64_t step, std::uint64_t sequence,
                                     const std::string& name, std::uint64_t bytes,
                                     const Times& times) const {
    timeline::OperationEvent event;
    event.submitted = here(times.submitted);
    event.agreed = here(times.agreed);
    event.started = here(times.started);
    event.ended = here(times.ended);
    event.bytes = bytes;
    event.sequence = sequence;
    event.step = step;
    event.state = timeline::State::kDone;
    event.medium = Medium::kShm;
    event.name = timeline::Name(name);
    return event;
  }

  const int rank_;
  const Settings settings_;
  timeline::TraceText lines_;
  std::string text_;
};

}  // namespace kolo::tools
