#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "core/clock.hpp"

namespace kolo {
namespace {

constexpr int kRoundTrips = 40;

// step() keeps polling for this long. If it looked again only later, the delay would count as part
// of the round trip.
constexpr Clock::duration kLookOn = std::chrono::microseconds(30);

std::int64_t read_clock() {
  return nanoseconds(Clock::now());
}

// Payload of a question, and of its answer: the answering rank's clock.
using Number = std::int64_t;

class ClockWork final : public Work {
 public:
  ClockWork(Transport& transport, Tag tag, ClockReading& reading, std::function<std::int64_t()> now)
      : transport_(transport),
        tag_(tag),
        reading_(reading),
        now_(now ? std::move(now) : read_clock) {
    const int rank = transport.rank();
    const int low = rank == 0 ? std::numeric_limits<int>::max() : rank & -rank;
    for (int step = 1; step < low && step < transport.size() - rank; step *= 2)
      children_.push_back(rank + step);
    // The child with the largest subtree comes first.
    std::reverse(children_.begin(), children_.end());
    parent_ = rank & (rank - 1);
  }

  Status start() override {
    if (transport_.rank() != 0) return listen();
    const Number begin = now_();
    reading_ = {begin, 0, 0, begin, reading_.run};
    return next_child();
  }

  Progress step(Status& status) override {
    bool moved = false;
    Clock::time_point until = Clock::now() + kLookOn;
    while (!done_) {
      bool ended = false;
      status = poll(ended);
      if (!status.is_ok()) return Progress::kFailed;
      if (ended) {
        status = go_on();
        if (!status.is_ok()) return Progress::kFailed;
        moved = true;
        until = Clock::now() + kLookOn;
      } else if (Clock::now() > until) {
        return moved ? Progress::kAdvanced : Progress::kWaiting;
      }
    }
    return Progress::kDone;
  }

  std::optional<int> waits_for() const override {
    for (const Ticket& ticket : {received_, sent_}) {
      if (ticket.pending()) return transport_.world_peer(ticket);
    }
    return std::nullopt;
  }

 private:
  enum class Phase { kListen, kAsk, kTell };

  // Sets `ended` if no message is in flight any more.
  Status poll(bool& ended) {
    for (Ticket* ticket : {&sent_, &received_}) {
      Status status;
      if (ticket->pending() && transport_.poll(*ticket, status) == Progress::kFailed) return status;
    }
    ended = !sent_.pending() && !received_.pending();
    return Status::ok();
  }

  Status go_on() {
    switch (phase_) {
      case Phase::kListen:
        return answer();
      case Phase::kAsk:
        return learn();
      case Phase::kTell:
        ++child_;
        break;
    }
    return next_child();
  }

  // --- towards the parent ---

  // Receives the next question or, after the last one, the result.
  Status listen() {
    phase_ = Phase::kListen;
    if (asked_ < kRoundTrips)
      return transport_.receive(&question_, sizeof question_, parent_, tag_, received_);
    return transport_.receive(&reading_, sizeof reading_, parent_, tag_, received_);
  }

  Status answer() {
    if (asked_ == kRoundTrips) return next_child();
    ++asked_;
    answer_ = now_();
    if (Status s = transport_.send(&answer_, sizeof answer_, parent_, tag_, sent_); !s.is_ok())
      return s;
    return listen();
  }

  // --- towards the children, one after the other ---

  Status next_child() {
    if (child_ == children_.size()) {
      done_ = true;
      return Status::ok();
    }
    best_.reset();
    trips_ = 0;
    return ask();
  }

  Status ask() {
    phase_ = Phase::kAsk;
    const int child = children_[child_];
    if (Status s = transport_.receive(&answer_, sizeof answer_, child, tag_, received_); !s.is_ok())
      return s;
    begin_ = now_();
    return transport_.send(&question_, sizeof question_, child, tag_, sent_);
  }

  Status learn() {
    const Number end = now_();
    const Number error = (end - begin_ + 1) / 2;
    if (!best_ || error < best_->error)
      best_ = {answer_, begin_ + (end - begin_) / 2 - answer_, error, 0, 0};
    if (++trips_ < kRoundTrips) return ask();
    phase_ = Phase::kTell;
    best_->offset += reading_.offset;
    best_->error += reading_.error;
    best_->start = reading_.start;
    best_->run = reading_.run;
    return transport_.send(&*best_, sizeof *best_, children_[child_], tag_, sent_);
  }

  Transport& transport_;  // outlives every work
  const Tag tag_;
  ClockReading& reading_;  // kept alive by the owner of the work
  const std::function<std::int64_t()> now_;
  int parent_ = 0;
  std::vector<int> children_;
  Phase phase_ = Phase::kListen;
  bool done_ = false;
  Ticket sent_;
  Ticket received_;
  Number question_ = 0;
  Number answer_ = 0;
  int asked_ = 0;  // questions from the parent so far
  std::size_t child_ = 0;
  int trips_ = 0;  // round trips with this child so far
  Number begin_ = 0;
  std::optional<ClockReading> best_;
};

}  // namespace

std::unique_ptr<Work> make_clock_reading(Transport& transport, Tag tag, ClockReading& reading,
                                         std::function<std::int64_t()> now) {
  return std::make_unique<ClockWork>(transport, tag, reading, std::move(now));
}

}  // namespace kolo
