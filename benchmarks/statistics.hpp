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

// How many times as long one took as the other, by pairs of samples that were taken near each
// other.
struct Ratio {
  double median = 0;
  // Of the ratios that samples like these may have as their median, 19 in 20 lie between; by order
  // statistics, so without assuming a distribution.
  double low = 0;
  double high = 0;
  int pairs = 0;
};

// Both have as many samples, those of `of` above 0. All zero without samples.
Ratio ratio_of_pairs(const std::vector<double>& samples, const std::vector<double>& of);

}  // namespace kolo::bench
