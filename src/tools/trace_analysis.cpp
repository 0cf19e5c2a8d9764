#include "tools/trace_analysis.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

// The first steps allocate, and make buckets.
constexpr std::size_t kStepsToSpare = 3;

// A rank is late for so many steps, or it is chance.
constexpr std::size_t kWindow = 9;
constexpr std::size_t kShortest = 5;
constexpr double kLatePart = 0.05;  // of a step

// So many sizes of a kind are told apart; more are put together.
constexpr std::size_t kMostSizes = 40;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

using StepsOf = std::map<std::int64_t, Span>;

void find_steps(const RunActivity& run, Analysis& analysis) {
  for (const auto& [rank, activity] : run.ranks) {
    if (activity.steps.empty()) continue;
    std::vector<std::int64_t> both;
    for (const auto& [step, span] : activity.steps) {
      const bool common = analysis.ranks.empty() ||
                          std::binary_search(analysis.steps.begin(), analysis.steps.end(), step);
      if (common) both.push_back(step);
    }
    analysis.steps = std::move(both);
    analysis.ranks.push_back(rank);
  }
  if (analysis.ranks.empty()) {
    throw DataError(
        "the timelines have no steps: DistributedOptimizer counts them, and a program without it "
        "says kolo::mark_step() after each");
  }
  if (analysis.steps.empty()) throw DataError("no step is in the timelines of all ranks");
  analysis.first = analysis.steps.size() > kStepsToSpare ? 1 : 0;
}

// --- where time goes ---

Spans only_spans(const std::vector<NamedSpan>& named) {
  std::vector<Span> spans;
  spans.reserve(named.size());
  for (const NamedSpan& one : named) spans.push_back(one.span);
  return united(std::move(spans));
}

std::vector<Shares> shares_of(const Activity& activity, const std::vector<std::int64_t>& steps) {
  const Spans waits = only_spans(activity.waits);
  std::vector<Span> moving;
  for (const Collective& collective : activity.collectives) {
    if (collective.started) moving.push_back(collective.moving);
  }
  const Spans communication = united(std::move(moving));
  const Spans exposed = intersection(waits, communication);
  std::vector<Shares> shares;
  shares.reserve(steps.size());
  for (const std::int64_t step : steps) {
    const Span& window = activity.steps.at(step);
    Shares share;
    share.exposed = covered(exposed, window);
    share.waiting = covered(waits, window) - share.exposed;
    share.overlapped = covered(communication, window) - share.exposed;
    share.compute = window.end - window.begin - share.exposed - share.waiting - share.overlapped;
    shares.push_back(share);
  }
  return shares;
}

void divide_steps(const RunActivity& run, Analysis& analysis) {
  std::vector<double> times;
  for (const int rank : analysis.ranks) {
    std::vector<Shares>& shares = analysis.shares[rank];
    shares = shares_of(run.ranks.at(rank), analysis.steps);
    Shares sum;
    for (std::size_t i = analysis.first; i < shares.size(); ++i) {
      sum += shares[i];
      times.push_back(shares[i].whole());
    }
    analysis.means[rank] = sum.over(static_cast<double>(shares.size() - analysis.first));
    analysis.mean += analysis.means[rank];
  }
  analysis.mean = analysis.mean.over(static_cast<double>(analysis.ranks.size()));
  analysis.step_time = median(std::move(times));
}

// --- who is late ---

// The collectives' submissions, by rank.
using Arrivals = std::map<Decision, std::vector<std::pair<int, const Collective*>>>;

Arrivals arrivals_of(const RunActivity& run) {
  Arrivals arrivals;
  for (const auto& [rank, activity] : run.ranks) {
    for (const Collective& collective : activity.collectives)
      arrivals[collective.decision].emplace_back(rank, &collective);
  }
  return arrivals;
}

