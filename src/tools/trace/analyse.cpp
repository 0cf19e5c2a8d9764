#include "tools/trace/analyse.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kolo/error.h"
#include "tools/trace/timings.hpp"

namespace kolo::tools {
namespace {

// With more steps than this, leaves out the first one, which allocates and makes buckets.
constexpr std::size_t kStepsToSpare = 3;

// A step that takes this many times the usual time did something else beside training.
constexpr double kLong = 4;

// Numbers of steps. A rank that is late for fewer than kShortest steps is late by chance.
constexpr std::size_t kSmoothed = 9;
constexpr std::size_t kShortest = 5;
constexpr std::size_t kShortestPart = 20;  // of the steps that count; a shorter period is chance
constexpr double kMostlyLate = 0.75;       // of a period's steps; ranks that take turns reach half
constexpr double kLatePart = 0.05;         // of a step

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Leaves out ranks with far fewer steps than others (their data ended, they were killed), so that
// they do not reduce the steps of the others.
void choose_ranks(const RunActivity& run, Analysis& analysis) {
  std::vector<double> counts;
  for (const auto& [rank, activity] : run.ranks) {
    if (!activity.steps.empty()) counts.push_back(static_cast<double>(activity.steps.size()));
  }
  if (counts.empty()) {
    throw DataError(
        "the timelines have no steps: DistributedOptimizer counts them; a program without it must "
        "call kolo::mark_step() after each step");
  }
  const double usual = median(std::move(counts));
  for (const auto& [rank, activity] : run.ranks) {
    const bool is_short = static_cast<double>(activity.steps.size()) < usual / 2;
    (is_short ? analysis.short_ranks : analysis.ranks).push_back(rank);
  }
}

void find_steps(const RunActivity& run, Analysis& analysis) {
  std::map<std::int64_t, std::size_t> ranks_with;
  for (const int rank : analysis.ranks) {
    for (const auto& [step, span] : run.ranks.at(rank).steps) ++ranks_with[step];
  }
  for (const auto& [step, count] : ranks_with) {
    if (count == analysis.ranks.size()) analysis.steps.push_back(step);
  }
  analysis.left_out = ranks_with.size() - analysis.steps.size();
  if (analysis.steps.empty()) throw DataError("no step is in the timelines of all ranks");
}

// Chooses the steps that are training: not the first one, and none in which the program evaluates
// or saves.
void choose_steps(const RunActivity& run, Analysis& analysis) {
  std::vector<double> times;
  for (const std::int64_t step : analysis.steps) {
    std::vector<double> of_ranks;
    for (const int rank : analysis.ranks) {
      const Span& span = run.ranks.at(rank).steps.at(step);
      of_ranks.push_back(span.end - span.begin);
    }
    times.push_back(median(std::move(of_ranks)));
  }
  const double limit = kLong * median(times);
  const std::size_t first = times.size() > kStepsToSpare ? 1 : 0;
  std::vector<double> long_times;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool is_long = times[i] > limit;
    analysis.counts.push_back(i >= first && !is_long);
    if (analysis.counts[i]) ++analysis.counted;
    if (i < first || !is_long) continue;
    analysis.long_steps.steps.push_back(analysis.steps[i]);
    long_times.push_back(times[i]);
  }
  analysis.long_steps.time = median(std::move(long_times));
}

// --- where time goes ---

// The collectives' submissions, by rank.
using Arrivals = std::map<Decision, std::vector<std::pair<int, const Collective*>>>;

Arrivals arrivals_of(const RunActivity& run, const Analysis& analysis) {
  Arrivals arrivals;
  for (const int rank : analysis.ranks) {
    for (const Collective& collective : run.ranks.at(rank).collectives)
      arrivals[collective.decision].emplace_back(rank, &collective);
  }
  return arrivals;
}

double last_arrival(const std::vector<std::pair<int, const Collective*>>& arrivals) {
  double last = 0;
  for (const auto& [rank, collective] : arrivals) last = std::max(last, collective->submitted);
  return last;
}

// The spans by which a rank's steps are divided.
class RankTime {
 public:
  RankTime(const Activity& activity, const Arrivals& arrivals) {
    std::vector<Span> waits;
    for (const NamedSpan& wait : activity.waits) {
      // Other threads, such as one that saves, wait beside the program.
      if (activity.step_row == 0 || wait.row == activity.step_row) waits.push_back(wait.span);
    }
    std::vector<Span> moving;
    std::vector<Span> behind;
    std::vector<Span> small;
    for (const Collective& one : activity.collectives) {
      if (one.started) moving.push_back(one.moving);
      const double last = last_arrival(arrivals.at(one.decision));
      behind.push_back({one.submitted, last});
      const bool is_small = one.bytes > 0 && one.bytes < kSmall && !one.between_two;
      if (is_small) small.push_back({std::max(one.submitted, last), one.ended});
    }
    waits_ = united(std::move(waits));
    communication_ = united(std::move(moving));
    exposed_ = intersection(waits_, communication_);
    for_others_ = intersection(waits_, united(std::move(behind)));
    exposed_for_others_ = intersection(for_others_, communication_);
    small_waits_ = intersection(waits_, united(std::move(small)));
  }

