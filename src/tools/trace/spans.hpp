// Pieces of time.
#pragma once

#include <vector>

namespace kolo::tools {

// Microseconds on rank 0's clock.
struct Span {
  double begin = 0;
  double end = 0;
};

// Sorted and disjoint; all below take and give such ones.
using Spans = std::vector<Span>;

Spans united(std::vector<Span> any);
Spans intersection(const Spans& a, const Spans& b);
// The part of the window that they cover.
double covered(const Spans& spans, const Span& window);

// 0 without values.
double median(std::vector<double> values);
// The value below which the fraction (0 to 1) of them lies.
double quantile(std::vector<double> values, double fraction);

}  // namespace kolo::tools
