#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

namespace in_situ {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 400;
constexpr double kMargin = 60;

}  // namespace

void plot(const std::string& file, const std::vector<Point>& line, const std::string& x_label,
          const std::string& y_label) {
  double last = 1;
  double low = 0;  // powers of ten
  double high = 0;
  for (const Point& point : line) {
    if (!(point.y > 0) || std::isinf(point.y))
      throw std::runtime_error(file + ": a value is not finite, or not above 0");
    last = std::max(last, point.x);
    low = std::min(low, std::floor(std::log10(point.y)));
    high = std::max(high, std::ceil(std::log10(point.y)));
  }
  if (low == high) high += 1;
  const auto x_of = [&](double x) { return kMargin + (kWidth - 2 * kMargin) * x / last; };
  const auto y_of = [&](double y) {
    return kHeight - kMargin - (kHeight - 2 * kMargin) * (std::log10(y) - low) / (high - low);
  };
  std::ofstream svg(file);
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='" << kWidth << "' height='" << kHeight
      << "' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' "
         "fill='white'/>\n";
  for (int power = static_cast<int>(low); power <= static_cast<int>(high); ++power) {
    const double y = y_of(std::pow(10, power));
    svg << "<line x1='" << kMargin << "' y1='" << y << "' x2='" << kWidth - kMargin << "' y2='" << y
        << "' stroke='#ccc'/>\n<text x='" << kMargin - 6 << "' y='" << y + 4
        << "' text-anchor='end'>" << std::pow(10, power) << "</text>\n";
  }
  for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    svg << "<text x='" << x_of(part * last) << "' y='" << kHeight - kMargin + 18
        << "' text-anchor='middle'>" << std::round(part * last) << "</text>\n";
  }
  svg << "<text x='" << kWidth / 2 << "' y='" << kHeight - 16 << "' text-anchor='middle'>"
      << x_label << "</text>\n<text x='" << kMargin << "' y='" << kMargin - 16 << "'>" << y_label
      << "</text>\n<polyline fill='none' stroke='#1f77b4' stroke-width='1.5' points='";
  for (const Point& point : line) svg << x_of(point.x) << ',' << y_of(point.y) << ' ';
  svg << "'/>\n</svg>\n";
  svg.close();
  if (!svg) throw std::runtime_error(file + ": the file cannot be written");
}

}  // namespace in_situ
