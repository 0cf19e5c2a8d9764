#include "benchmarks/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::bench {
namespace {

using testing::HasSubstr;

Row row(const char* contender, double median) {
  return {"allreduce/4/private/2", contender, {median, 1, 3.5, 20}, 4, "unbound"};
}

TEST(BenchJson, HasTheForm) {
  const Report report = {"allreduce",
                         "kolo bench allreduce -np 2",
                         "2025-01-31T12:00:00Z",
                         "a \"machine\"",
                         {row("kolo", 2.25), row("mpi", 1)}};
  EXPECT_EQ(to_json(report), R"({
  "benchmark": "allreduce",
  "command": "kolo bench allreduce -np 2",
  "date": "2025-01-31T12:00:00Z",
  "machine": "a \"machine\"",
  "rows": [
    {"work": "allreduce/4/private/2", "contender": "kolo", "median_us": 2.250, "min_us": 1.000, "p90_us": 3.500, "samples": 20, "bytes": 4, "placement": "unbound"},
    {"work": "allreduce/4/private/2", "contender": "mpi", "median_us": 1.000, "min_us": 1.000, "p90_us": 3.500, "samples": 20, "bytes": 4, "placement": "unbound"}
  ]
}
)");
}

TEST(BenchJson, WithoutRowsIsStillJson) {
  EXPECT_THAT(to_json({}), HasSubstr("\"rows\": [\n  ]"));
}

TEST(BenchTable, GivesTheRatioToMpi) {
  const std::string lines = table_lines({row("kolo", 3), row("mpi", 2)});
  EXPECT_THAT(lines, testing::MatchesRegex(
                         "[^\n]*kolo[^\n]* 3.00 [^\n]* 1.50\n[^\n]*mpi[^\n]* 2.00 [^\n]* 1.00\n"));
  EXPECT_THAT(table_lines({row("kolo", 3)}), HasSubstr(" -\n"));
  EXPECT_THAT(table_head(), HasSubstr("x mpi"));
}

TEST(BenchTable, ComparesWithMpiAtTheSameDistance) {
  std::vector<Row> rows = {row("kolo", 3), row("kolo", 8), row("mpi", 2)};
  rows[0].distance = rows[2].distance = Distance::kNear;
  rows[1].distance = Distance::kFar;
  EXPECT_THAT(table_lines(rows),
              testing::MatchesRegex("[^\n]*kolo +near[^\n]* 1.50\n[^\n]*kolo +far[^\n]* -\n"
                                    "[^\n]*mpi +near[^\n]* 1.00\n"));
  EXPECT_THAT(to_json({"", "", "", "", rows}), HasSubstr("\"placement\": \"far; unbound\""));
}

TEST(BenchTable, LongNamesAreCutNotOverrun) {
  Row long_row = row("kolo", 3);
  long_row.work = std::string(2000, 'w');
  EXPECT_LT(table_lines({long_row}).size(), 600U);
}

}  // namespace
}  // namespace kolo::bench
