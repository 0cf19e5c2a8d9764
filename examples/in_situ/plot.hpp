// A line in an SVG file, with a logarithmic axis upwards.
#pragma once

#include <string>
#include <vector>

namespace in_situ {

struct Point {
  double x = 0;
  double y = 0;  // above 0
};

// Throws std::runtime_error if the file cannot be written, or a y is not finite and above 0.
void plot(const std::string& file, const std::vector<Point>& line, const std::string& x_label,
          const std::string& y_label);

}  // namespace in_situ
