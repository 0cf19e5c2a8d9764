#include "tools/trace/spans.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kolo::tools {

Spans united(std::vector<Span> any) {
  std::sort(any.begin(), any.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  Spans spans;
  for (const Span& span : any) {
    if (!spans.empty() && span.begin <= spans.back().end) {
      spans.back().end = std::max(spans.back().end, span.end);
    } else if (span.end > span.begin) {
      spans.push_back(span);
    }
  }
  return spans;
}

Spans intersection(const Spans& a, const Spans& b) {
  Spans spans;
  auto left = a.begin();
  auto right = b.begin();
  while (left != a.end() && right != b.end()) {
    const Span both{std::max(left->begin, right->begin), std::min(left->end, right->end)};
    if (both.begin < both.end) spans.push_back(both);
    left->end < right->end ? static_cast<void>(++left) : static_cast<void>(++right);
  }
  return spans;
}

double covered(const Spans& spans, const Span& window) {
  auto span = std::partition_point(spans.begin(), spans.end(),
                                   [&](const Span& one) { return one.end <= window.begin; });
  double sum = 0;
  for (; span != spans.end() && span->begin < window.end; ++span)
    sum += std::min(span->end, window.end) - std::max(span->begin, window.begin);
  return std::max(sum, 0.0);
}

double quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::ptrdiff_t>(
      std::floor(fraction * static_cast<double>(values.size() - 1) + 0.5));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

}  // namespace kolo::tools
