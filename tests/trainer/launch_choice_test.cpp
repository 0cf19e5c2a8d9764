// What launch() does, by how the program was started.
#include "trainer/launch_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "kolo/error.h"

namespace kolo::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

LaunchChoice chosen(const Words& arguments, const Variables& variables, const Machine& machine) {
  const auto get = [&](const char* name) -> const char* {
    const auto known = variables.find(name);
    return known == variables.end() ? nullptr : known->second.c_str();
  };
  return choose_launch(arguments, get, [&] { return machine; });
}

TEST(Launch, StartedByALauncherItIsARank) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const LaunchChoice choice = chosen({"--epochs", "3"}, {{name, "4"}}, {8, 2});
    EXPECT_TRUE(choice.is_rank) << name;
    EXPECT_THROW(chosen({"--np", "2"}, {{name, "4"}}, {8, 2}), InvalidArgumentError) << name;
  }
}

TEST(Launch, StartedPlainlyItStartsARankForEachGpuOrNumaNode) {
  EXPECT_THAT(chosen({}, {}, {4, 2}).run_options, ElementsAre("-np", "4"));
  EXPECT_THAT(chosen({}, {}, {0, 2}).run_options, ElementsAre("-np", "2"));
  EXPECT_FALSE(chosen({}, {}, {0, 2}).is_rank);
  EXPECT_TRUE(chosen({}, {}, {1, 2}).is_rank) << "one GPU: this process is the rank";
  EXPECT_TRUE(chosen({}, {}, {0, 1}).is_rank);
}

TEST(Launch, TheNumberOfRanksIsAnArgument) {
  for (const Words& arguments : {Words{"a", "--np", "3", "b"}, Words{"a", "--np=3", "b"}}) {
    const LaunchChoice choice = chosen(arguments, {}, {1, 1});
    EXPECT_FALSE(choice.is_rank);
    EXPECT_THAT(choice.run_options, ElementsAre("-np", "3"));
    EXPECT_THAT(choice.arguments, ElementsAre("a", "b"));
  }
  EXPECT_THAT(chosen({"--", "--np", "3"}, {}, {4, 1}).arguments, ElementsAre("--", "--np", "3"));
  for (const Words& wrong : {Words{"--np"}, Words{"--np", "0"}, Words{"--np", "two"},
                             Words{"--np=3x"}, Words{"--np=-1"}, Words{"--np="}}) {
    EXPECT_THROW(chosen(wrong, {}, {1, 1}), InvalidArgumentError);
  }
}

TEST(Launch, ABatchJobKnowsItsOwnSize) {
  const LaunchChoice choice = chosen({"a"}, {{"SLURM_JOB_ID", "7"}}, {1, 1});
  EXPECT_FALSE(choice.is_rank);
  EXPECT_THAT(choice.run_options, IsEmpty());
}

TEST(Launch, OneTaskOnEachNodeStartsARankForEachGpu) {
  const Variables one_each{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "2"}};
  EXPECT_FALSE(chosen({}, one_each, {3, 1}).is_rank);
  EXPECT_THAT(chosen({}, one_each, {3, 1}).run_options, IsEmpty()) << "kolo run counts the GPUs";
  EXPECT_FALSE(
      chosen({}, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_NUM_NODES", "1"}}, {3, 1}).is_rank);
  const LaunchChoice six = chosen({"a", "--np", "6"}, one_each, {3, 1});
  EXPECT_THAT(six.run_options, ElementsAre("-np", "6"));
  EXPECT_THAT(six.arguments, ElementsAre("a"));
  EXPECT_TRUE(chosen({}, one_each, {1, 1}).is_rank);
  EXPECT_TRUE(
      chosen({}, {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NUM_NODES", "2"}}, {3, 1}).is_rank)
      << "a task for each GPU";
}

TEST(Launch, NumaNodesCountIfTheProcessMayRunThere) {
  std::string folder = "/tmp/kolo-numa-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const Variables nodes{
      {"node0", "0-3,8-11"}, {"node1", "4-7,12"}, {"node2", ""}, {"possible", "0"}};
  for (const auto& [name, cores] : nodes) {
    std::filesystem::create_directory(folder + "/" + name);
    std::ofstream(folder + "/" + name + "/cpulist") << cores << "\n";
  }
  EXPECT_EQ(count_numa_nodes(folder, {0, 1}), 1);
  EXPECT_EQ(count_numa_nodes(folder, {11, 12}), 2);
  EXPECT_EQ(count_numa_nodes(folder, {99}), 1) << "somewhere it runs";
  std::filesystem::remove_all(folder);
  EXPECT_EQ(count_numa_nodes(folder, {0}), 1);
}

}  // namespace
}  // namespace kolo::trainer