// Of an even number the earlier one: of two ranks one can be late.
double middle(const std::vector<std::pair<int, const Collective*>>& arrivals) {
  std::vector<double> times;
  for (const auto& [rank, collective] : arrivals) times.push_back(collective->submitted);
  const auto place = static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), times.begin() + place, times.end());
  return times[static_cast<std::size_t>(place)];
}

void find_lateness(const RunActivity& run, Analysis& analysis) {
  for (const int rank : analysis.ranks)
    analysis.lateness[rank].assign(analysis.steps.size(), kNothing);
  for (const auto& [decision, arrivals] : arrivals_of(run)) {
    if (arrivals.size() < 2) continue;
    const double expected = middle(arrivals);
    for (const auto& [rank, collective] : arrivals) {
      const auto row = analysis.lateness.find(rank);
      const auto step =
          std::lower_bound(analysis.steps.begin(), analysis.steps.end(), collective->step);
      if (row == analysis.lateness.end() || step == analysis.steps.end() ||
          *step != collective->step) {
        continue;
      }
      double& late = row->second[static_cast<std::size_t>(step - analysis.steps.begin())];
      const double now = collective->submitted - expected;
      late = std::isnan(late) ? now : std::max(late, now);
    }
  }
}

// The median of each value's neighbourhood; what is NaN counts for nothing.
std::vector<double> smoothed(const std::vector<double>& values) {
  std::vector<double> smooth(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i - std::min(i, kWindow / 2);
    const std::size_t end = std::min(i + kWindow / 2 + 1, values.size());
    std::vector<double> near;
    for (std::size_t k = begin; k < end; ++k) {
      if (!std::isnan(values[k])) near.push_back(values[k]);
    }
    smooth[i] = median(std::move(near));
  }
  return smooth;
}

// Half-open places of values above the threshold; short gaps are bridged, short pieces left out.
std::vector<std::pair<std::size_t, std::size_t>> pieces_above(const std::vector<double>& values,
                                                              std::size_t first, double threshold) {
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  for (std::size_t i = first; i < values.size(); ++i) {
    if (!(values[i] > threshold)) continue;
    if (!pieces.empty() && i <= pieces.back().second + kWindow) {
      pieces.back().second = i + 1;
    } else {
      pieces.emplace_back(i, i + 1);
    }
  }
  const std::size_t shortest = std::min(kShortest, values.size() - first);
  pieces.erase(
      std::remove_if(pieces.begin(), pieces.end(),
                     [&](const auto& piece) { return piece.second - piece.first < shortest; }),
      pieces.end());
  return pieces;
}

double work_between(const std::vector<Shares>& shares, std::size_t begin, std::size_t end) {
  Shares sum;
  for (std::size_t i = begin; i < end; ++i) sum += shares[i];
  return (sum.compute + sum.overlapped) / static_cast<double>(end - begin);
}

void find_stragglers(Analysis& analysis) {
  const double threshold = std::max(kLatePart * analysis.step_time, 4 * analysis.clock_error);
  for (const int rank : analysis.ranks) {
    const std::vector<double>& lateness = analysis.lateness[rank];
    for (const auto& [begin, end] : pieces_above(smoothed(lateness), analysis.first, threshold)) {
      Straggler one;
      one.rank = rank;
      one.first_step = analysis.steps[begin];
      one.last_step = analysis.steps[end - 1];
      one.until_end = end + kWindow / 2 >= analysis.steps.size();
      std::vector<double> late;
      for (std::size_t i = begin; i < end; ++i) {
        if (!std::isnan(lateness[i])) late.push_back(lateness[i]);
      }
      one.late = median(std::move(late));
      one.works = work_between(analysis.shares[rank], begin, end);
      std::vector<double> others;
      for (const int other : analysis.ranks) {
        if (other != rank) others.push_back(work_between(analysis.shares[other], begin, end));
      }
      one.others = median(std::move(others));
      analysis.stragglers.push_back(one);
    }
  }
  std::stable_sort(analysis.stragglers.begin(), analysis.stragglers.end(),
                   [](const Straggler& a, const Straggler& b) { return a.late > b.late; });
}

