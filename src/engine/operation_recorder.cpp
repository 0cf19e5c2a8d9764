#include "engine/operation_recorder.hpp"

#include <algorithm>
#include <utility>

namespace kolo {

using timeline::OperationEvent;
using timeline::Recorder;
using timeline::State;

namespace {

// Returns the bytes of this rank's values. If ranks may have different numbers of rows, the shape
// is that of one row.
std::uint64_t bytes_of(const Operation& operation) {
  const Descriptor& descriptor = operation.descriptor;
  if (!descriptor.has_own_rows() || operation.tensors.size() != descriptor.tensors.size())
    return descriptor.bytes();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < descriptor.tensors.size(); ++i) {
    sum += static_cast<std::uint64_t>(descriptor.tensors[i].bytes()) *
           static_cast<std::uint64_t>(operation.tensors[i].rows);
  }
  return sum;
}

void describe(const Operation& operation, OperationEvent& event) {
  event.submitted = nanoseconds(operation.submitted);
  event.agreed = event.started = event.data_ready = event.packed = timeline::kNever;
  event.begun = event.reduced = event.ended = timeline::kNever;
  event.sequence = event.bucket = event.members = 0;
  event.state = State::kSubmitted;
  event.medium = Medium::kNone;
  event.wanted = false;
  event.bytes = bytes_of(operation);
  event.step = operation.step;
  event.process_set = operation.process_set;
  event.kind = operation.descriptor.kind;
  event.dtype =
      operation.descriptor.tensors.empty() ? DType::kUint8 : operation.descriptor.tensors[0].dtype;
  event.transient = operation.transient;
  event.name.assign(operation.name);
}

// Clocks are compared with an error. But the device does nothing before the host has started it,
// and nothing after the host has seen it finish.
DeviceTimes within(DeviceTimes times, Nanoseconds begin, Clock::time_point end) {
  Clock::time_point last{std::chrono::nanoseconds(begin)};
  for (Clock::time_point* const time :
       {&times.data_ready, &times.packed, &times.begun, &times.reduced, &times.ended}) {
    if (*time != Clock::time_point{}) *time = last = std::clamp(*time, last, end);
  }
  return times;
}

void end_at(OperationEvent& event, Nanoseconds now, bool is_ok) {
  event.ended = now;
  event.state = is_ok ? State::kDone : State::kFailed;
}

// Returns the place at which the collective as a whole is recorded.
Recorder::Place place_of(const RunningCollective& running) {
  return running.recorded != Recorder::kNowhere ? running.recorded
                                                : running.members.front().operation->recorded;
}

// Uses the device's own times for work that the host has only enqueued.
void note_phases(const RunningCollective& running, const DeviceTimes& times,
                 OperationEvent& event) {
  const bool has_buffer = running.buffer_times.filled != Clock::time_point{};
  if (!running.on_device) {
    event.packed = nanoseconds(running.buffer_times.filled);
    event.reduced = nanoseconds(running.buffer_times.ready);
    return;
  }
  event.data_ready = nanoseconds(times.data_ready);
  event.begun = nanoseconds(times.begun);
  if (!has_buffer) return;
  event.packed = nanoseconds(times.packed);
  event.reduced = nanoseconds(times.reduced);
}

}  // namespace

OperationRecorder::OperationRecorder(int process_set, std::vector<int> ranks,
                                     timeline::Tracing& tracing)
    : process_set_(process_set), ranks_(std::move(ranks)), tracing_(tracing) {}

void OperationRecorder::submitted(Operation& operation) {
  Recorder::Pen pen(tracing_.recorder());
  operation.recorded = pen.begin();
  describe(operation, pen.at(operation.recorded));
}

void OperationRecorder::wanted(const Operation& operation) {
  if (operation.recorded == Recorder::kNowhere) return;  // it has ended
  Recorder::Pen pen(tracing_.recorder());
  pen.at(operation.recorded).wanted = true;
}

void OperationRecorder::launched(RunningCollective& running, Medium medium,
                                 const std::optional<Bucket>& in_bucket) {
  const Nanoseconds now = nanoseconds(running.last_moved);
  const Descriptor& descriptor = running.members.front().operation->descriptor;
  OperationEvent bucket;
  Recorder::Pen pen(tracing_.recorder());
  for (const LaunchMember& member : running.members) {
    const Operation& operation = *member.operation;
    OperationEvent& event = pen.at(operation.recorded);
    event.agreed = now;
    event.sequence = running.sequence;
    event.state = State::kAgreed;
    event.medium = medium;
    if (!in_bucket || operation.placeholder) continue;
    event.bucket = in_bucket->entry;
    if (nanoseconds(operation.submitted) < bucket.submitted) continue;
    bucket.submitted = nanoseconds(operation.submitted);
    bucket.step = operation.step;
    bucket.name = timeline::Name(operation.name);
  }
  if (bucket.submitted == timeline::kNever) return;
  bucket.agreed = now;
  bucket.bytes = in_bucket->bytes;
  bucket.sequence = running.sequence;
  bucket.bucket = in_bucket->entry;
  bucket.members = static_cast<std::uint32_t>(running.members.size());
  bucket.process_set = process_set_;
  bucket.kind = descriptor.kind;
  bucket.dtype = descriptor.tensors[0].dtype;
  bucket.state = State::kAgreed;
  bucket.medium = medium;
  running.recorded = pen.begin();
  pen.at(running.recorded) = bucket;
}

