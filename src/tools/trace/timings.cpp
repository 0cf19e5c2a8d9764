#include "tools/trace/timings.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

#include "timeline/event.hpp"

namespace kolo::tools {
namespace {

// Most sizes of a kind that are kept apart. More are put together.
constexpr std::size_t kMostSizes = 40;

using StepsOf = std::map<std::int64_t, Span>;

// --- what is late ---

class TensorTimes {
 public:
  explicit TensorTimes(const RunActivity& run, const Analysis& analysis)
      : run_(run), analysis_(analysis) {
    for (const int rank : analysis.ranks) add(run.ranks.at(rank));
  }

  std::vector<TensorTiming> timings() {
    const std::map<std::string, double> waited = waits();
    const std::map<int, std::size_t> last = counts_of_last();
    std::vector<TensorTiming> timings;
    for (const auto& [name, steps] : times_) {
      if (!is_frequent(steps.size())) continue;
      TensorTiming timing;
      timing.name = run_.names.name(name);
      std::vector<double> ready;
      std::vector<double> reduced;
      for (const auto& [step, times] : steps) {
        ready.push_back(times.ready);
        reduced.push_back(times.reduced);
      }
      timing.ready = median(std::move(ready));
      timing.reduced = median(std::move(reduced));
      if (const auto found = waited.find(plain(timing.name)); found != waited.end())
        timing.waited = found->second;
      if (const auto found = last.find(name); found != last.end()) timing.last = found->second;
      timings.push_back(timing);
    }
    std::stable_sort(timings.begin(), timings.end(),
                     [](const auto& a, const auto& b) { return a.ready > b.ready; });
    return timings;
  }

 private:
  // Something that comes only now and then is not part of a step.
  bool is_frequent(std::size_t steps) const { return 2 * steps >= analysis_.counted; }

  // The waits do not include the process set, so this removes it: "set 2: w".
  static std::string plain(const std::string& row) {
    const std::size_t colon = row.find(": ");
    return row.rfind("set ", 0) == 0 && colon != std::string::npos ? row.substr(colon + 2) : row;
  }

  struct Times {
    double ready = 0;
    double reduced = 0;
  };

  void add(const Activity& activity) {
    std::map<Decision, const Collective*> collectives;
    for (const Collective& one : activity.collectives) collectives[one.decision] = &one;
    std::set<Decision> with_tensors;
    for (const Submission& one : activity.submissions) {
      with_tensors.insert(one.decision);
      const auto collective = collectives.find(one.decision);
      if (collective != collectives.end() && collective->second->bytes > 0)
        add(activity.steps, one.name, one.step, one.at, collective->second->ended);
    }
    // Timelines may leave out the tensors of buckets.
    for (const Collective& one : activity.collectives) {
      if (with_tensors.count(one.decision) == 0 && one.bytes > 0)
        add(activity.steps, one.name, one.step, one.submitted, one.ended);
    }
  }

  void add(const StepsOf& steps, int name, std::int64_t step, double ready, double reduced) {
    const auto span = steps.find(step);
    if (span == steps.end() || !counts(analysis_, step)) return;
    Times& times = times_[name][step];
    times.ready = std::max(times.ready, ready - span->second.begin);
    times.reduced = std::max(times.reduced, reduced - span->second.begin);
  }

  std::map<int, std::size_t> counts_of_last() const {
    std::map<std::int64_t, std::pair<double, int>> last;  // by step
    for (const auto& [name, steps] : times_) {
      if (!is_frequent(steps.size())) continue;
      for (const auto& [step, times] : steps)
        last[step] = std::max(last[step], {times.ready, name});
    }
    std::map<int, std::size_t> counts;
    for (const auto& [step, one] : last) ++counts[one.second];
    return counts;
  }

  std::map<std::string, double> waits() const {
    std::map<std::string, double> waited;
    const auto all = static_cast<double>(analysis_.counted * analysis_.ranks.size());
    for (const int rank : analysis_.ranks) {
      for (const NamedSpan& wait : run_.ranks.at(rank).waits) {
        if (counts(analysis_, wait.step))
          waited[run_.names.name(wait.name)] += (wait.span.end - wait.span.begin) / all;
      }
    }
    return waited;
  }

