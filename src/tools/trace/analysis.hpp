// The result of analyse(): where the time of training steps goes, and which ranks and tensors are
// late. Times are microseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kolo::tools {

// The parts of one step on one rank; together they are the step. (Overlap as in Meta's Holistic
// Trace Analysis: communication that is hidden by computing.)
struct Shares {
  double compute = 0;     // the program computes, and nothing is communicated
  double overlapped = 0;  // it computes while its tensors are communicated
  double exposed = 0;     // it waits while tensors are communicated
  double waiting = 0;     // it waits while nothing moves: a rank is missing, or ranks are agreeing
  double whole() const { return compute + overlapped + exposed + waiting; }
  double works() const { return compute + overlapped; }
  Shares& operator+=(const Shares& other);
  Shares over(double count) const;
};

// A rank that comes later than most, step after step, because it works longer.
struct Straggler {
  struct Period {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    bool until_end = false;
  };
  int rank = 0;
  std::vector<Period> periods;
  std::size_t steps = 0;  // in the periods
  double late = 0;        // in those steps, median
  double works = 0;       // time of those steps without waiting, mean
  double others = 0;      // the same on the other ranks, median of their means
};

// Steps in which the program did something else beside training. They count nowhere else.
struct LongSteps {
  std::vector<std::int64_t> steps;
  double time = 0;       // median
  int latest_rank = -1;  // the rank that mostly comes last in them; -1: none
};

struct TensorTiming {
  std::string name;
  std::size_t last = 0;  // number of steps in which it was ready last
  double ready = 0;      // after the step's begin, on the slowest rank; median
  double reduced = 0;    // its collective's end, likewise
  double waited = 0;     // by the program for this tensor, per step; mean over ranks
};

// Collectives of one kind and about one size.
struct Speed {
  std::string phase;  // "SHM_ALLREDUCE"
  double bytes = 0;
  std::size_t count = 0;  // on all ranks
  double gigabytes = 0;   // per second; median
  double slow = 0;        // 10 % are slower
  double fast = 0;        // 10 % are faster
  double time = 0;        // per step and rank; simultaneous ones each count
  // The collectives of all ranks that had no other beside them.
  std::size_t alone = 0;
  double alone_gigabytes = 0;
};

struct ScopeTime {
  std::string name;
  double time = 0;  // per step and rank; scopes of several threads, and nested ones, each count
};

struct Analysis {
  std::vector<int> ranks;           // with steps, and not far fewer than the others
  std::vector<int> short_ranks;     // with far fewer
  std::vector<std::int64_t> steps;  // that all of `ranks` have
  std::size_t left_out = 0;         // steps that some of `ranks` lack
  std::vector<bool> counts;         // the step is training, and not the first one
  std::size_t counted = 0;          // number of these
  LongSteps long_steps;
  // All means below are over the steps that count.
  std::map<int, std::vector<Shares>> shares;  // by rank, for each step
  std::map<int, Shares> means;                // by rank
  Shares mean;
  double for_others = 0;  // part of the waiting, while some rank had not come
  // By rank, for each step: how much later than the middle rank it came to the collective to which
  // it came latest.
  std::map<int, std::vector<double>> lateness;
  double clock_error = 0;
  std::vector<Straggler> stragglers;
  std::vector<TensorTiming>
      tensors;  // in at least half of the steps; the one that is ready last comes first
  std::vector<Speed> speeds;
  std::vector<ScopeTime> scopes;  // the longest first
  double data_wait = 0;           // for batches of a DataLoader, per step
  // Per step and rank. Barriers, and what goes between two ranks, are not included.
  double collectives = 0;
  double small_collectives = 0;  // of less than kSmall bytes
  double small_waits = 0;        // for those, after all ranks had come
  double buckets = 0;
  double bytes = 0;
  double bucket_bytes = 0;
};

constexpr std::int64_t kSmall = std::int64_t{64} * 1024;

// Returns the place of a step in `steps`, or their number if it is not there.
std::size_t place_of(const Analysis& analysis, std::int64_t step);

// Whether a step is in `steps`, and counts.
bool counts(const Analysis& analysis, std::int64_t step);

}  // namespace kolo::tools
