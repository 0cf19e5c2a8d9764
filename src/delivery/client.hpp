// The client of delivery, in a training rank.
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
  std::string machine;  // of this process
  Hello hello;
  double timeout_seconds = 300;  // for a batch
  // Delay before another loader process is asked, too. Longer if batches take long to load.
  double takeover_seconds = 5;
  double patience_seconds = 10;  // wait for other loader processes after the first answer
};

// Requests batches from loader processes. If a loader process does not answer because it died or is
// slow, the request goes to another one. Any of them may answer, because a request names its
// samples. Any thread may call.
class Client : private LinkEvents {
 public:
  explicit Client(const ClientOptions& options);
  ~Client() override;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Waits until the loader processes have reported what they serve; once one has, waits only a
  // short time for the others. Throws DataError if none reports, or if they do not serve the same.
  Welcome wait_for_welcome() KOLO_EXCLUDES(mutex_);

  std::size_t loaders() const { return links_.size(); }

  // Waits for a batch. `batch` is its number in the rank's share. Throws DataError if it cannot be
  // loaded, if no loader process is left, after the timeout, and when `is_cancelled` becomes true.
  // Whoever sets `is_cancelled` must call wake().
  Parcel load(const Request& request, std::uint64_t batch, const std::atomic<bool>& is_cancelled)
      KOLO_EXCLUDES(mutex_);
  void wake() KOLO_EXCLUDES(mutex_);

  // Tells all loader processes that this rank requests no more batches of a loader.
  void withdraw(const std::string& loader) KOLO_EXCLUDES(mutex_);

 private:
  struct LinkState {
    bool is_up = false;
    bool has_reported = false;       // has been up, or could not be reached
    bool is_gone = false;            // for good
    std::uint64_t connection = 0;    // number of the current connection
    std::size_t unanswered = 0;      // requests
    std::string why;                 // reason for being down
    std::uint64_t told_of = 0;       // connection whose loss was logged last
    Clock::time_point silent_until;  // no warning before this time
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
  // Returns the link to ask next, among those not asked yet; links_.size() if none is up.
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
  std::string difference_ KOLO_GUARDED_BY(mutex_);  // between the offers of loader processes
  bool is_open_ KOLO_GUARDED_BY(mutex_) = false;    // wait_for_welcome() has returned

  std::vector<std::unique_ptr<Link>> links_;  // constant after construction
};

}  // namespace kolo::delivery
