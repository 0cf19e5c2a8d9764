// A rank's half of the control plane, as a state machine without I/O: submissions and waits of the
// program go in, reports for the coordinator come out; decisions go in, actions for the engine come
// out. Used by the thread that drives.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "coordinator/plan.hpp"
#include "coordinator/wire.hpp"
#include "core/clock.hpp"

namespace kolo {

class Participant {
 public:
  // The caller's number for a submission. Actions return it.
  using Token = std::uint64_t;

  struct Submission {
    Token token = 0;
    const std::string& name;
    const Descriptor& descriptor;  // lives until the token comes back
    bool absent = false;           // nothing to give: zeros, see wire::Announce
    bool transient = false;        // the name will not come again
    Clock::time_point at;          // when it was submitted, see flush()
    bool plannable = true;   // submitted at a time that the program knows: may go into a bucket
    BucketPlace place = {};  // where BucketBegins has put the name, if that is known
  };

  // --- actions, in the order in which they must be carried out ---
  struct Placeholder {
    std::string name;
    Descriptor descriptor;
  };
  struct Member {
    Token token = 0;  // 0: this rank has joined and gives nothing, but must take part
    bool absent_everywhere = false;
    std::unique_ptr<const Placeholder> placeholder;  // if token is 0
  };
  struct Launch {                // run the collective of these tensors now
    std::uint64_t sequence = 0;  // the same on every rank
    EntryId entry = 0;
    std::vector<Member> members;
  };
  struct Failure {  // the submission ends with an error
    Token token = 0;
    Status status;
  };
  struct BucketMember {
    std::string name;
    Descriptor descriptor;
  };
  struct BucketBegins {  // from now on these tensors may be put into a common buffer
    EntryId bucket = 0;
    std::vector<BucketMember> members;
  };
  struct BucketEnds {
    EntryId bucket = 0;
  };
  struct Joined {  // every rank has joined
    Token token = 0;
    int last_rank = 0;
  };
  struct Closed {};  // every rank has left
  struct Stalled {   // some ranks wait for others, in words
    std::string text;
  };
  using Action = std::variant<Launch, Failure, BucketBegins, BucketEnds, Joined, Closed, Stalled>;

  // Beyond `cache_capacity` names, rank 0 lets the coordinator forget some. (Other ranks ignore
  // it.)
  Participant(int rank, std::size_t cache_capacity)
      : rank_(rank), cache_capacity_(cache_capacity) {}

  // Submits a tensor. No tensor of that name may be in flight on this rank in the same name space.
  // Returns whether it has a number, so that no name is sent.
  bool submit(const Submission& submission);

  // A thread of the program begins to wait for the tensor of that name (or asks whether it is
  // done): if it is in a bucket that is not full, the bucket is given up.
  void wanted(NameSpace name_space, const std::string& name);

  // The program begins to wait: the submissions since the last boundary had no wait between them.
  void boundary();

  // Gives up every bucket that is partly full, with a tensor that was submitted before `then`.
  // Returns how many.
  std::size_t flush(Clock::time_point then);

  // The program submits nothing until all ranks have joined.
  void join(Token token);

  // The program submits nothing any more.
  void leave();

  // Sends this rank's counters to the coordinator.
  void tell_measures(std::vector<std::uint64_t> numbers) {
    report_.emplace_back(wire::Measures{std::move(numbers)});
  }

  // Returns the records for the coordinator since the last call.
  wire::Report take_report();

  // Carries out decisions. An error means that the coordinator violates the protocol.
  Status apply(const wire::Decisions& decisions, std::vector<Action>& actions);

 private:
  struct Bucket;

  enum class Phase : std::uint8_t {
    kIdle,
    kHeld,      // submitted, and held back until its bucket is full
    kReported,  // the coordinator has been told
  };

  struct Tensor {
    NameSpace name_space = 0;
    std::string name;
    EntryId id = 0;  // 0: the coordinator has given none
    Descriptor descriptor;
    std::uint64_t executions = 0;  // and failures, since the id was given
    Bucket* bucket = nullptr;      // owned by buckets_
    std::uint64_t bucket_base = 0;
    std::uint64_t last_used = 0;  // in submissions_' count
    bool cached = false;          // counts in rank 0's cached_
    // The submission in flight.
    Phase phase = Phase::kIdle;
    bool by_id = false;  // reported by number, not by name
    Token token = 0;
    const Descriptor* submitted = nullptr;  // the caller's
    bool absent = false;
    bool transient = false;
    Clock::time_point at;
    bool wanted = false;

    bool in_flight() const { return phase != Phase::kIdle; }
    bool in_bucket() const { return bucket != nullptr && executions >= bucket_base; }
  };

  struct Bucket {  // a bucket as this rank sees it
    EntryId id = 0;
    std::vector<Tensor*> members;  // owned by tensors_
    std::size_t held = 0;
    std::size_t reported = 0;

    bool full() const { return held + reported == members.size(); }
  };

  bool is_known(EntryId id) const { return by_id_.count(id) != 0 || buckets_.count(id) != 0; }
  Status on(const wire::Assign& record, std::vector<Action>& actions);
  Status on(const wire::Bucket& record, std::vector<Action>& actions);
  Status on(const wire::Execute& record, std::vector<Action>& actions);
  Status on(const wire::Fail& record, std::vector<Action>& actions);
  Status on(const wire::Dissolve& record, std::vector<Action>& actions);
  Status on(const wire::Evict& record, std::vector<Action>& actions);
  Status on(const wire::Joined& record, std::vector<Action>& actions);
  Status on(const wire::Stalled& record, std::vector<Action>& actions);
  Status on(const wire::Bye& record, std::vector<Action>& actions);
  Status on(const wire::Abort& record, std::vector<Action>& actions);

  Tensor& tensor_of(const Submission& submission);
  Tensor* find(NameSpace name_space, const std::string& name) const;
  Tensor& find_or_create(NameSpace name_space, const std::string& name);
  void announce(Tensor& tensor, bool again = false);
  void report_alone(Tensor& tensor);
  void report_if_full(Bucket& bucket);
  void give_up(Bucket& bucket);
  void end_submission(Tensor& tensor);
  Status stays_in_flight(Tensor& tensor);
  void used(Tensor& tensor);
  void uncache(Tensor& tensor);
  void forget(Tensor& tensor);
  Status take_part(Tensor& tensor, Launch& launch);
  std::vector<EntryId> choose_evictions();

  const int rank_;
  const std::size_t cache_capacity_;
  using ByName = std::unordered_map<std::string, std::unique_ptr<Tensor>>;
  std::array<ByName, kNameSpaces> tensors_;
  std::unordered_map<EntryId, Tensor*> by_id_;
  std::unordered_map<EntryId, std::unique_ptr<Bucket>> buckets_;
  wire::Report report_;
  std::uint64_t sequence_ = 0;  // executions so far
  std::uint64_t submissions_ = 0;
  Token join_ = 0;                   // the join in flight
  std::vector<EntryId> ended_here_;  // buckets that this rank gave up; reported to the engine with
                                     // the next decisions
  // For rank 0. Both depend on what the program does, never on when messages come.
  std::vector<wire::Submitted> together_;  // see wire::Boundary
  std::size_t cached_ = 0;                 // names that may come again and are not being evicted
};

}  // namespace kolo
