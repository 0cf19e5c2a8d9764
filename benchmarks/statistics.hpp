// What a benchmark says of its samples.
#pragma once

#include <vector>

namespace kolo::bench {

// In the unit of the samples.
struct Summary {
  double median = 0;  // of an even number: the mean of the two in the middle
  double min = 0;
  double p90 = 0;  // nearest rank: the smallest sample that at least 90 % do not exceed
  int samples = 0;
};

// All zero without samples.
Summary summarize(std::vector<double> samples);

}  // namespace kolo::bench
