// A training rank's side of delivery.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/thread_annotations.hpp"
#include "delivery/link.hpp"
#include "delivery/message.hpp"
#include "delivery/parcel.hpp"

namespace kolo::delivery {

struct ClientOptions {
  std::vector<Address> loaders;
  std::string machine;  // this process's
  Hello hello;
  double timeout_seconds = 300;  // for a batch
  // Then another loader process is asked, too; later if batches take long to load.
  double takeover_seconds = 5;
  double patience_seconds = 10;  // for other loader processes when the first one has answered
};

// Asks loader processes for batches. A request that its loader process does not answer, because it
// died or is slow, goes to another one; which of them answers does not matter, since a request
// names its samples. Any thread may call.
class Client : private LinkEvents {
 public:
  explicit Client(const ClientOptions& options);
  ~Client() override;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Waits until loader processes have said what they serve; for the last ones not for long. Throws
  // DataError if none does, or if they do not serve the same.
  Welcome wait_for_welcome() KOLO_EXCLUDES(mutex_);

  std::size_t loaders() const { return links_.size(); }

  // Waits for a batch. `batch` is its number in the rank's share. Throws DataError if it cannot be
  // loaded, if no loader process is left, after the timeout, and when `is_cancelled` becomes true;
  // wake() must be called then.
  Parcel load(const Request& request, std::uint64_t batch, const std::atomic<bool>& is_cancelled)
      KOLO_EXCLUDES(mutex_);
  void wake() KOLO_EXCLUDES(mutex_);

  // Tells all loader processes that nobody asks for more batches of a loader.
  void withdraw(const std::string& loader) KOLO_EXCLUDES(mutex_);

 private:
  struct LinkState {
    bool is_up = false;
    bool has_reported = false;       // was up, or could not be reached
    bool is_gone = false;            // for good
    std::uint64_t connection = 0;    // counts them
    std::size_t unanswered = 0;      // requests
    std::string why;                 // it is down
    std::uint64_t told_of = 0;       // the connection whose loss was logged last
    Clock::time_point silent_until;  // no warning before
  };
  struct Sent {
    std::size_t link = 0;
    std::uint64_t connection = 0;
    Clock::time_point at;
  };
  struct Pending {
    std::vector<Sent> sent;
    bool is_answered = false;
    bool has_failed = false;
    Parcel parcel;
    std::string error;
  };

  void on_up(std::size_t link, const Welcome& welcome) override KOLO_EXCLUDES(mutex_);
  void on_batch(std::size_t link, std::uint64_t id, Parcel parcel) override KOLO_EXCLUDES(mutex_);
  void on_error(std::size_t link, std::uint64_t id, const std::string& message) override
      KOLO_EXCLUDES(mutex_);
  void on_down(std::size_t link, const std::string& why, bool is_final) override
      KOLO_EXCLUDES(mutex_);

  Clock::duration takeover_after() const KOLO_REQUIRES(mutex_);
  Pending* answered_by(std::size_t link, std::uint64_t id) KOLO_REQUIRES(mutex_);
  bool is_under_way(const Sent& sent) const KOLO_REQUIRES(mutex_);
  // The link to ask next: not one that was asked already; links_.size(): none is up.
  std::size_t choose(const Pending& pending, std::size_t home) const KOLO_REQUIRES(mutex_);
  bool have_all_reported() const KOLO_REQUIRES(mutex_);
  bool are_all_gone() const KOLO_REQUIRES(mutex_);
  std::string why_down() const KOLO_REQUIRES(mutex_);
  std::string asked(const Pending& pending) const KOLO_REQUIRES(mutex_);

  // Constant after construction.
  const ClientOptions options_;

  Mutex mutex_;
  CondVar changed_;
  std::vector<LinkState> states_ KOLO_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Pending> pending_ KOLO_GUARDED_BY(mutex_);
  std::uint64_t next_id_ KOLO_GUARDED_BY(mutex_) = 1;
  Clock::duration slowest_ KOLO_GUARDED_BY(mutex_) = {};  // of the recent answers
  std::optional<Welcome> welcome_ KOLO_GUARDED_BY(mutex_);
  std::string difference_ KOLO_GUARDED_BY(mutex_);  // between what loader processes serve
  bool is_open_ KOLO_GUARDED_BY(mutex_) = false;    // wait_for_welcome() has returned

  std::vector<std::unique_ptr<Link>> links_;  // constant after construction
};

}  // namespace kolo::delivery
