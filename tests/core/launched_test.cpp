#include "core/launched.hpp"

#include <gtest/gtest.h>

#include <map>

namespace kolo {
namespace {

std::string told(const std::map<std::string, std::string>& variables) {
  const auto found = launched_size([&](const char* name) -> const char* {
    const auto variable = variables.find(name);
    return variable == variables.end() ? nullptr : variable->second.c_str();
  });
  return found ? found->variable + " " + std::to_string(found->size) : "nothing";
}

TEST(LaunchedSize, IsTheLaunchersWord) {
  EXPECT_EQ(told({}), "nothing");
  EXPECT_EQ(told({{"OMPI_COMM_WORLD_SIZE", "4"}}), "OMPI_COMM_WORLD_SIZE 4");
  EXPECT_EQ(told({{"PMI_SIZE", "12"}}), "PMI_SIZE 12");
  EXPECT_EQ(told({{"SLURM_STEP_NUM_TASKS", "2"}}), "SLURM_STEP_NUM_TASKS 2");
}

TEST(LaunchedSize, IsMpirunsBeforeSruns) {
  EXPECT_EQ(told({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "6"}}),
            "OMPI_COMM_WORLD_SIZE 1");
}

TEST(LaunchedSize, IsNotThatOfAShellsStep) {
  EXPECT_EQ(told({{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_PTY_PORT", "33"}}), "nothing");
}

TEST(LaunchedSize, PassesOverNonsense) {
  for (const char* text : {"", "x", "4x", "0", "-1", "999999999999"}) {
    EXPECT_EQ(told({{"PMI_SIZE", text}}), "nothing") << text;
  }
}

}  // namespace
}  // namespace kolo