// --- what is late ---

class TensorTimes {
 public:
  explicit TensorTimes(const RunActivity& run, const Analysis& analysis)
      : run_(run), analysis_(analysis) {
    for (const int rank : analysis.ranks) add(run.ranks.at(rank));
  }

  std::vector<TensorTiming> timings() {
    const std::map<int, double> waited = waits();
    const std::map<int, std::size_t> last = counts_of_last();
    std::vector<TensorTiming> timings;
    for (const auto& [name, steps] : times_) {
      TensorTiming timing;
      timing.name = run_.names.name(name);
      timing.steps = steps.size();
      std::vector<double> ready;
      std::vector<double> reduced;
      for (const auto& [step, times] : steps) {
        ready.push_back(times.ready);
        reduced.push_back(times.reduced);
      }
      timing.ready = median(std::move(ready));
      timing.reduced = median(std::move(reduced));
      if (const auto found = waited.find(name); found != waited.end())
        timing.waited = found->second;
      if (const auto found = last.find(name); found != last.end()) timing.last = found->second;
      timings.push_back(timing);
    }
    std::stable_sort(timings.begin(), timings.end(),
                     [](const auto& a, const auto& b) { return a.ready > b.ready; });
    return timings;
  }

 private:
  struct Times {
    double ready = 0;
    double reduced = 0;
  };

  bool counts(std::int64_t step) const {
    return step >= analysis_.steps[analysis_.first] && step <= analysis_.steps.back();
  }

  void add(const Activity& activity) {
    std::map<Decision, const Collective*> collectives;
    for (const Collective& one : activity.collectives) collectives[one.decision] = &one;
    std::set<Decision> with_tensors;
    for (const Submission& one : activity.submissions) {
      with_tensors.insert(one.decision);
      const auto collective = collectives.find(one.decision);
      if (collective != collectives.end())
        add(activity.steps, one.name, one.step, one.at, collective->second->ended);
    }
    // Timelines may leave out the tensors of buckets.
    for (const Collective& one : activity.collectives) {
      if (with_tensors.count(one.decision) == 0)
        add(activity.steps, one.name, one.step, one.submitted, one.ended);
    }
  }

  void add(const StepsOf& steps, int name, std::int64_t step, double ready, double reduced) {
    const auto span = steps.find(step);
    if (span == steps.end() || !counts(step)) return;
    Times& times = times_[name][step];
    times.ready = std::max(times.ready, ready - span->second.begin);
    times.reduced = std::max(times.reduced, reduced - span->second.begin);
  }

  std::map<int, std::size_t> counts_of_last() const {
    std::map<std::int64_t, std::pair<double, int>> last;  // by step
    for (const auto& [name, steps] : times_) {
      for (const auto& [step, times] : steps)
        last[step] = std::max(last[step], {times.ready, name});
    }
    std::map<int, std::size_t> counts;
    for (const auto& [step, one] : last) ++counts[one.second];
    return counts;
  }

  std::map<int, double> waits() const {
    std::map<int, double> waited;
    const auto steps = static_cast<double>(analysis_.steps.size() - analysis_.first);
    const double ranks = static_cast<double>(analysis_.ranks.size());
    for (const int rank : analysis_.ranks) {
      for (const NamedSpan& wait : run_.ranks.at(rank).waits) {
        if (counts(wait.step))
          waited[wait.name] += (wait.span.end - wait.span.begin) / steps / ranks;
      }
    }
    return waited;
  }

  const RunActivity& run_;
  const Analysis& analysis_;
  std::map<int, std::map<std::int64_t, Times>> times_;  // by name and step
};

// --- how fast ---

struct Sizes {
  std::map<double, std::vector<std::pair<double, double>>> by_bytes;  // bytes, time
};

