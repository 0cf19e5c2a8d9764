// The coordinator's half of the control plane, as a state machine without I/O: reports of the ranks
// go in, decisions for all ranks come out, in one order. Lives on the first rank of the group.
//
// A tensor is executed when it has arrived from every rank and all agree on what it is. Known
// tensors that rank 0's program submits together, twice, without waiting in between, form a bucket
// from then on and are executed at once when all of them have arrived. The members of a bucket and
// its first and last execution depend only on what programs do, never on the order of messages:
// decisions about buckets name executions by their number.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/attendance.hpp"
#include "coordinator/negotiated_tensor.hpp"
#include "coordinator/plan.hpp"
#include "coordinator/stall.hpp"
#include "coordinator/wire.hpp"
#include "core/clock.hpp"
#include "core/operations.hpp"

namespace kolo {

// The coordinator's view of a bucket: tensors that are executed together.
struct NegotiatedBucket {
  EntryId id = 0;
  std::vector<NegotiatedTensor*> members;  // owned by the negotiator
  std::size_t complete = 0;                // members that have arrived from every rank
  std::uint64_t executions = 0;
  // For the next execution. If true, members may have arrived one by one, and they count their
  // arrivals. If false, `whole` has the ranks that have reported the whole bucket; this is the
  // usual case as long as no rank has left or joined.
  bool one_by_one = true;
  std::vector<bool> whole;
  int wholes = 0;
  Clock::time_point since;  // the first report of the whole bucket
};

class Negotiator {
 public:
  struct Options {
    std::vector<int> ranks;  // the group's, in the world: messages name these
    PlanLimits limits;
  };

  // Records that a rank of the group has come with a tensor, or with all of a bucket.
  struct Arrival {
    int rank = 0;
    EntryId bucket = 0;  // 0: a tensor
    std::string name;    // of the tensor
    OpKind kind = OpKind::kAllreduce;
    bool transient = false;
  };

  explicit Negotiator(const Options& options);

  // Handles a report of `rank` that arrived at `now`. An error means that the rank violates the
  // protocol.
  Status handle(int rank, const wire::Report& report, Clock::time_point now = {});

  // Returns the decisions since the last call, for every rank including this one.
  wire::Decisions take_decisions();

  // Starts or stops recording arrivals; and returns those since the last call.
  void keep_arrivals(bool keep) { keeps_arrivals_ = keep; }
  std::vector<Arrival> take_arrivals() { return std::exchange(arrivals_, {}); }

  // Returns the counters that ranks of the group have sent since the last call.
  std::vector<std::pair<int, std::vector<std::uint64_t>>> take_measures() {
    return std::exchange(measures_, {});
  }

  // Returns the operations that some ranks submitted before that time and others have not
  // submitted, oldest first.
  std::vector<Stall> stalls(Clock::time_point before) const;
  // Fails operations of one name and different kinds if every rank has waited in exactly one of
  // them since before that time. The ranks probably mean one operation.
  void fail_different_kinds(Clock::time_point before);
  // Ignores waits before this time, because the job was suspended until then.
  void count_from(Clock::time_point now) { counts_from_ = now; }
  // Sends the report of a stall to every rank.
  void say_stalled(const std::string& text) { decisions_.emplace_back(wire::Stalled{text}); }

  // Returns the number of buckets that were given up, but that some rank may still report.
  std::size_t dissolved_buckets() const { return dissolved_.size(); }

  // Whether every rank has left.
  bool finished() const { return finished_; }

  // Returns the ranks that have not left yet, in words.
  std::string remaining_ranks() const;

 private:
  using Tensor = NegotiatedTensor;
  using Bucket = NegotiatedBucket;

  // A bucket that was given up.
  struct Dissolved {
    std::vector<EntryId> members;
    std::vector<bool> flushed;  // by rank: it has left, or reports the bucket no more
  };

  struct Candidate {
    Tensor* tensor = nullptr;     // owned by tensors_
    std::uint64_t execution = 0;  // for which rank 0 submitted it
  };

  Status on(int rank, const wire::Announce& record);
  Status on(int rank, const wire::Ready& record);
  Status on(int rank, const wire::Flush& record);
  Status on(int rank, const wire::Boundary& record);
  Status on(int rank, const wire::Leave& record);
  Status on(int rank, const wire::Abort& record);
  Status on(int rank, const wire::Measures& record);
  Status on(int rank, const wire::Join& record);

  int size() const { return attendance_.size(); }
  Tensor& find_or_create(NameSpace name_space, const std::string& name);
  void arrive(int rank, Tensor& tensor, bool absent);
  Status arrive_whole(int rank, Bucket& bucket);
  void count_one_by_one(Bucket& bucket);
  void count_one_by_one();
  std::vector<Tensor*> in_flight_without(int rank) const;
  void resolve(Tensor& tensor);
  void count_one_by_one_where_kinds_differ(Clock::time_point before);
  std::string different_kinds(const std::vector<Tensor*>& of_one_name) const;
  static std::string disagree(const Tensor& tensor, const std::string& difference);
  void agree(Tensor& tensor, const Descriptor& descriptor);
  void execute(Tensor& tensor);
  void execute(Bucket& bucket);
  void fail(Tensor& tensor, StatusCode code, const std::string& message);
  void fail_for_left_ranks(Tensor& tensor);
  void end_join(int last_rank, const std::string& error);
  void fail_join();
  void dissolve(Bucket& bucket, const Tensor* except);
  void give_up_half_come(int rank);
  void note_flushed(EntryId bucket, int rank);
  bool half_come(const Bucket& bucket, int rank) const;
  void plan(const std::vector<wire::Submitted>& together);
  void make_bucket(const std::vector<Candidate>& members);
  void evict(Tensor& tensor);
  void forget(Tensor& tensor);

  const PlanLimits limits_;
  Attendance attendance_;
  wire::Decisions decisions_;
  Clock::time_point now_;          // of the report that is handled
  Clock::time_point counts_from_;  // see count_from()
  bool keeps_arrivals_ = false;
  std::vector<Arrival> arrivals_;
  std::vector<std::pair<int, std::vector<std::uint64_t>>> measures_;  // by rank
  using ByName = std::unordered_map<std::string, std::unique_ptr<Tensor>>;
  std::array<ByName, kNameSpaces> tensors_;
  std::unordered_map<EntryId, Tensor*> by_id_;
  std::unordered_map<EntryId, std::unique_ptr<Bucket>> buckets_;
  // Buckets that were given up, until all ranks have flushed them.
  std::unordered_map<EntryId, Dissolved> dissolved_;
  // By rank: tensors that it reported by numbers evicted before, and will announce again; and what
  // it said since that holds only after that: that it joins or leaves.
  std::vector<int> owed_;
  std::vector<wire::Report> held_back_;
  EntryId next_id_ = 1;
  bool finished_ = false;
};

}  // namespace kolo
