#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/attendance.hpp"
#include "coordinator/wire.hpp"
#include "core/clock.hpp"

namespace kolo {

struct NegotiatedBucket;

// The coordinator's view of a tensor: which ranks have submitted it for its next execution, what
// they mean by it, and its history.
struct NegotiatedTensor {
  NegotiatedTensor(NameSpace of, std::string called, int ranks)
      : name_space(of), name(std::move(called)), arrived(static_cast<std::size_t>(ranks), false) {}

  const NameSpace name_space;
  const std::string name;
  EntryId id = 0;  // 0: the ranks have not agreed on it yet
  Descriptor agreed;
  bool transient = false;
  // Arrivals for the next execution. A bucket's members have them only while the bucket is counted
  // one by one.
  std::vector<bool> arrived;
  int arrivals = 0;
  Clock::time_point since;  // the first arrival
  int absent = 0;
  std::map<int, Descriptor> announced;  // of ranks that did not come with the id
  // History.
  std::uint64_t executions = 0;  // and failures, since the id was given
  int times_planned = 0;
  std::uint64_t plannable_from = 0;    // rank 0's submissions before this execution do not count
  std::uint64_t renewed_from = 0;      // see Negotiator::evict()
  NegotiatedBucket* bucket = nullptr;  // owned by the negotiator
  std::uint64_t bucket_base = 0;       // the bucket's first execution is this one of the tensor

  bool in_bucket() const { return bucket != nullptr && executions >= bucket_base; }

  void arrive(int rank, bool without_values, Clock::time_point now);
  // Forgets who has come, for the next execution.
  void clear_arrivals();

  // Describes the operation, as the ranks that have come so far mean it, if they agree.
  const Descriptor& meant() const;
  // Describes what `rank`, which has come, means.
  const Descriptor& meant_by(int rank) const;
  // Whether the operation takes place with this rank.
  bool needs(int rank, const Attendance& attendance) const;
  bool is_complete(const Attendance& attendance) const;
  // Whether two ranks mean different pairs of a sender and a receiver. They would wait for ranks
  // that do not come.
  bool pairs_differ(const Attendance& attendance) const;
  // Whether no rank has a value of it.
  bool is_absent_everywhere() const { return absent == arrivals; }
  // Ranks that have not submitted the tensor and still may.
  std::vector<int> missing_ranks(const Attendance& attendance) const;
  // Whether a rank that the operation needs has left without submitting it.
  bool is_hopeless(const Attendance& attendance) const;

  // Reasons that prevent the operation, in words; empty if it can take place.
  // The ranks that cannot take part, and why.
  std::string refusals(const Attendance& attendance) const;
  // The difference between what the ranks mean.
  std::string disagreement(const Attendance& attendance) const;
  // The rank that must give something, but has joined.
  std::string missing_for_good(const Attendance& attendance) const;

 private:
  // Ranks that have joined and did not submit the tensor before.
  std::vector<int> joined_without(const Attendance& attendance) const;
};

}  // namespace kolo