Sizes put_together(const Sizes& sizes) {
  if (sizes.by_bytes.size() <= kMostSizes) return sizes;
  std::map<int, std::vector<std::pair<double, double>>> classes;  // quarters of an octave
  for (const auto& [bytes, samples] : sizes.by_bytes) {
    auto& together = classes[static_cast<int>(std::floor(4 * std::log2(bytes)))];
    together.insert(together.end(), samples.begin(), samples.end());
  }
  Sizes fewer;
  for (auto& [number, samples] : classes) {
    std::vector<double> bytes;
    for (const auto& [one, time] : samples) bytes.push_back(one);
    fewer.by_bytes[median(std::move(bytes))] = std::move(samples);
  }
  return fewer;
}

void find_speeds(const RunActivity& run, Analysis& analysis) {
  const double steps = static_cast<double>(analysis.steps.size() - analysis.first) *
                       static_cast<double>(analysis.ranks.size());
  std::map<int, Sizes> phases;
  for (const int rank : analysis.ranks) {
    for (const Collective& one : run.ranks.at(rank).collectives) {
      if (one.step < analysis.steps[analysis.first] || one.step > analysis.steps.back()) continue;
      const double time = one.inside.end - one.inside.begin;
      analysis.collectives += 1 / steps;
      analysis.bytes += static_cast<double>(one.bytes) / steps;
      if (one.members > 0) {
        analysis.buckets += 1 / steps;
        analysis.bucket_bytes += static_cast<double>(one.bytes) / steps;
      }
      if (one.bytes < kSmall) analysis.small_collectives += 1 / steps;
      if (one.bytes < kSmall) analysis.small_time += (one.moving.end - one.moving.begin) / steps;
      if (one.bytes == 0 || !(time > 0)) continue;
      const auto bytes = static_cast<double>(one.bytes);
      phases[one.phase].by_bytes[bytes].emplace_back(bytes, time);
    }
  }
  for (const auto& [phase, sizes] : phases) {
    for (const auto& [bytes, samples] : put_together(sizes).by_bytes) {
      std::vector<double> rates;
      double sum = 0;
      for (const auto& [size, time] : samples) {
        rates.push_back(size / time / 1000);
        sum += time;
      }
      analysis.speeds.push_back({run.names.name(phase), bytes, samples.size(), median(rates),
                                 quantile(rates, 0.1), quantile(rates, 0.9), sum / steps});
    }
  }
}

void find_scopes(const RunActivity& run, Analysis& analysis) {
  const double steps = static_cast<double>(analysis.steps.size() - analysis.first) *
                       static_cast<double>(analysis.ranks.size());
  std::map<int, double> times;
  for (const int rank : analysis.ranks) {
    for (const NamedSpan& scope : run.ranks.at(rank).scopes) {
      if (scope.step < analysis.steps[analysis.first] || scope.step > analysis.steps.back())
        continue;
      times[scope.name] += (scope.span.end - scope.span.begin) / steps;
    }
  }
  for (const auto& [name, time] : times) analysis.scopes.push_back({run.names.name(name), time});
  std::stable_sort(analysis.scopes.begin(), analysis.scopes.end(),
                   [](const ScopeTime& a, const ScopeTime& b) { return a.time > b.time; });
}

}  // namespace

Shares& Shares::operator+=(const Shares& other) {
  compute += other.compute;
  overlapped += other.overlapped;
  exposed += other.exposed;
  waiting += other.waiting;
  return *this;
}

Shares Shares::over(double count) const {
  return {compute / count, overlapped / count, exposed / count, waiting / count};
}

Analysis analyse(const RunActivity& run) {
  Analysis analysis;
  find_steps(run, analysis);
  for (const int rank : analysis.ranks)
    analysis.clock_error = std::max(analysis.clock_error, run.ranks.at(rank).clock_error);
  divide_steps(run, analysis);
  find_lateness(run, analysis);
  find_stragglers(analysis);
  analysis.tensors = TensorTimes(run, analysis).timings();
  find_speeds(run, analysis);
  find_scopes(run, analysis);
  return analysis;
}

}  // namespace kolo::tools
