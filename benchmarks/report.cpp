#include "benchmarks/report.hpp"

#include <algorithm>
#include <cstdio>

#include "core/json.hpp"

namespace kolo::bench {
namespace {

template <typename... Values>
std::string format(const char* form, Values... values) {
  char text[512];
  const int length = std::snprintf(text, sizeof text, form, values...);
  return {text, static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(sizeof text) - 1))};
}

std::string whole_placement(const Row& row) {
  if (row.distance == Distance::kUnknown) return row.placement;
  return std::string(name_of(row.distance)) + "; " + row.placement;
}

std::string json_row(const Row& row) {
  const Summary& us = row.microseconds;
  return "{\"work\": " + json_string(row.work) + ", \"contender\": " + json_string(row.contender) +
         format(
             ", \"median_us\": %.3f, \"min_us\": %.3f, \"p90_us\": %.3f, \"samples\": %d, "
             "\"bytes\": %lld",
             us.median, us.min, us.p90, us.samples, static_cast<long long>(row.bytes)) +
         ", \"placement\": " + json_string(whole_placement(row)) + "}";
}

std::string ratio_to_mpi(const Row& row, const std::vector<Row>& rows) {
  const auto mpi = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
    return other.contender == "mpi" && other.distance == row.distance;
  });
  if (mpi == rows.end() || mpi->microseconds.median <= 0) return "-";
  return format("%.2f", row.microseconds.median / mpi->microseconds.median);
}

}  // namespace

std::string to_json(const Report& report) {
  std::string json = "{\n  \"benchmark\": " + json_string(report.benchmark) +
                     ",\n  \"command\": " + json_string(report.command) +
                     ",\n  \"date\": " + json_string(report.date) +
                     ",\n  \"machine\": " + json_string(report.machine) + ",\n  \"rows\": [";
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    json += (i == 0 ? "\n    " : ",\n    ") + json_row(report.rows[i]);
  }
  return json + "\n  ]\n}\n";
}

std::string table_head() {
  return format("%-38s %-16s %-8s %12s %12s %12s %8s %8s\n", "work", "contender", "cores",
                "median us", "min us", "p90 us", "samples", "x mpi");
}

std::string table_lines(const std::vector<Row>& rows) {
  std::string lines;
  for (const Row& row : rows) {
    const Summary& us = row.microseconds;
    lines += format("%-38s %-16s %-8s %12.2f %12.2f %12.2f %8d %8s\n", row.work.c_str(),
                    row.contender.c_str(), name_of(row.distance), us.median, us.min, us.p90,
                    us.samples, ratio_to_mpi(row, rows).c_str());
  }
  return lines;
}

}  // namespace kolo::bench
