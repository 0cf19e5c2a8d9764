#include "benchmarks/stay.hpp"

#include <chrono>
#include <sstream>

namespace kolo::bench {

double monotonic_microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

std::string left_too_early(Ranks& ranks, const Stay& stay) {
  double last = stay.entered;
  ranks.largest_on_node(&last, 1);
  if (stay.left >= last) return "";
  std::ostringstream text;
  text << "rank " << ranks.rank() << " left the barrier " << last - stay.left
       << " us before the last rank came";
  return text.str();
}

}  // namespace kolo::bench
