// Where the time of training steps goes, and who and what is late. Times are microseconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/trace_activity.hpp"

namespace kolo::tools {

// Of one step on one rank; together they are the step. (Overlap as in Meta's Holistic Trace
// Analysis: communication that computing hides.)
struct Shares {
  double compute = 0;     // the program computes, and nothing is communicated
  double overlapped = 0;  // it computes while its tensors are communicated
  double exposed = 0;     // it waits while tensors are communicated
  double waiting = 0;     // it waits, and nothing is: other ranks are not as far
  double whole() const { return compute + overlapped + exposed + waiting; }
  Shares& operator+=(const Shares& other);
  Shares over(double count) const;
};

// A rank that comes later than most, step after step.
struct Straggler {
  int rank = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  bool until_end = false;
  double late = 0;    // median
  double works = 0;   // what a step takes there without waiting, mean
  double others = 0;  // and on the others, median of their means
};

struct TensorTiming {
  std::string name;
  std::size_t steps = 0;  // in which it was reduced
  std::size_t last = 0;   // how often it was the last one to be ready
  double ready = 0;       // after the step's begin, on the slowest rank; median
  double reduced = 0;     // its collective's end, likewise
  double waited = 0;      // by the program, for this tensor, a step; mean over ranks
};

// Collectives of one kind and about one size.
struct Speed {
  std::string phase;  // "SHM_ALLREDUCE"
  double bytes = 0;
  std::size_t count = 0;  // on all ranks
  double gigabytes = 0;   // a second; median
  double slow = 0;        // 10 % are slower
  double fast = 0;        // 10 % are faster
  double time = 0;        // a step, on a rank
};

struct ScopeTime {
  std::string name;
  double time = 0;  // a step, on a rank
};

struct Analysis {
  std::vector<std::int64_t> steps;            // that all ranks have
  std::size_t first = 0;                      // those before are left out of means
  std::vector<int> ranks;                     // that have steps
  double step_time = 0;                       // median over ranks and steps
  std::map<int, std::vector<Shares>> shares;  // by rank, for each step
  std::map<int, Shares> means;                // by rank
  Shares mean;
  // By rank, for each step: how much later than the rank in the middle it came to the collective to
  // which it came latest.
  std::map<int, std::vector<double>> lateness;
  double clock_error = 0;
  std::vector<Straggler> stragglers;
  std::vector<TensorTiming> tensors;  // those that are ready last come first
  std::vector<Speed> speeds;
  std::vector<ScopeTime> scopes;  // the longest first
  // A step, on a rank.
  double collectives = 0;
  double small_collectives = 0;  // of less than kSmall bytes
  double small_time = 0;         // in those
  double buckets = 0;
  double bytes = 0;
  double bucket_bytes = 0;
};

constexpr std::int64_t kSmall = 64 * 1024;

// Throws DataError where there are no steps.
Analysis analyse(const RunActivity& run);

}  // namespace kolo::tools
