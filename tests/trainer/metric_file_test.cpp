// Files of metrics, with a row for each epoch.
#include "trainer/metric_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kolo/error.h"

namespace kolo::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MetricFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "new/metrics.csv") const {
    return folder_ + "/" + name;
  }
  static std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  std::string folder_ = "/tmp/kolo-metrics-XXXXXX";
};

TEST_F(MetricFileTest, AResumedTrainingKeepsTheRowsBefore) {
  const MetricFile file(path(), "");
  file.keep_rows_before(1);
  for (int epoch = 1; epoch <= 12; ++epoch) file.add(std::to_string(epoch) + ",0.5", "epoch,top5");
  file.keep_rows_before(3);
  EXPECT_THAT(lines_of(path()), ElementsAre("epoch,top5", "1,0.5", "2,0.5"));
  file.add("3,0.25", "epoch,top5");
  EXPECT_THAT(lines_of(path()), ElementsAre("epoch,top5", "1,0.5", "2,0.5", "3,0.25"));
  file.keep_rows_before(1);
  EXPECT_THAT(lines_of(path()), IsEmpty()) << "a new training";
  EXPECT_FALSE(std::filesystem::exists(path() + ".tmp"));
}

TEST_F(MetricFileTest, RowsWithoutAHeader) {
  const MetricFile file(path(), "{\"epoch\": ");
  file.keep_rows_before(1);
  for (const char* epoch : {"1", "2", "10"})
    file.add(std::string("{\"epoch\": ") + epoch + ", \"loss\": 1}");
  file.keep_rows_before(2);
  EXPECT_THAT(lines_of(path()), ElementsAre("{\"epoch\": 1, \"loss\": 1}"));
}

TEST_F(MetricFileTest, AFileWithOtherColumnsIsRenamed) {
  const MetricFile file(path("metrics.csv"), "");
  file.add("1,0.5", "epoch,loss");
  file.add("2,0.5,0.1", "epoch,loss,error");
  EXPECT_THAT(lines_of(path("metrics.csv")), ElementsAre("epoch,loss,error", "2,0.5,0.1"));
  EXPECT_THAT(lines_of(path("metrics.csv.old")), ElementsAre("epoch,loss", "1,0.5"));
}

TEST_F(MetricFileTest, ErrorsNameTheFile) {
  std::ofstream(path("file")) << "no folder";
  const MetricFile below(path("file/metrics.csv"), "");
  EXPECT_THROW(below.keep_rows_before(1), FileError);
  EXPECT_THROW(below.add("1", "epoch"), FileError);
  const MetricFile full("/dev/full", "");
  EXPECT_THROW(full.add("1"), FileError);
}

}  // namespace
}  // namespace kolo::trainer
