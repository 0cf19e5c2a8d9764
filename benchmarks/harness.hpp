// Measures several contenders that do the same work, interleaved in one run, and checks every
// result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/pattern.hpp"

namespace kolo::bench {

// How far the cores of the ranks are from each other, as far as it can be told: whether two that
// follow each other share a cache. A virtual machine's cores may move from near to far.
enum class Distance : std::uint8_t { kUnknown, kNear, kFar, kMoved };
const char* name_of(Distance distance);

// The ranks of the job, as the harness needs them. All but rank() and size() are collective.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void barrier() = 0;
  // Each value's largest over the ranks.
  virtual void largest(double* values, int count) = 0;
  // The same over the ranks of this node.
  virtual void largest_on_node(double* values, int count) = 0;
  // At this moment; the same on every rank, and never kMoved.
  virtual Distance distance() { return Distance::kUnknown; }
};

// One way to do the work. Every rank has the same contenders in the same order.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string name() const = 0;
  // Not timed: writes this rank's values. May throw ContenderFailed.
  virtual void refresh(const Pattern& pattern) = 0;
  // Timed, collective. May throw ContenderFailed.
  virtual void run() = 0;
  // So many runs, one right after the other, on what refresh() has written. Another process does
  // that by itself.
  virtual void repeat(int calls) {
    for (; calls > 0; --calls) run();
  }
  // Where it runs, if not where the ranks do.
  virtual std::string placement() const { return ""; }
  // What the last repeat() took in all, where the contender knows better than the caller: another
  // process did it.
  virtual std::optional<double> measured_microseconds() const { return std::nullopt; }
  // Not timed: says what is wrong with the result on this rank; empty if nothing is. Called on
  // every rank, also after a failure, so it may be collective.
  virtual std::string check(const Pattern& pattern) = 0;
};
using Contenders = std::vector<std::unique_ptr<Contender>>;

// The contender cannot go on, on this rank. On the others its run() ends nevertheless.
class ContenderFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The run cannot go on, and every rank throws. what() says why (a result was wrong: which element,
// on which rank); it is empty where all was well.
class RunFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Collective: throws RunFailed on every rank if any has a problem. `problem` is this rank's, or
// empty.
void agree(Ranks& ranks, const std::string& problem);

// Collective: does this rank's part. What is thrown on one rank ends the run on all.
template <typename Step>
void together(Ranks& ranks, Step&& step) {
  std::string problem;
  try {
    step();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  agree(ranks, problem);
}

struct Schedule {
  int warm_up = 0;  // rounds that are not counted
  int samples = 1;
  // Each sample comes right after another one of the same contender, which is not counted: its code
  // and data are in the caches then, and not those of the contender before it.
  bool rehearses = false;
  int calls = 1;  // in a row, of a sample
};

// Who comes when in a round: the start rotates, and the direction turns after each full rotation,
// so that each comes first, last, and after each of the others equally often.
std::vector<std::size_t> order_in_round(int round, std::size_t contenders);

// The slowest rank's time from a barrier to the completion on that rank, for each of the pattern's
// calls, and how far the cores were, before and after: kMoved if they were not as far.
struct Sample {
  double microseconds = 0;
  Distance distance = Distance::kUnknown;
};

Sample take_sample(Ranks& ranks, Contender& contender, const Pattern& pattern);

// By contender and sample. Throws RunFailed.
std::vector<std::vector<Sample>> measure(Ranks& ranks, const Contenders& contenders,
                                         const Schedule& schedule);

}  // namespace kolo::bench