void OperationRecorder::member_ended(const LaunchMember& member, bool succeeded) {
  const Descriptor& descriptor = member.operation->descriptor;
  if (traits_of(descriptor.kind).is_internal) return;
  if (!succeeded) return tracing_.meters().failed();
  const bool gave_nothing = member.operation->absent || member.absent_everywhere;
  tracing_.meters().ended(descriptor.kind, std::max<std::size_t>(1, descriptor.tensors.size()),
                          gave_nothing ? 0 : bytes_of(*member.operation));
}

void OperationRecorder::started(RunningCollective& running) {
  if (timeline::nvtx::on()) {
    const std::string text =
        what_runs(running.members) + ", " + std::to_string(running.bytes) + " bytes";
    running.range = timeline::nvtx::begin(text.c_str());
  }
  {
    Recorder::Pen pen(tracing_.recorder());
    OperationEvent& event = pen.at(place_of(running));
    event.started = nanoseconds(running.last_moved);
    event.state = State::kStarted;
  }
  --tracing_.load.queued;
  ++tracing_.load.running;
  tracing_.load.bytes += running.bytes;
  tracing_.add_load();
}

void OperationRecorder::ended(const RunningCollective& running, const DeviceTimes& told) {
  const Clock::time_point seen = Clock::now();
  if (running.range) timeline::nvtx::end(*running.range);
  if (running.started && !traits_of(running.members.front().operation->descriptor.kind).is_internal)
    tracing_.meters().ran(running.members.size() > 1);
  {
    Recorder::Pen pen(tracing_.recorder());
    const Recorder::Place place = place_of(running);
    OperationEvent& whole = pen.at(place);
    const DeviceTimes times = within(told, whole.started, seen);
    note_phases(running, times, whole);
    const Nanoseconds now = nanoseconds(times.ended == Clock::time_point{} ? seen : times.ended);
    const auto finish = [&](Recorder::Place one) {
      if (one == Recorder::kNowhere) return;  // a placeholder, or there was no room
      OperationEvent& event = pen.at(one);
      end_at(event, now, true);
      const bool is_member = event.bucket != 0 && event.members == 0;
      if (!is_member || tracing_.shows_bucket_members()) tracing_.add(event);
    };
    for (const LaunchMember& member : running.members)
      finish(std::exchange(member.operation->recorded, Recorder::kNowhere));
    const bool is_timed = running.started && whole.agreed != timeline::kNever &&
                          place != Recorder::kNowhere && !traits_of(whole.kind).is_internal;
    if (is_timed) tracing_.meters().ran_in(whole.agreed - whole.submitted, now - whole.started);
    finish(running.recorded);
  }
  if (!running.started) return;
  --tracing_.load.running;
  tracing_.load.bytes -= running.bytes;
  tracing_.add_load();
}

void OperationRecorder::ended(Operation& operation, const Status& status) {
  if (status.is_ok()) {
    tracing_.meters().ended(operation.descriptor.kind, 1, 0);
  } else if (!traits_of(operation.descriptor.kind).is_internal) {
    tracing_.meters().failed();
  }
  const Recorder::Place place = std::exchange(operation.recorded, Recorder::kNowhere);
  if (place == Recorder::kNowhere) return;
  Recorder::Pen pen(tracing_.recorder());
  OperationEvent& event = pen.at(place);
  end_at(event, nanoseconds(Clock::now()), status.is_ok());
  tracing_.add(event);
}

void OperationRecorder::arrived(const Negotiator::Arrival& arrival) {
  timeline::ArrivalEvent event;
  event.at = nanoseconds(Clock::now());
  event.rank = ranks_[static_cast<std::size_t>(arrival.rank)];
  event.process_set = process_set_;
  event.bucket = arrival.bucket;
  event.kind = arrival.kind;
  event.transient = arrival.transient;
  event.name = timeline::Name(arrival.name);
  tracing_.add(event);
}

}  // namespace kolo
