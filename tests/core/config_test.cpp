#include "core/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

namespace kolo {
namespace {

using ::testing::HasSubstr;

Status read_with(const std::map<std::string, std::string>& environment, Config& config) {
  return Config::read(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = environment.find(name);
        return found == environment.end() ? std::nullopt : std::optional(found->second);
      },
      config);
}

TEST(Config, DefaultsAreTheTablesDefaults) {
  Config config;
  ASSERT_TRUE(read_with({}, config).is_ok());
  EXPECT_EQ(config.fusion_threshold_bytes, 4 << 20);
  EXPECT_EQ(config.chunk_bytes, 128 << 10);
  EXPECT_DOUBLE_EQ(config.collective_timeout_seconds, 300.0);
  EXPECT_EQ(config.log_level, LogLevel::kWarning);
  EXPECT_FALSE(config.log_timestamp);
}

TEST(Config, KoloWinsOverHorovodWhichWinsOverDefault) {
  Config config;
  ASSERT_TRUE(read_with({{"HOROVOD_FUSION_THRESHOLD", "1000"}}, config).is_ok());
  EXPECT_EQ(config.fusion_threshold_bytes, 1000);
  ASSERT_TRUE(
      read_with({{"HOROVOD_FUSION_THRESHOLD", "1000"}, {"KOLO_FUSION_THRESHOLD", "2000"}}, config)
          .is_ok());
  EXPECT_EQ(config.fusion_threshold_bytes, 2000);
}

TEST(Config, BadValuesNameVariableValueAndRange) {
  for (const char* value : {"", "abc", "-1", "12x", " 12", "99999999999999999999", "1e3"}) {
    Config config;
    const Status status = read_with({{"HOROVOD_FUSION_THRESHOLD", value}}, config);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(status.message(),
                HasSubstr(std::string("HOROVOD_FUSION_THRESHOLD='") + value + "'"));
    EXPECT_THAT(status.message(), HasSubstr("0 to 1073741824"));
  }
  for (const char* value : {"nan", "inf", "0", "-5", "1s"}) {
    Config config;
    EXPECT_FALSE(read_with({{"KOLO_COLLECTIVE_TIMEOUT_SECONDS", value}}, config).is_ok()) << value;
  }
}

TEST(Config, LevelsAndBooleans) {
  Config config;
  ASSERT_TRUE(
      read_with({{"KOLO_LOG_LEVEL", "debug"}, {"KOLO_LOG_TIMESTAMP", "on"}}, config).is_ok());
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
  EXPECT_TRUE(config.log_timestamp);
  ASSERT_TRUE(read_with({{"HOROVOD_LOG_LEVEL", "FATAL"}}, config).is_ok());
  EXPECT_EQ(config.log_level, LogLevel::kError);
  EXPECT_FALSE(read_with({{"KOLO_LOG_LEVEL", "loud"}}, config).is_ok());
  EXPECT_FALSE(read_with({{"KOLO_LOG_TIMESTAMP", "maybe"}}, config).is_ok());
}

TEST(Config, WhatMpiSaysOfItselfOrNot) {
  Config config;
  ASSERT_TRUE(read_with({}, config).is_ok());
  EXPECT_FALSE(config.cuda_aware_mpi.has_value());
  ASSERT_TRUE(read_with({{"KOLO_CUDA_AWARE_MPI", "0"}}, config).is_ok());
  EXPECT_EQ(config.cuda_aware_mpi, false);
  ASSERT_TRUE(read_with({{"KOLO_CUDA_AWARE_MPI", "1"}}, config).is_ok());
  EXPECT_EQ(config.cuda_aware_mpi, true);
  ASSERT_TRUE(read_with({{"KOLO_CUDA_AWARE_MPI", "AUTO"}}, config).is_ok());
  EXPECT_FALSE(config.cuda_aware_mpi.has_value());
  EXPECT_FALSE(read_with({{"KOLO_CUDA_AWARE_MPI", "maybe"}}, config).is_ok());
}

TEST(Config, ThePageInDocsIsTheTable) {
  std::ifstream file(std::string(KOLO_SOURCE_DIR) + "/docs/configuration.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), configuration_page())
      << "run: kolo help config --markdown > docs/configuration.md";
}

}  // namespace
}  // namespace kolo
