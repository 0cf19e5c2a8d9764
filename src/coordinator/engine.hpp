// The engine: one thread a process that owns the transport, the control planes and all work in
// flight. docs/architecture.md shows the journey of a tensor through it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/backoff.hpp"
#include "coordinator/group.hpp"
#include "coordinator/mailbox.hpp"
#include "coordinator/operation.hpp"

namespace kolo {

class Engine {
 public:
  struct Options {
    GroupOptions group;
    Clock::duration shutdown_timeout = std::chrono::seconds(30);
    Backoff::Options backoff;
  };

  // Takes the transport over and starts the thread. `node`: what the ranks of this node share, or
  // null.
  Engine(std::unique_ptr<Transport> transport, std::shared_ptr<shm::Node> node,
         const Options& options);

  // Shuts down, see shut_down(). After a failure the transport, the work in flight and its memory
  // are left to the end of the process instead of being freed: a message may still arrive in them.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // --- any thread ---

  // Hands an operation over. It ends when the same was submitted on every rank of its process set.
  // An error means that it was not taken.
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
  struct ProcessSet {                    // one that exists, whether this rank is a member or not
    int slot = 0;                        // of the transport's tags
    std::unique_ptr<Group> group;        // null: not a member
    std::shared_ptr<Operation> removal;  // ends when the group has
  };

  void run();
  bool turn();  // one round of the loop; whether something moved
  bool drain_mailbox();
  void submit_to_group(const std::shared_ptr<Operation>& operation);
  bool turn_groups();
  void change_process_sets();
  void add_process_set(const std::shared_ptr<Operation>& operation);
  void remove_process_set(const std::shared_ptr<Operation>& operation);
  void forget_finished_sets();
  std::optional<int> free_slot() const;
  void make_group(int process_set, ProcessSet& set, const std::vector<int>& ranks);
  void leave();
  void watch_timers();
  void watch_shutdown();
  void break_down(const Status& status);
  bool nothing_to_do() const;
  void park();
  Group* group(int process_set);
  Group& world() { return *sets_.at(0).group; }
  template <typename Predicate>
  bool any_group(const Predicate& predicate) const;

  // Constant after construction.
  const Options options_;
  const int rank_;
  const int size_;

  // Shared between threads; locks itself.
  Mailbox mailbox_;

  // The engine thread's; after it has ended, shut_down()'s.
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<shm::Node> node_;
  std::map<int, ProcessSet> sets_;  // by number; 0 is the world
  int next_process_set_ = 1;
  Backoff backoff_;
  std::vector<Mailbox::Entry> entries_;
  std::optional<Clock::time_point> leave_deadline_;  // set while shutting down
  bool waits_no_more_ = false;                       // the deadline has passed
  bool broken_ = false;                              // a peer is lost
  Status broken_status_;                             // why

  std::thread thread_;  // last: it uses all the others
};

}  // namespace kolo
