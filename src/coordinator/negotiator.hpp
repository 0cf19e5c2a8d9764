// The coordinator's half of the control plane, as a state machine without I/O: reports of the ranks
// go in, decisions for all ranks come out, in one order. Lives on the lowest rank of the group.
//
// A tensor is executed when it has arrived from every rank and all agree on what it is. Known
// tensors that rank 0's program submits together, twice, without waiting in between, form a bucket
// from then on and are executed at once when all of them have arrived. What forms a bucket and from
// which execution on depends on what programs do, never on when messages come.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/plan.hpp"
#include "coordinator/wire.hpp"

namespace kolo {

class Negotiator {
 public:
  struct Options {
    int size = 1;
    PlanLimits limits;
    std::size_t cache_capacity = 16384;
  };

  explicit Negotiator(const Options& options);

  // Takes a report of `rank`. An error means that the rank breaks the protocol.
  Status handle(int rank, const wire::Report& report);

  // The decisions since the last call, for every rank (this one too).
  wire::Decisions take_decisions();

  // True after every rank has left.
  bool finished() const { return finished_; }

  // For shutdown: which ranks have not left yet.
  std::vector<int> remaining_ranks() const;

 private:
  struct BucketState;

  struct Tensor {
    std::string name;
    UnitId id = 0;  // 0: not agreed upon yet
    Descriptor agreed;
    bool transient = false;
    // Arrivals for the execution to come.
    std::vector<bool> arrived;
    int arrivals = 0;
    int absent = 0;
    std::map<int, Descriptor> announced;  // of ranks that did not come with the id
    // History.
    std::uint64_t executions = 0;  // since the id was given
    std::uint64_t last_used = 0;
    int times_planned = 0;
    BucketState* bucket = nullptr;  // owned by buckets_
    std::uint64_t bucket_base = 0;
  };

  struct BucketState {
    UnitId id = 0;
    std::vector<Tensor*> members;  // owned by tensors_
    std::size_t complete = 0;      // members that have arrived from every rank
  };

  Status on(int rank, const wire::Announce& record);
  Status on(int rank, const wire::Ready& record);
  Status on(int rank, const wire::Flush& record);
  Status on(int rank, const wire::Boundary& record);
  Status on(int rank, const wire::Leave& record);
  Status on(int rank, const wire::Abort& record);

  Tensor& find_or_create(const std::string& name);
  void arrive(int rank, Tensor& tensor, bool absent);
  void resolve(Tensor& tensor);
  std::string disagreement(const Tensor& tensor) const;
  void agree(Tensor& tensor, const Descriptor& descriptor);
  void execute(Tensor& tensor);
  void execute(BucketState& bucket);
  void clear_arrivals(Tensor& tensor);
  void fail(Tensor& tensor, StatusCode code, const std::string& message);
  void fail_for_left_ranks(Tensor& tensor);
  void dissolve(BucketState& bucket, const Tensor* except);
  void make_bucket(const std::vector<Tensor*>& members);
  void make_room();
  void forget(Tensor& tensor);

  const Options options_;
  wire::Decisions decisions_;
  std::unordered_map<std::string, std::unique_ptr<Tensor>> tensors_;
  std::unordered_map<UnitId, Tensor*> by_id_;
  std::unordered_map<UnitId, std::unique_ptr<BucketState>> buckets_;
  // Members of buckets that were given up: a rank that has not heard of it may still report one.
  std::unordered_map<UnitId, std::vector<UnitId>> dissolved_;
  std::vector<Tensor*> run_;  // what rank 0 submitted since its last boundary
  std::vector<bool> left_;
  std::vector<int> left_order_;  // the first to leave is the one to look at
  UnitId next_id_ = 1;
  std::uint64_t clock_ = 0;  // counts executions, for last_used
  bool finished_ = false;
};

}  // namespace kolo
