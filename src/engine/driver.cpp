#include "engine/driver.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "core/log.hpp"

namespace kolo {
namespace {

// Longest sleep of a coordinator on several nodes whose own program submits nothing. Ranks of its
// node wake it; messages of others do not.
constexpr Clock::duration kCoordinatorNap = std::chrono::milliseconds(100);

// Limits where submitters drive. The engine's thread leaves the engine to them for kLookInterval,
// and for twice as long after each look in vain, because a look takes a core from them. A submitter
// makes at most kMostTurns.
constexpr Clock::duration kLookInterval = std::chrono::milliseconds(1);
constexpr Clock::duration kLongestLookInterval = std::chrono::milliseconds(8);
constexpr int kMostTurns = 64;

// Other ranks hardly ever wait for a tensor that was packed into its bucket's buffer. One in this
// many of these submissions drives.
constexpr std::uint32_t kPackedBetweenTurns = 16;

// Without this the kernel may add 50 us to each short sleep.
void prepare_thread() {
  pthread_setname_np(pthread_self(), "kolo-engine");
  if (prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL) != 0)
    log::debug("prctl(PR_SET_TIMERSLACK) failed");
}

}  // namespace

Driver::Driver(Driven& engine, const Backoff::Options& backoff, bool submitters_drive,
               std::shared_ptr<shm::Doorbell::Lines> doorbell)
    : engine_(engine),
      parking_(submitters_drive ? std::optional(kLookInterval) : std::nullopt, std::move(doorbell)),
      submitters_drive_(submitters_drive),
      backoff_(backoff),
      look_interval_(kLookInterval) {}

void Driver::start() {
  thread_ = std::thread([this] { run(); });
}

// --- submitting threads ---

void Driver::submitted(bool packed) {
  if (submitters_drive_ && is_time_to_help(packed)) help();
}

bool Driver::is_time_to_help(bool packed) {
  return !packed || packed_.fetch_add(1, std::memory_order_relaxed) % kPackedBetweenTurns == 0;
}

// Advances everything that need not wait, unless another thread drives.
void Driver::help() noexcept {
  if (!seat_.try_lock()) return;
  if (!engine_.has_ended()) {
    int turns = 0;
    for (; turns < kMostTurns && engine_.turn(); ++turns) backoff_.reset();
    if (turns < kMostTurns) parking_.helped();
  }
  seat_.unlock();
}

void Driver::leave_computing_to_device() {
  backoff_.leave_computing_to_device();
  if (!backoff_.has_core()) return;
  submitters_drive_ = false;
  parking_.lose_patience();
}

// --- waiting threads ---

void Driver::drive(const Operation& operation, std::optional<Clock::time_point> deadline,
                   bool ends) noexcept {
  const MutexLock seat(seat_);
  backoff_.reset();
  while (!operation.done() && !engine_.has_ended()) {
    if (visitors_ > 0) {  // everything may have ended meanwhile
      let_visitors_in();
      continue;
    }
    if (engine_.turn()) {
      backoff_.reset();
      continue;
    }
    engine_.watch_timers();
    const Clock::time_point now = Clock::now();
    if (deadline && now >= *deadline) break;
    const std::optional<Clock::duration> sleep = backoff_.pause(true);
    if (!sleep) continue;
    parking_.rest(deadline ? std::min(*deadline, now + *sleep) : now + *sleep);
  }
  backoff_.reset();
  if (ends) leave_seat();
}

void Driver::end() noexcept {
  const MutexLock seat(seat_);
  leave_seat();
}

// Called with the seat held. Otherwise a submitting thread that drives in between would believe
// that another thread drives, and its unfinished work would be left to nobody.
void Driver::leave_seat() {
  parking_.end(!engine_.has_ended() && engine_.state() != Driven::State::kIdle);
}

void Driver::visit(const std::function<void()>& function) {
  struct Visit {
    explicit Visit(std::atomic<int>& all) : visitors(all) { ++visitors; }
    ~Visit() { --visitors; }
    std::atomic<int>& visitors;
  };
  const Visit visit(visitors_);
  // A thread of the program that drives has the seat while it rests, too. If it misses this call,
  // it looks again after a quarter of a millisecond.
  parking_.call();
  const MutexLock seat(seat_);
  function();
}

void Driver::let_visitors_in() {
  seat_.unlock();
  wait_for_visitors();
  seat_.lock();
}

void Driver::wait_for_visitors() const {
  while (visitors_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool Driver::wait(const Operation& operation, std::optional<Clock::time_point> deadline) {
  const Parking::Waiter waiter(parking_);
  return operation.wait_until(deadline);
}

// --- the engine's own thread ---

void Driver::run() {
  prepare_thread();
  std::optional<Clock::time_point> sleep_until;
  bool sleeps = false;
  while (run_one_turn(sleep_until, sleeps)) {
    if (sleeps || parking_.is_replaced()) parking_.park(sleep_until);
    wait_for_visitors();  // a mutex alone would let this thread in again and again
  }
}

// Returns false if the thread may end. Without a value in `sleep_until` the thread sleeps until a
// submission comes.
bool Driver::run_one_turn(std::optional<Clock::time_point>& sleep_until, bool& sleeps) {
  const MutexLock seat(seat_);
  sleeps = false;
  sleep_until = Clock::now();
  if (engine_.turn()) {
    backoff_.reset();
    look_interval_ = kLookInterval;
    moved_ = true;
    return true;
  }
  engine_.watch_timers();
  const Driven::State state = engine_.state();
  if (state == Driven::State::kLeaving && engine_.may_end()) return false;
  sleeps = true;
  if (state == Driven::State::kIdle || state == Driven::State::kBroken) {
    rest_idle(sleep_until, sleeps);
    return true;
  }
  const bool wanted = parking_.somebody_waits() || state == Driven::State::kLeaving;
  std::optional<Clock::duration> sleep = backoff_.pause(wanted);
  sleeps = sleep.has_value();
  if (sleeps && submitters_drive_ && !wanted) {
    sleep = look_interval_;
    look_interval_ = std::min(look_interval_ * 2, kLongestLookInterval);
  }
  if (sleep) sleep_until = Clock::now() + *sleep;
  return true;
}

void Driver::rest_idle(std::optional<Clock::time_point>& sleep_until, bool& sleeps) {
  backoff_.reset();
  // Other ranks need a coordinator also while its own program does something else.
  if (engine_.coordinates_messages()) {
    sleep_until = Clock::now() + kCoordinatorNap;
    return;
  }
  // More will come soon. Being woken for each message would take more of the program's time than
  // this nap.
  if (std::exchange(moved_, false)) {
    sleep_until = Clock::now() + kLookInterval;
    return;
  }
  sleep_until = engine_.next_watch();
  parking_.listen();
  // Looks once more for what came before this rank listened.
  moved_ = engine_.turn();
  sleeps = !moved_;
  if (moved_) parking_.stop_listening();
}

}  // namespace kolo
