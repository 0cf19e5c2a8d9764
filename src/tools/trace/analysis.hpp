// Where the time of training steps goes, and which ranks and tensors are late: what analyse()
// finds. Times are microseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kolo::tools {

// Of one step on one rank; together they are the step. (Overlap as in Meta's Holistic Trace
// Analysis: communication that computing hides.)
struct Shares {
  double compute = 0;     // the program computes, and nothing is communicated
  double overlapped = 0;  // it computes while its tensors are communicated
  double exposed = 0;     // it waits while tensors are communicated
  double waiting = 0;     // it waits, and nothing is: some rank has not come, or they agree
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
  std::size_t steps = 0;  // in them
  double late = 0;        // in those steps, median
  double works = 0;       // what a step takes there without waiting, mean
  double others = 0;      // and on the others, median of their means
};

// Steps in which something else was done beside training. They count nowhere else.
struct LongSteps {
  std::vector<std::int64_t> steps;
  double time = 0;       // median
  int latest_rank = -1;  // who mostly comes last in them; -1: nobody
};

struct TensorTiming {
  std::string name;
  std::size_t last = 0;  // how often it was the last one to be ready
  double ready = 0;      // after the step's begin, on the slowest rank; median
  double reduced = 0;    // its collective's end, likewise
  double waited = 0;     // by the program, for this tensor, a step; mean over ranks
};

// Collectives of one kind and about one size.
struct Speed {
  std::string phase;  // "SHM_ALLREDUCE"
  double bytes = 0;
  std::size_t count = 0;  // on all ranks
  double gigabytes = 0;   // a second; median
  double slow = 0;        // 10 % are slower
  double fast = 0;        // 10 % are faster
  double time = 0;        // a step, on a rank; of several at once each counts
  // Those of all ranks that had no other beside them.
  std::size_t alone = 0;
  double alone_gigabytes = 0;
};

struct ScopeTime {
  std::string name;
  double time = 0;  // a step, on a rank; of several threads, and within each other, each counts
};

struct Analysis {
  std::vector<int> ranks;           // that have steps, and not far less than others
  std::vector<int> short_ranks;     // that have
  std::vector<std::int64_t> steps;  // that all those ranks have
  std::size_t left_out = 0;         // steps that some of them lacks
  std::vector<bool> counts;         // those that are training, and not the first one
  std::size_t counted = 0;          // how many
  LongSteps long_steps;
  // All means below are of what counts.
  std::map<int, std::vector<Shares>> shares;  // by rank, for each step
  std::map<int, Shares> means;                // by rank
  Shares mean;
  double for_others = 0;  // of the waiting: some rank had not come
  // By rank, for each step: how much later than the rank in the middle it came to the collective to
  // which it came latest.
  std::map<int, std::vector<double>> lateness;
  double clock_error = 0;
  std::vector<Straggler> stragglers;
  std::vector<TensorTiming>
      tensors;  // of at least half of the steps; what is ready last comes first
  std::vector<Speed> speeds;
  std::vector<ScopeTime> scopes;  // the longest first
  double data_wait = 0;           // for batches of a DataLoader, a step
  // A step, on a rank. Nothing of barriers, and of what goes between two ranks.
  double collectives = 0;
  double small_collectives = 0;  // of less than kSmall bytes
  double small_waits = 0;        // for those, when all ranks had come
  double buckets = 0;
  double bytes = 0;
  double bucket_bytes = 0;
};

constexpr std::int64_t kSmall = std::int64_t{64} * 1024;

// Returns the place of a step in `steps`, or their number if it is not there.
std::size_t place_of(const Analysis& analysis, std::int64_t step);

// Whether a step is there, and counts.
bool counts(const Analysis& analysis, std::int64_t step);

}  // namespace kolo::tools
