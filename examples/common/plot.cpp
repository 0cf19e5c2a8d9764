#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace example {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 400;
constexpr double kMargin = 60;
constexpr std::array<const char*, 4> kColors = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd"};

// The values that the axes show.
struct Range {
  double first_x = 0;
  double last_x = 1;
  double low = std::numeric_limits<double>::infinity();  // powers of ten
  double high = -std::numeric_limits<double>::infinity();
};

Range range_of(const std::string& file, const std::vector<Line>& lines, Axis axis) {
  Range range;
  if (axis == Axis::kLogarithmic) range.first_x = 1;
  for (const Line& line : lines) {
    for (const Point& point : line.points) {
      if (!(point.y > 0) || std::isinf(point.y))
        throw std::runtime_error(file + ": a value is not finite, or not above 0");
      range.last_x = std::max(range.last_x, point.x);
      range.low = std::min(range.low, std::floor(std::log10(point.y)));
      range.high = std::max(range.high, std::ceil(std::log10(point.y)));
    }
  }
  if (range.low > range.high) range.low = range.high = 0;  // there are no points
  if (range.low == range.high) range.high += 1;
  return range;
}

}  // namespace

void plot(const std::string& file, const std::vector<Line>& lines, Axis axis,
          const std::string& x_label, const std::string& y_label) {
  const Range range = range_of(file, lines, axis);
  const double width = kWidth - 2 * kMargin;
  const double height = kHeight - 2 * kMargin;
  const auto value_at = [&](double part) {
    return axis == Axis::kLinear ? range.first_x + part * (range.last_x - range.first_x)
                                 : range.first_x * std::pow(range.last_x / range.first_x, part);
  };
  const auto x_of = [&](double x) {
    const double part = axis == Axis::kLinear
                            ? (x - range.first_x) / (range.last_x - range.first_x)
                            : std::log(x / range.first_x) / std::log(range.last_x / range.first_x);
    return kMargin + width * part;
  };
  const auto y_of = [&](double y) {
    return kHeight - kMargin - height * (std::log10(y) - range.low) / (range.high - range.low);
  };
  std::ofstream svg(file);
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='" << kWidth << "' height='" << kHeight
      << "' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' "
         "fill='white'/>\n";
  for (int power = static_cast<int>(range.low); power <= static_cast<int>(range.high); ++power) {
    const double y = y_of(std::pow(10, power));
    svg << "<line x1='" << kMargin << "' y1='" << y << "' x2='" << kWidth - kMargin << "' y2='" << y
        << "' stroke='#ccc'/>\n<text x='" << kMargin - 6 << "' y='" << y + 4
        << "' text-anchor='end'>" << std::pow(10, power) << "</text>\n";
  }
  for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    svg << "<text x='" << kMargin + width * part << "' y='" << kHeight - kMargin + 18
        << "' text-anchor='middle'>" << std::round(value_at(part) * 10) / 10 << "</text>\n";
  }
  svg << "<text x='" << kWidth / 2 << "' y='" << kHeight - 16 << "' text-anchor='middle'>"
      << x_label << "</text>\n<text x='" << kMargin << "' y='" << kMargin - 16 << "'>" << y_label
      << "</text>\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* color = kColors.at(i % kColors.size());
    svg << "<text x='" << kWidth - kMargin << "' y='" << kMargin - 32 + 14 * static_cast<double>(i)
        << "' text-anchor='end' fill='" << color << "'>" << lines[i].name
        << "</text>\n<polyline fill='none' stroke-width='1.5' stroke='" << color << "' points='";
    for (const Point& point : lines[i].points) svg << x_of(point.x) << ',' << y_of(point.y) << ' ';
    svg << "'/>\n";
  }
  svg << "</svg>\n";
  svg.close();
  if (!svg) throw std::runtime_error(file + ": the file cannot be written");
}

}  // namespace example
