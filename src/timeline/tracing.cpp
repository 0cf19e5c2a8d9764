#include "timeline/tracing.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "core/log.hpp"
#include "timeline/wake.hpp"

namespace kolo::timeline {
namespace {

// Events of 200 B each: many times as many as a tenth of a second brings.
constexpr std::size_t kRingEvents = 32768;

constexpr std::size_t kRecordedOperations = 10000;

// A thread that is later than this did not merely wait for a core.
constexpr Nanoseconds kFrozen = 2'000'000'000;
constexpr Nanoseconds kJustNow = 10'000'000'000;

}  // namespace

std::int32_t this_thread() {
  static thread_local const auto number = static_cast<std::int32_t>(::syscall(SYS_gettid));
  return number;
}

Tracing::Tracing() : recorder_(kRecordedOperations) {}

Tracing::~Tracing() {
  stop();
}

void Tracing::add(const Event& event) {
  EventRing* const ring = active_.load(std::memory_order_acquire);
  if (ring == nullptr) return;
  const std::optional<std::uint64_t> count = ring->push(event);
  if (!count || *count % (ring->capacity() / 4) != 0) return;
  if (const std::shared_ptr<Writer> there = writer()) there->wake();
}

std::shared_ptr<Writer> Tracing::writer() {
  const MutexLock lock(mutex_);
  return writer_;
}

Measures Tracing::measures() const {
  Measures now = meters_.copy();
  now.step = static_cast<std::uint64_t>(step());
  return now;
}

void Tracing::keep_quiet() {
  if (const std::shared_ptr<Writer> there = writer()) there->keep_quiet();
}

void Tracing::set_flight(const FlightOrigin& origin) {
  const MutexLock lock(notes_);
  flight_ = origin;
}

FlightOrigin Tracing::flight() {
  const MutexLock lock(notes_);
  return flight_;
}

std::string Tracing::record(const std::string& reason) {
  const FlightOrigin origin = flight();
  if (origin.folder.empty() || is_over()) return "";
  const FlightNote note{reason, step(), frozen_for(nanoseconds(Clock::now()))};
  return flight_text(origin, note, recorder_.copy());
}

// Only rank 0 logs a warning, because a line of each rank would be too many. The others' files are
// in the same folder.
void Tracing::write(const std::string& text) {
  if (text.empty()) return;
  const FlightOrigin origin = flight();
  std::string path;
  const Status status = write_flight(origin, text, path);
  if (!status.is_ok()) return log::warning(status.message());
  const std::string note = "flight recorder written to " + path + "; kolo trace diagnose " +
                           origin.folder + " shows where ranks diverged";
  origin.rank == 0 ? log::warning(note) : log::info(note);
}

void Tracing::dump(const std::string& reason) {
  const MutexLock lock(dump_);
  write(record(reason));
}

void Tracing::write_last(const std::string& record) {
  const MutexLock lock(dump_);
  if (!over_.exchange(true)) write(record);
}

void Tracing::ask_for_dump(const std::string& reason) {
  {
    const MutexLock lock(notes_);
    reason_ = reason;
  }
  wake_watcher(kWakeToDump);
}

void Tracing::hand_over_last(const std::string& record, Clock::duration patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  const MutexLock lock(notes_);
  last_ = record;
  wake_watcher(kWakeToDump);
  bool in_time = true;
  while (watched_ && last_ && in_time) in_time = last_changed_.wait_until(notes_, deadline);
}

void Tracing::set_watched(bool watched) {
  const MutexLock lock(notes_);
  watched_ = watched;
  last_changed_.notify_all();
}

void Tracing::write_what_was_asked() {
  std::optional<std::string> reason;
  std::optional<std::string> last;
  {
    const MutexLock lock(notes_);
    reason = std::exchange(reason_, std::nullopt);
    last = last_;
  }
  if (!last) return dump(reason.value_or("SIGUSR2"));
  write_last(*last);
  const MutexLock lock(notes_);
  last_ = std::nullopt;
  last_changed_.notify_all();
}

void Tracing::alive(Clock::time_point now, Clock::duration next) {
  const Nanoseconds late = nanoseconds(now) - awake_until_;
  if (awake_until_.exchange(nanoseconds(now + next)) == kNever || late < kFrozen) return;
  frozen_ = late;
  thawed_ = nanoseconds(now);
}

// Correct whichever thread runs first after the process was stopped.
Nanoseconds Tracing::frozen_for(Nanoseconds now) const {
  const Nanoseconds awake_until = awake_until_;
  if (awake_until != kNever && now - awake_until > kFrozen) return now - awake_until;
  return thawed_ != kNever && now - thawed_ < kJustNow ? frozen_.load() : 0;
}

void Tracing::add_load() {
  if (!on()) return;
  load.at = nanoseconds(Clock::now());
  add(load);
}

void Tracing::end_step(const void* caller) {
  const Nanoseconds now = nanoseconds(Clock::now());
  ScopeEvent event;
  {
    const MutexLock lock(mutex_);
    if (stepper_ == nullptr) stepper_ = caller;
    if (stepper_ != caller) return;
    event.step = step_.fetch_add(1, std::memory_order_relaxed);
    event.begin = std::exchange(step_began_, now);
  }
  if (event.begin == kNever || !on()) return;
  event.end = now;
  event.thread = this_thread();
  event.kind = ScopeEvent::Kind::kStep;
  add(event);
}

void Tracing::stop_counting(const void* caller) {
  const MutexLock lock(mutex_);
  if (stepper_ == caller) stepper_ = nullptr;
}

void Tracing::start(std::unique_ptr<TraceFile> file, const Origin& origin,
                    std::function<void()> now_and_then) {
  const MutexLock lock(mutex_);
  if (ring_ == nullptr) ring_ = std::make_unique<EventRing>(kRingEvents);
  // Drops events that came after the last stop.
  Event late;
  while (ring_->pop(late)) {
  }
  ring_->take_dropped();
  step_began_ = origin.start;
  writer_ = std::make_shared<Writer>(*ring_, std::move(file), origin, std::move(now_and_then));
  active_.store(ring_.get(), std::memory_order_release);
}

void Tracing::stop() {
  active_.store(nullptr, std::memory_order_release);
  std::shared_ptr<Writer> writer;
  {
    const MutexLock lock(mutex_);
    writer = std::move(writer_);
  }
  if (writer != nullptr) writer->finish();
}

}  // namespace kolo::timeline