  const RunActivity& run_;
  const Analysis& analysis_;
  std::map<int, std::map<std::int64_t, Times>> times_;  // by name and step
};

// --- how fast ---

struct Sample {
  double bytes = 0;
  double time = 0;
  bool alone = false;
  double rate() const { return bytes / time / 1000; }
};
using Sizes = std::map<double, std::vector<Sample>>;  // by bytes

Sizes put_together(Sizes sizes) {
  if (sizes.size() <= kMostSizes) return sizes;
  std::map<int, std::vector<Sample>> classes;  // quarters of an octave
  for (const auto& [bytes, samples] : sizes) {
    auto& together = classes[static_cast<int>(std::floor(4 * std::log2(bytes)))];
    together.insert(together.end(), samples.begin(), samples.end());
  }
  Sizes fewer;
  for (auto& [number, samples] : classes) {
    std::vector<double> bytes;
    for (const Sample& one : samples) bytes.push_back(one.bytes);
    fewer[median(std::move(bytes))] = std::move(samples);
  }
  return fewer;
}

// Returns, by the place of each collective, whether no other overlaps it in time.
std::vector<bool> which_ran_alone(const std::vector<Collective>& collectives) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    if (collectives[i].started) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return collectives[a].moving.begin < collectives[b].moving.begin;
  });
  std::vector<bool> alone(collectives.size(), false);
  double busy_until = -1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Span& span = collectives[order[i]].moving;
    const bool after = span.begin >= busy_until;
    const bool before = i + 1 == order.size() || collectives[order[i + 1]].moving.begin >= span.end;
    alone[order[i]] = after && before;
    busy_until = std::max(busy_until, span.end);
  }
  return alone;
}

Speed speed_of(const std::string& phase, double bytes, const std::vector<Sample>& samples) {
  Speed speed;
  std::vector<double> rates;
  std::vector<double> alone;
  for (const Sample& one : samples) {
    rates.push_back(one.rate());
    if (one.alone) alone.push_back(one.rate());
    speed.time += one.time;
  }
  speed.phase = phase;
  speed.bytes = bytes;
  speed.count = samples.size();
  speed.gigabytes = median(rates);
  speed.slow = quantile(rates, 0.1);
  speed.fast = quantile(rates, 0.9);
  speed.alone = alone.size();
  speed.alone_gigabytes = median(std::move(alone));
  return speed;
}

}  // namespace

std::vector<TensorTiming> tensor_timings(const RunActivity& run, const Analysis& analysis) {
  return TensorTimes(run, analysis).timings();
}

void find_speeds(const RunActivity& run, Analysis& analysis) {
  const auto all = static_cast<double>(analysis.counted * analysis.ranks.size());
  std::map<int, Sizes> phases;
  for (const int rank : analysis.ranks) {
    const std::vector<Collective>& collectives = run.ranks.at(rank).collectives;
    const std::vector<bool> alone = which_ran_alone(collectives);
    for (std::size_t i = 0; i < collectives.size(); ++i) {
      const Collective& one = collectives[i];
      if (!counts(analysis, one.step) || one.bytes == 0) continue;
      const auto bytes = static_cast<double>(one.bytes);
      const double time = one.inside.end - one.inside.begin;
      if (time > 0) phases[one.phase][bytes].push_back({bytes, time, alone[i]});
      if (one.between_two) continue;
      analysis.collectives += 1 / all;
      analysis.bytes += bytes / all;
      if (one.members > 0) analysis.buckets += 1 / all;
      if (one.members > 0) analysis.bucket_bytes += bytes / all;
      if (one.bytes < kSmall) analysis.small_collectives += 1 / all;
    }
  }
  for (auto& [phase, sizes] : phases) {
    for (const auto& [bytes, samples] : put_together(std::move(sizes))) {
      analysis.speeds.push_back(speed_of(run.names.name(phase), bytes, samples));
      analysis.speeds.back().time /= all;
    }
  }
}

void find_scopes(const RunActivity& run, Analysis& analysis) {
  const auto all = static_cast<double>(analysis.counted * analysis.ranks.size());
  std::map<int, double> times;
  for (const int rank : analysis.ranks) {
    for (const NamedSpan& scope : run.ranks.at(rank).scopes) {
      if (counts(analysis, scope.step))
        times[scope.name] += (scope.span.end - scope.span.begin) / all;
    }
  }
  for (const auto& [name, time] : times) {
    analysis.scopes.push_back({run.names.name(name), time});
    if (analysis.scopes.back().name == timeline::kDataWaitScope) analysis.data_wait = time;
  }
  std::stable_sort(analysis.scopes.begin(), analysis.scopes.end(),
                   [](const ScopeTime& a, const ScopeTime& b) { return a.time > b.time; });
}

}  // namespace kolo::tools
