// The engine: one thread a process that owns the transport, the control plane and all work in
// flight. docs/architecture.md shows the journey of a tensor through it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "coordinator/backoff.hpp"
#include "coordinator/control_plane.hpp"
#include "coordinator/launch.hpp"
#include "coordinator/mailbox.hpp"
#include "coordinator/operation.hpp"

namespace kolo {

class Engine {
 public:
  struct Options {
    LaunchOptions launch;
    PlanLimits limits;
    std::size_t cache_capacity = 16384;
    Clock::duration fusion_hold = std::chrono::seconds(30);
    Clock::duration collective_timeout = std::chrono::seconds(300);
    Clock::duration shutdown_timeout = std::chrono::seconds(30);
    Backoff::Options backoff;
  };

  // Takes the transport over and starts the thread.
  Engine(std::unique_ptr<Transport> transport, const Options& options);

  // Shuts down, see shut_down(). After a failure the transport, the work in flight and its memory
  // are left to the end of the process instead of being freed: a message may still arrive in them.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // --- any thread ---

  // Hands an operation over. It ends when the same was submitted on every rank. An error means that
  // it was not taken.
  Status submit(const std::shared_ptr<Operation>& operation);

  // Waits for the end, at most `timeout`. Gives the operation's status, or kTimeout: then the
  // operation goes on.
  Status wait(const std::shared_ptr<Operation>& operation, std::optional<Clock::duration> timeout);

  // Whether wait() would return at once.
  bool ready(const std::shared_ptr<Operation>& operation);

  // Collective. Ends operations that this rank has submitted and others will too; those that cannot
  // end fail. Waits for the other ranks to shut down, at most the shutdown timeout. Submissions
  // from now on fail. False if the engine had failed: then messages may be under way for ever, and
  // what the transport stands on must not be ended in a way that waits for them.
  bool shut_down();

 private:
  struct Running {
    std::unique_ptr<Work> work;
    std::vector<LaunchMember> members;
    std::uint64_t sequence = 0;
    bool small = false;
    bool started = false;
    Clock::time_point last_moved;
  };

  void run();
  bool turn();  // one round of the loop; whether something moved
  bool drain_mailbox();
  bool advance_control();
  void carry_out(const Participant::Launch& launch);
  void carry_out(const Participant::Failure& failure);
  void carry_out(const Participant::BucketBegins& bucket);
  void carry_out(const Participant::BucketEnds& bucket);
  void carry_out(const Participant::Joined& joined);
  void carry_out(const Participant::Closed& closed);
  std::shared_ptr<Operation> take_pending(Participant::Token token);
  bool start_and_step_work();
  bool step(Running& running);
  static Progress start_or_step(Running& running, Status& status);
  void end(Running& running);
  void complete(const std::shared_ptr<Operation>& operation, Status status, bool absent_everywhere);
  void watch_timers();
  void watch_held_tensors(Clock::time_point now);
  void watch_shutdown();
  void break_down(const Status& status);
  bool nothing_to_do() const;
  void park();

  // Constant after construction.
  const Options options_;
  const int rank_;
  const int size_;

  // Shared between threads; locks itself.
  Mailbox mailbox_;

  // The engine thread's; after it has ended, shut_down()'s.
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<ControlPlane> control_;
  Backoff backoff_;
  std::vector<Mailbox::Entry> entries_;
  std::unordered_map<Participant::Token, std::shared_ptr<Operation>> pending_;  // not launched yet
  std::list<Running> running_;                                                  // by sequence
  std::unordered_map<UnitId, BucketBuffer> buckets_;
  std::unordered_map<UnitId, std::vector<std::string>> bucket_names_;
  Participant::Token next_token_ = 1;
  Clock::time_point next_look_at_held_;
  std::optional<Clock::time_point> leave_deadline_;  // set while shutting down
  bool closed_ = false;                              // all ranks have left
  bool broken_ = false;                              // a peer is lost
  Status broken_status_;                             // why

  std::thread thread_;  // last: it uses all the others
};

}  // namespace kolo
