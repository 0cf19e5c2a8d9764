// Where loader processes run.
#include "cli/run/loader_team.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::string> names_of(const std::vector<LoaderHost>& hosts) {
  std::vector<std::string> names;
  for (const LoaderHost& host : hosts) {
    const bool is_other = host.component > 0;
    names.push_back(host.name + (is_other ? " of " + std::to_string(host.component) : ""));
  }
  return names;
}

TEST(LoaderHosts, AreThoseThatRanksLeaveOver) {
  const std::vector<Host> hosts = {{"gpu1", 8}, {"gpu2", 8}, {"cpu1", 2}, {"cpu2", 2}};
  EXPECT_THAT(names_of(loader_hosts(hosts, {}, 16, 3)), ElementsAre("cpu1", "cpu2", "cpu1"));
  EXPECT_THAT(names_of(loader_hosts(hosts, {}, 17, 2)), ElementsAre("cpu2", "cpu2"));
  EXPECT_THAT(names_of(loader_hosts(hosts, {}, 3, 2)), ElementsAre("gpu2", "cpu1"));
}

TEST(LoaderHosts, AreThoseOfTheRanksOtherwise) {
  EXPECT_THAT(names_of(loader_hosts({{"gpu1", 8}, {"gpu2", 8}}, {}, 16, 3)),
              ElementsAre("gpu1", "gpu2", "gpu1"));
  EXPECT_THAT(names_of(loader_hosts({}, {}, 4, 2)), ElementsAre("localhost", "localhost"));
}

TEST(LoaderHosts, AreTheTasksOfOtherComponents) {
  const std::vector<Host> ranks = {{"gpu1", 8}, {"gpu2", 8}};
  const std::vector<Component> others = {{1, {{"cpu1", 2}, {"cpu2", 1}}}, {2, {{"cpu9", 1}}}};
  EXPECT_THAT(names_of(loader_hosts(ranks, others, 8, 5)),
              ElementsAre("cpu1 of 1", "cpu1 of 1", "cpu2 of 1", "cpu9 of 2", "cpu1 of 1"));
  EXPECT_THAT(names_of(loader_hosts(ranks, {{1, {}}}, 16, 1)), ElementsAre("gpu1"));
}

TEST(LoaderPlan, IsAStepThatSharesItsNodeInAnotherComponent) {
  LaunchRequest launch;
  launch.own_host = "gpu1";
  launch.extra = {{"NAME", "value"}};
  const LaunchPlan plan = plan_loader({"cpu1", 2}, launch);
  EXPECT_THAT(plan.command,
              ElementsAre("srun", "--het-group=2", "--nodes=1", "--ntasks=1", "--nodelist=cpu1",
                          "--overlap", "--cpu-bind=none", "--mem=0", "--gres=none", "--mpi=none",
                          "--kill-on-bad-exit=0"));
  EXPECT_THAT(plan.set, Contains(Pair("NAME", "value")));
  EXPECT_THAT(plan.unset, Contains("SRUN_CPUS_PER_TASK"));
}

TEST(LoaderPlan, IsNothingOnTheOwnHost) {
  LaunchRequest launch;
  launch.own_host = "gpu1";
  EXPECT_THAT(plan_loader({"gpu1"}, launch).command, IsEmpty());
  EXPECT_THAT(plan_loader({"localhost"}, launch).command, IsEmpty());
}

TEST(HostsOfRanks, AreThoseThatTheyFill) {
  const std::vector<Host> hosts = {{"gpu1", 8}, {"gpu2", 8}, {"cpu1", 2}};
  EXPECT_EQ(to_string(hosts_of_ranks(hosts, 16)), "gpu1:8,gpu2:8");
  EXPECT_EQ(to_string(hosts_of_ranks(hosts, 9)), "gpu1:8,gpu2:8");
  EXPECT_EQ(to_string(hosts_of_ranks(hosts, 8)), "gpu1:8");
  EXPECT_EQ(to_string(hosts_of_ranks(hosts, 18)), to_string(hosts));
  EXPECT_TRUE(hosts_of_ranks({}, 4).empty());
}

}  // namespace
}  // namespace kolo::cli
