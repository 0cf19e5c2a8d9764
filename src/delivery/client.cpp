#include "delivery/client.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/log.hpp"
#include "delivery/preparation.hpp"
#include "kolo/error.h"

namespace kolo::delivery {
namespace {

// Limits warnings, so that a loader that is lost repeatedly does not fill the log.
constexpr double kSecondsBetweenWarnings = 30;

// Time that a thread may wait. Time in which the process is suspended does not count, because
// nothing can arrive then.
class Budget {
 public:
  explicit Budget(double seconds_at_most) : left_(seconds(seconds_at_most)) {}

  // Must be called often: the time since the last call counts as two seconds at most.
  bool is_spent() {
    const Clock::time_point now = Clock::now();
    left_ -= std::min<Clock::duration>(now - last_, 2 * kSlice);
    last_ = now;
    return left_ <= Clock::duration::zero();
  }
  // Returns when to call is_spent() again.
  Clock::time_point next() const { return last_ + std::min<Clock::duration>(left_, kSlice); }

 private:
  static constexpr std::chrono::seconds kSlice{1};

  Clock::duration left_;
  Clock::time_point last_ = Clock::now();
};

std::string name_of(const Address& address) {
  return address.host + ":" + std::to_string(address.port);
}

std::string text_of(const Welcome& welcome) {
  std::string text;
  for (const LoaderInfo& loader : welcome.loaders) {
    text += (text.empty() ? "'" : ", '") + loader.name + "' with " +
            std::to_string(loader.samples) + " samples (" + loader.settings + ")";
  }
  return text.empty() ? "nothing" : text;
}

std::string described(const Request& request) {
  return "the batch at position " + std::to_string(request.position) + " of epoch " +
         std::to_string(request.epoch) + " of loader '" + request.loader + "'";
}

}  // namespace

Client::Client(const ClientOptions& options) : options_(options), states_(options.loaders.size()) {
  links_.resize(options.loaders.size());
  LinkEvents& events = *this;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    links_[i] = std::make_unique<Link>(
        Link::Options{i, options.loaders[i], options.machine, options.hello}, events);
  }
}

Client::~Client() {
  for (const std::unique_ptr<Link>& link : links_) link->stop();
  links_.clear();  // ends the threads that report events
}

Welcome Client::wait_for_welcome() {
  Budget budget(options_.timeout_seconds);
  std::optional<Budget> for_others;  // set once one has answered
  const MutexLock lock(mutex_);
  while (!welcome_ || !have_all_reported()) {
    if (are_all_gone()) throw DataError("delivery: no loader process is left" + why_down());
    if (welcome_ && !for_others) for_others.emplace(options_.patience_seconds);
    if (for_others && for_others->is_spent()) {
      log::warning("delivery: training goes on with the loader processes that have answered" +
                   why_down());
      break;
    }
    if (budget.is_spent()) {
      throw DataError("delivery: no loader process has answered within " +
                      std::to_string(static_cast<long>(options_.timeout_seconds)) + " s" +
                      why_down());
    }
    changed_.wait_until(mutex_, budget.next());
  }
  is_open_ = true;
  if (!difference_.empty()) throw DataError(difference_);
  return *welcome_;
}

Parcel Client::load(const Request& request, std::uint64_t batch,
                    const std::atomic<bool>& is_cancelled) {
  Budget budget(options_.timeout_seconds);
  const std::size_t home = home_of(batch, options_.hello.rank, links_.size());
  const MutexLock lock(mutex_);
  const std::uint64_t id = next_id_++;
  Pending& pending = pending_[id];
  const auto finished = [&](auto result) KOLO_REQUIRES(mutex_) {
    pending_.erase(id);
    return result;
  };
  Clock::time_point takeover = Clock::now();
  for (;;) {
    if (pending.is_answered) {
      if (pending.has_failed) throw DataError(finished(std::move(pending.error)));
      return finished(std::move(pending.parcel));
    }
    if (is_cancelled) throw DataError(finished("delivery: the loading was cancelled"));
    const Clock::time_point now = Clock::now();
    if (are_all_gone()) {
      throw DataError(finished("delivery: no loader process is left to load " + described(request) +
                               why_down()));
    }
    if (budget.is_spent()) {
      throw DataError(finished("delivery: " + described(request) + " has not come within " +
                               std::to_string(static_cast<long>(options_.timeout_seconds)) + " s" +
                               asked(pending) + why_down()));
    }
    std::erase_if(pending.sent,
                  [&](const Sent& sent) KOLO_REQUIRES(mutex_) { return !is_under_way(sent); });
    const std::size_t link =
        pending.sent.empty() || now >= takeover ? choose(pending, home) : links_.size();
    if (link == links_.size()) {
      const bool can_take_over = now < takeover;
      changed_.wait_until(mutex_,
                          can_take_over ? std::min(takeover, budget.next()) : budget.next());
      continue;
    }
    takeover = now + takeover_after();
    pending.sent.push_back({link, states_[link].connection, now});
    ++states_[link].unanswered;
    mutex_.unlock();
    bool is_sent = true;
    try {
      links_[link]->send(id, request);
    } catch (...) {
      is_sent = false;
    }
    mutex_.lock();
    // The link's thread reports the loss. Until then, no other thread should use this link.
    if (!is_sent && is_under_way(pending.sent.back())) states_[link].is_up = false;
  }
}

