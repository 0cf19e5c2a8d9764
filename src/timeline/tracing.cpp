#include "timeline/tracing.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace kolo::timeline {
namespace {

// Of 200 B: what a tenth of a second brings, many times over.
constexpr std::size_t kRingEvents = 32768;

constexpr std::size_t kRecordedOperations = 10000;

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

void Tracing::keep_quiet() {
  if (const std::shared_ptr<Writer> there = writer()) there->keep_quiet();
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
  // What came after the last stop.
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
