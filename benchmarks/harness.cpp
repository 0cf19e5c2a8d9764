#include "benchmarks/harness.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace kolo::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double microseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

// Calls it unless there is a problem already, and says what the problem is.
template <typename Step>
void attempt(std::string& problem, const Contender& contender, Step&& step) {
  if (!problem.empty()) return;
  try {
    step();
  } catch (const ContenderFailed& failed) {
    problem = "contender " + contender.name() + " failed: " + failed.what();
  }
}

}  // namespace

Sample take_sample(Ranks& ranks, Contender& contender, const Pattern& pattern) {
  std::string problem;
  attempt(problem, contender, [&] { contender.refresh(pattern); });
  const Distance before = ranks.distance();
  ranks.barrier();
  const SteadyClock::time_point start = SteadyClock::now();
  attempt(problem, contender, [&] { contender.repeat(pattern.calls()); });
  const double elapsed = microseconds_since(start);
  const Distance after = ranks.distance();
  const std::string wrong = contender.check(pattern);
  if (problem.empty() && !wrong.empty()) {
    problem = "wrong result of contender " + contender.name() + ": " + wrong;
  }
  double worst[2] = {contender.measured_microseconds().value_or(elapsed),
                     problem.empty() ? 0.0 : 1.0};
  ranks.largest(worst, 2);
  if (worst[1] != 0.0) throw RunFailed(problem);
  return {worst[0] / pattern.calls(), before == after ? before : Distance::kMoved};
}

const char* name_of(Distance distance) {
  switch (distance) {
    case Distance::kNear:
      return "near";
    case Distance::kFar:
      return "far";
    case Distance::kMoved:
      return "moved";
    case Distance::kUnknown:
      break;
  }
  return "unknown";
}

void agree(Ranks& ranks, const std::string& problem) {
  double bad = problem.empty() ? 0 : 1;
  ranks.largest(&bad, 1);
  if (bad != 0) throw RunFailed(problem);
}

std::vector<std::size_t> order_in_round(int round, std::size_t contenders) {
  std::vector<std::size_t> order(contenders);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (contenders == 0) return order;
  const auto turn = static_cast<std::size_t>(round);
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn % contenders),
              order.end());
  // Two are reversed by the rotation already.
  if (contenders > 2 && turn / contenders % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

std::vector<std::vector<Sample>> measure(Ranks& ranks, const Contenders& contenders,
                                         const Schedule& schedule) {
  std::vector<std::vector<Sample>> samples(contenders.size());
  for (int round = 0; round < schedule.warm_up + schedule.samples; ++round) {
    const Pattern pattern(ranks.rank(), ranks.size(), round, schedule.calls);
    for (const std::size_t which : order_in_round(round, contenders.size())) {
      if (schedule.rehearses) take_sample(ranks, *contenders[which], pattern);
      const Sample sample = take_sample(ranks, *contenders[which], pattern);
      if (round >= schedule.warm_up) samples[which].push_back(sample);
    }
  }
  return samples;
}

}  // namespace kolo::bench
