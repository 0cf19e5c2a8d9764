// Spans of time.
#pragma once

#include <vector>

namespace kolo::tools {

// Microseconds on rank 0's clock.
struct Span {
  double begin = 0;
  double end = 0;
};

// Sorted and disjoint. The functions below take and return such spans; only united() takes any.
using Spans = std::vector<Span>;

Spans united(std::vector<Span> any);
Spans intersection(const Spans& a, const Spans& b);
// Returns the part of the window that the spans cover.
double covered(const Spans& spans, const Span& window);

// Returns 0 without values.
double median(std::vector<double> values);
// Returns the value below which the fraction (0 to 1) of the values lies.
double quantile(std::vector<double> values, double fraction);

}  // namespace kolo::tools
