#include "kolo/timeline.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/host.hpp"
#include "kolo/error.h"
#include "kolo/objects.h"
#include "torch_ops/ops/background_set.hpp"
#include "torch_ops/session/session.hpp"

namespace kolo {

std::atomic<bool> detail::timeline_is_on{false};

namespace {

std::vector<std::string> gather(const ProcessSet& set, const std::string& text) {
  return detail::allgather_bytes([&] { return text; },
                                 OperationOptions("kolo.timeline").process_set(set));
}

}  // namespace

// Completes all collective steps before it throws, so that no rank waits.
void start_timeline(const std::string& folder, const TimelineOptions& options) {
  const std::shared_ptr<Session> running = session("start_timeline");
  const ProcessSet set = background_set(*running);
  if (running->clock() != nullptr)
    throw InvalidArgumentError("start_timeline: a timeline is on; call stop_timeline() first");
  const Topology& topology = running->topology();
  std::unique_ptr<timeline::TraceFile> file;
  const Status opened = folder.empty()
                            ? Status::invalid_argument("start_timeline: the folder's name is empty")
                            : timeline::TraceFile::open(folder, topology.rank, file);
  const std::vector<std::string> problems = gather(set, opened.message());
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    if (file != nullptr) file->remove();
    throw FileError("rank " + std::to_string(rank) + ": " + problems[rank]);
  }
  auto clock = std::make_unique<ClockReader>(running->engine(), set.id());
  ClockReading reading;
  throw_if_error(clock->read(unix_nanoseconds(), reading));
  timeline::Origin origin;
  origin.rank = topology.rank;
  origin.size = topology.size;
  origin.host = host_name();
  origin.program = program_name();
  origin.cores = core_list(usable_cores());
  origin.process = ::getpid();
  origin.run = reading.run;
  origin.start = nanoseconds(Clock::now());
  origin.shift = reading.offset - reading.start;
  origin.bucket_bytes = static_cast<std::size_t>(running->config().fusion_threshold_bytes);
  timeline::Tracing& tracing = running->engine().tracing();
  ClockReader& reader = *clock;
  running->begin_timeline(std::move(clock), [] { detail::timeline_is_on = false; });
  tracing.show_bucket_members(options.bucket_members());
  tracing.start(std::move(file), origin, [&reader] { reader.read_now_and_then(); });
  tracing.add(timeline::ClockEvent{reading.at, reading.offset, reading.error});
  detail::timeline_is_on = true;
  gather(set, "");  // what follows is in the timelines of all ranks
}

void stop_timeline() {
  const std::shared_ptr<Session> running = session("stop_timeline");
  ClockReader* const clock = running->clock();
  if (clock == nullptr) return;
  timeline::Tracing& tracing = running->engine().tracing();
  tracing.keep_quiet();
  // Some ranks may have begun a reading that others have not.
  std::int64_t most = 0;
  for (const std::string& count :
       gather(background_set(*running), std::to_string(clock->readings())))
    most = std::max<std::int64_t>(most, std::stoll(count));
  throw_if_error(clock->catch_up(most));
  ClockReading reading;
  throw_if_error(clock->read(0, reading));
  running->end_timeline();
}

void mark_step() {
  static const char own_steps = 0;
  session("mark_step")->engine().tracing().end_step(&own_steps);
}

void TraceScope::begin(std::string_view name) {
  name_ = name;
  begin_ = nanoseconds(Clock::now());
}

void TraceScope::end() noexcept {
  const std::shared_ptr<Session> running = session_or_null();
  if (running == nullptr) return;  // it was shut down meanwhile
  timeline::ScopeEvent event;
  event.begin = begin_;
  event.end = nanoseconds(Clock::now());
  event.step = running->engine().tracing().step();
  event.thread = timeline::this_thread();
  event.name = timeline::Name(name_);
  running->engine().tracing().add(event);
}

}  // namespace kolo