  Shares shares_of(const Span& step) const {
    Shares share;
    share.exposed = covered(exposed_, step);
    share.waiting = std::max(0.0, covered(waits_, step) - share.exposed);
    share.overlapped = std::max(0.0, covered(communication_, step) - share.exposed);
    share.compute =
        std::max(0.0, step.end - step.begin - share.exposed - share.waiting - share.overlapped);
    return share;
  }
  double for_others(const Span& step) const {
    return covered(for_others_, step) - covered(exposed_for_others_, step);
  }
  double small_waits(const Span& step) const { return covered(small_waits_, step); }

 private:
  Spans waits_;
  Spans communication_;
  Spans exposed_;             // waits while something moves
  Spans for_others_;          // waits before the last rank has come
  Spans exposed_for_others_;  // the part of these while something else moves
  Spans small_waits_;         // waits for small collectives after all ranks have come
};

void divide_steps(const RunActivity& run, Analysis& analysis) {
  const Arrivals arrivals = arrivals_of(run, analysis);
  const auto all = static_cast<double>(analysis.counted * analysis.ranks.size());
  for (const int rank : analysis.ranks) {
    const Activity& activity = run.ranks.at(rank);
    const RankTime time(activity, arrivals);
    Shares sum;
    for (std::size_t i = 0; i < analysis.steps.size(); ++i) {
      const Span& step = activity.steps.at(analysis.steps[i]);
      analysis.shares[rank].push_back(time.shares_of(step));
      if (!analysis.counts[i]) continue;
      sum += analysis.shares[rank].back();
      analysis.for_others += time.for_others(step) / all;
      analysis.small_waits += time.small_waits(step) / all;
    }
    analysis.means[rank] = sum.over(static_cast<double>(analysis.counted));
    analysis.mean += analysis.means[rank];
  }
  analysis.mean = analysis.mean.over(static_cast<double>(analysis.ranks.size()));
}

// --- who is late ---

// Returns the median; of an even number of arrivals the earlier one, so that one of two ranks can
// be late.
double middle(const std::vector<std::pair<int, const Collective*>>& arrivals) {
  std::vector<double> times;
  times.reserve(arrivals.size());
  for (const auto& [rank, collective] : arrivals) times.push_back(collective->submitted);
  const auto place = static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), times.begin() + place, times.end());
  return times[static_cast<std::size_t>(place)];
}

// Ignores sends: a rank that receives from one other rank comes before or after it as it likes.
void find_lateness(const RunActivity& run, Analysis& analysis) {
  for (const int rank : analysis.ranks)
    analysis.lateness[rank].assign(analysis.steps.size(), kNothing);
  for (const auto& [decision, arrivals] : arrivals_of(run, analysis)) {
    if (arrivals.size() < 2 || arrivals.front().second->between_two) continue;
    const double expected = middle(arrivals);
    for (const auto& [rank, collective] : arrivals) {
      const std::size_t place = place_of(analysis, collective->step);
      if (place == analysis.steps.size()) continue;
      double& late = analysis.lateness[rank][place];
      const double now = collective->submitted - expected;
      late = std::isnan(late) ? now : std::max(late, now);
    }
  }
}

// Finds the rank that has most of the lateness of the long steps.
void blame_long_steps(Analysis& analysis) {
  std::map<int, double> sums;
  double all = 0;
  for (std::size_t i = 0; i < analysis.steps.size(); ++i) {
    const auto& steps = analysis.long_steps.steps;
    if (!std::binary_search(steps.begin(), steps.end(), analysis.steps[i])) continue;
    for (const int rank : analysis.ranks) {
      const double late = analysis.lateness[rank][i];
      if (!(late > 0)) continue;
      sums[rank] += late;
      all += late;
    }
  }
  const double waited =
      analysis.long_steps.time * static_cast<double>(analysis.long_steps.steps.size());
  for (const auto& [rank, sum] : sums) {
    if (sum > all * 2 / 3 && sum > waited / 2) analysis.long_steps.latest_rank = rank;
  }
}

// Returns the median of each value's neighbourhood. NaNs are ignored.
std::vector<double> smoothed(const std::vector<double>& values) {
  std::vector<double> smooth(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i - std::min(i, kSmoothed / 2);
    const std::size_t end = std::min(i + kSmoothed / 2 + 1, values.size());
    std::vector<double> near;
    for (std::size_t k = begin; k < end; ++k) {
      if (!std::isnan(values[k])) near.push_back(values[k]);
    }
    smooth[i] = median(std::move(near));
  }
  return smooth;
}