// Waits longer if answers are slow, so that a slow loader does not have to do everything twice.
Clock::duration Client::takeover_after() const {
  const Clock::duration most = seconds(options_.timeout_seconds / 2);
  return std::min(most, std::max(seconds(options_.takeover_seconds), 4 * slowest_));
}

bool Client::have_all_reported() const {
  return std::all_of(states_.begin(), states_.end(),
                     [](const LinkState& s) { return s.has_reported; });
}

bool Client::is_under_way(const Sent& sent) const {
  const LinkState& state = states_[sent.link];
  return state.is_up && state.connection == sent.connection;
}

std::size_t Client::choose(const Pending& pending, std::size_t home) const {
  std::size_t best = links_.size();
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const std::size_t link = (home + i) % links_.size();
    const bool is_asked = std::any_of(pending.sent.begin(), pending.sent.end(),
                                      [&](const Sent& sent) { return sent.link == link; });
    if (!states_[link].is_up || is_asked) continue;
    if (best == links_.size() || states_[link].unanswered < states_[best].unanswered) best = link;
  }
  return best;
}

bool Client::are_all_gone() const {
  return std::all_of(states_.begin(), states_.end(), [](const LinkState& s) { return s.is_gone; });
}

std::string Client::why_down() const {
  std::string text;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].is_up) continue;
    text += "; loader " + std::to_string(i) + " (" + name_of(options_.loaders[i]) +
            "): " + (states_[i].why.empty() ? "not connected" : states_[i].why);
  }
  return text;
}

std::string Client::asked(const Pending& pending) const {
  std::string text;
  for (const Sent& sent : pending.sent) {
    text += "; loader " + std::to_string(sent.link) + " (" + name_of(options_.loaders[sent.link]) +
            ") was asked and has not answered";
  }
  return text;
}

void Client::wake() {
  const MutexLock lock(mutex_);
  changed_.notify_all();
}

void Client::withdraw(const std::string& loader) {
  for (const std::unique_ptr<Link>& link : links_) {
    try {
      link->send(Withdraw{loader});
    } catch (const ConnectionLost&) {
      continue;  // it no longer holds anything for this rank
    }
  }
}

// --- of the links' threads ---

void Client::on_up(std::size_t link, const Welcome& welcome) {
  const MutexLock lock(mutex_);
  LinkState& state = states_[link];
  state.has_reported = true;
  if (!welcome_) welcome_ = welcome;
  if (welcome.loaders != welcome_->loaders) {
    const std::string difference = "delivery: loader process " + std::to_string(link) + " (" +
                                   name_of(options_.loaders[link]) + ") serves " +
                                   text_of(welcome) + ", and another one serves " +
                                   text_of(*welcome_) +
                                   "; they must have the same data and options";
    if (!is_open_) difference_ = difference;
    log::error(difference + ". It is not asked for batches");
    state.is_gone = true;
    state.why = "it serves different data";
  } else {
    state.is_up = true;
    state.is_gone = false;
    state.unanswered = 0;
    ++state.connection;
  }
  changed_.notify_all();
}

// Returns null if nobody waits for the answer any more.
Client::Pending* Client::answered_by(std::size_t link, std::uint64_t id) {
  LinkState& state = states_[link];
  if (state.unanswered > 0) --state.unanswered;
  const auto found = pending_.find(id);
  if (found != pending_.end()) {
    for (const Sent& sent : found->second.sent) {
      if (sent.link == link) slowest_ = std::max(Clock::now() - sent.at, slowest_ - slowest_ / 16);
    }
  }
  return found == pending_.end() || found->second.is_answered ? nullptr : &found->second;
}

void Client::on_batch(std::size_t link, std::uint64_t id, Parcel parcel) {
  const MutexLock lock(mutex_);
  Pending* const pending = answered_by(link, id);
  if (pending == nullptr) return;
  pending->is_answered = true;
  pending->parcel = std::move(parcel);
  changed_.notify_all();
}

void Client::on_error(std::size_t link, std::uint64_t id, const std::string& message) {
  const MutexLock lock(mutex_);
  Pending* const pending = answered_by(link, id);
  if (pending == nullptr) return;
  pending->is_answered = true;
  pending->has_failed = true;
  pending->error = message;
  changed_.notify_all();
}

void Client::on_down(std::size_t link, const std::string& why, bool is_final) {
  const MutexLock lock(mutex_);
  LinkState& state = states_[link];
  const Clock::time_point now = Clock::now();
  const bool is_new = state.connection != state.told_of;
  if (is_new && now >= state.silent_until) {
    state.silent_until = now + seconds(kSecondsBetweenWarnings);
    state.told_of = state.connection;
    log::warning("delivery: loader process " + std::to_string(link) + " (" +
                 name_of(options_.loaders[link]) + ") is lost (" + why +
                 "); other loader processes load what it had not delivered, or it does so itself "
                 "once it can be reached again");
  }
  state.has_reported = true;
  state.is_up = false;
  state.is_gone = state.is_gone || is_final;
  state.why = why;
  changed_.notify_all();
}

}  // namespace kolo::delivery
