// Draws lines into an SVG file. The y axis is logarithmic.
#pragma once

#include <string>
#include <vector>

namespace example {

struct Point {
  double x = 0;
  double y = 0;  // above 0
};

struct Line {
  std::string name;  // for the legend
  std::vector<Point> points;
};

enum class Axis { kLinear, kLogarithmic };  // of x

// Throws std::runtime_error if the file cannot be written, or a y is not finite and above 0.
void plot(const std::string& file, const std::vector<Line>& lines, Axis axis,
          const std::string& x_label, const std::string& y_label);

}  // namespace example