// Half-open ranges of places with values above the threshold. Short gaps are bridged, and short
// pieces left out.
using Pieces = std::vector<std::pair<std::size_t, std::size_t>>;
Pieces pieces_above(const std::vector<double>& values, double threshold) {
  Pieces pieces;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > threshold)) continue;
    if (!pieces.empty() && i <= pieces.back().second + kSmoothed) {
      pieces.back().second = i + 1;
    } else {
      pieces.emplace_back(i, i + 1);
    }
  }
  const std::size_t shortest = std::min(kShortest, values.size());
  pieces.erase(
      std::remove_if(pieces.begin(), pieces.end(),
                     [&](const auto& piece) { return piece.second - piece.first < shortest; }),
      pieces.end());
  return pieces;
}

class StragglerSearch {
 public:
  explicit StragglerSearch(Analysis& analysis) : analysis_(analysis) {
    for (std::size_t i = 0; i < analysis.steps.size(); ++i) {
      if (analysis.counts[i]) places_.push_back(i);
    }
    for (const int rank : analysis.ranks) {
      std::vector<double>& sums = work_[rank];
      sums.push_back(0);
      for (const std::size_t place : places_)
        sums.push_back(sums.back() + analysis.shares[rank][place].works());
    }
  }

  void run() {
    const double threshold =
        std::max(kLatePart * analysis_.mean.whole(), 4 * analysis_.clock_error);
    for (const int rank : analysis_.ranks) {
      std::vector<double> lateness;
      for (const std::size_t place : places_) lateness.push_back(analysis_.lateness[rank][place]);
      Pieces pieces = pieces_above(smoothed(lateness), threshold);
      const auto is_chance = [&](const std::pair<std::size_t, std::size_t>& piece) {
        const auto begin = lateness.begin() + static_cast<std::ptrdiff_t>(piece.first);
        const auto end = lateness.begin() + static_cast<std::ptrdiff_t>(piece.second);
        const auto late = std::count_if(begin, end, [&](double one) { return one > threshold; });
        return piece.second - piece.first < places_.size() / kShortestPart ||
               static_cast<double>(late) < kMostlyLate * static_cast<double>(end - begin);
      };
      pieces.erase(std::remove_if(pieces.begin(), pieces.end(), is_chance), pieces.end());
      if (!pieces.empty()) look_at(rank, pieces, lateness);
    }
    std::stable_sort(analysis_.stragglers.begin(), analysis_.stragglers.end(),
                     [](const Straggler& a, const Straggler& b) {
                       return a.late * static_cast<double>(a.steps) >
                              b.late * static_cast<double>(b.steps);
                     });
  }

 private:
  // Adds a straggler, unless the rank has not worked longer: then it waits for another one.
  void look_at(int rank, const Pieces& pieces, const std::vector<double>& lateness) {
    Straggler one;
    one.rank = rank;
    std::vector<double> late;
    for (const auto& [begin, end] : pieces) {
      one.periods.push_back({analysis_.steps[places_[begin]], analysis_.steps[places_[end - 1]],
                             end + kSmoothed / 2 >= places_.size()});
      one.steps += end - begin;
      for (std::size_t i = begin; i < end; ++i) {
        if (!std::isnan(lateness[i])) late.push_back(lateness[i]);
      }
    }
    one.late = median(std::move(late));
    one.works = work_in(rank, pieces) / static_cast<double>(one.steps);
    std::vector<double> others;
    for (const int other : analysis_.ranks) {
      if (other != rank) others.push_back(work_in(other, pieces) / static_cast<double>(one.steps));
    }
    std::sort(others.begin(), others.end());
    if (!others.empty()) one.others = others[(others.size() - 1) / 2];
    if (one.works - one.others >= one.late / 2) analysis_.stragglers.push_back(one);
  }

  double work_in(int rank, const Pieces& pieces) const {
    const std::vector<double>& sums = work_.at(rank);
    double sum = 0;
    for (const auto& [begin, end] : pieces) sum += sums[end] - sums[begin];
    return sum;
  }

  Analysis& analysis_;
  std::vector<std::size_t> places_;          // of the steps that count
  std::map<int, std::vector<double>> work_;  // by rank: sum over all such steps before
};

}  // namespace

Analysis analyse(const RunActivity& run) {
  Analysis analysis;
  choose_ranks(run, analysis);
  find_steps(run, analysis);
  choose_steps(run, analysis);
  for (const int rank : analysis.ranks)
    analysis.clock_error = std::max(analysis.clock_error, run.ranks.at(rank).clock_error);
  divide_steps(run, analysis);
  find_lateness(run, analysis);
  blame_long_steps(analysis);
  StragglerSearch(analysis).run();
  analysis.tensors = tensor_timings(run, analysis);
  find_speeds(run, analysis);
  find_scopes(run, analysis);
  return analysis;
}

}  // namespace kolo::tools
