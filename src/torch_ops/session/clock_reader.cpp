#include "torch_ops/session/clock_reader.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace kolo {
namespace {

// Limit of the pause between readings. Pauses are short at first, so that short jobs are aligned,
// too.
constexpr Clock::duration kMostPause = std::chrono::seconds(30);

}  // namespace

ClockReader::Reading ClockReader::begin(std::int64_t run) {
  Reading reading;
  reading.result = std::make_shared<ClockReading>();
  reading.result->run = run;
  auto operation = std::make_shared<Operation>();
  operation->name = "kolo.clock." + std::to_string(count_++);
  operation->process_set = process_set_;
  operation->transient = true;
  operation->descriptor.kind = OpKind::kClock;
  operation->descriptor.tensors = {{DType::kInt64, {sizeof(ClockReading) / sizeof(std::int64_t)}}};
  operation->tensors = {{reading.result.get(), 0}};
  operation->finish = [result = reading.result, &tracing = engine_.tracing()] {
    timeline::ClockEvent event;
    event.at = result->at;
    event.offset = result->offset;
    event.error = result->error;
    tracing.add(event);
  };
  if (engine_.submit(operation).is_ok()) reading.operation = std::move(operation);
  return reading;
}

Status ClockReader::read(std::int64_t run, ClockReading& reading) {
  last_ = begin(run);
  if (last_.operation == nullptr)
    return Status::not_initialized("the clocks cannot be compared: kolo has ended");
  if (Status status = engine_.wait(last_.operation, std::nullopt); !status.is_ok()) return status;
  reading = *last_.result;
  return Status::ok();
}

void ClockReader::read_now_and_then() {
  if (Clock::now() < next_) return;
  if (last_.operation != nullptr && !last_.operation->done()) return;
  last_ = begin(0);
  pause_ = std::min(2 * pause_, kMostPause);
  next_ = Clock::now() + pause_;
}

Status ClockReader::catch_up(std::int64_t count) {
  while (count_ < count) {
    ClockReading reading;
    if (Status status = read(0, reading); !status.is_ok()) return status;
  }
  if (last_.operation == nullptr) return Status::ok();
  return engine_.wait(last_.operation, std::nullopt);
}

}  // namespace kolo
