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

double take_sample(Ranks& ranks, Contender& contender, const Pattern& pattern) {
  contender.refresh(pattern);
  ranks.barrier();
  const SteadyClock::time_point start = SteadyClock::now();
  contender.run();
  const double mine = microseconds_since(start);
  const std::string wrong = contender.check(pattern);
  double worst[2] = {mine, wrong.empty() ? 0.0 : 1.0};
  ranks.largest(worst, 2);
  if (worst[1] == 0.0) return worst[0];
  throw WrongResult(wrong.empty() ? ""
                                  : "wrong result of contender " + contender.name() + ": " + wrong);
}

}  // namespace

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

std::vector<std::vector<double>> measure(Ranks& ranks, const Contenders& contenders,
                                         const Schedule& schedule) {
  std::vector<std::vector<double>> times(contenders.size());
  for (int round = 0; round < schedule.warm_up + schedule.samples; ++round) {
    const Pattern pattern(ranks.rank(), ranks.size(), round);
    for (const std::size_t which : order_in_round(round, contenders.size())) {
      const double time = take_sample(ranks, *contenders[which], pattern);
      if (round >= schedule.warm_up) times[which].push_back(time);
    }
  }
  return times;
}

}  // namespace kolo::bench
