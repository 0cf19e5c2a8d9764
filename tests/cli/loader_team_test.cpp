// Where loader processes run.
#include "cli/loader_team.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

using ::testing::ElementsAre;

TEST(LoaderHosts, AreThoseThatRanksLeaveOver) {
  const std::vector<Host> hosts = {{"gpu1", 8}, {"gpu2", 8}, {"cpu1", 2}, {"cpu2", 2}};
  EXPECT_THAT(loader_hosts(hosts, 16, 3), ElementsAre("cpu1", "cpu2", "cpu1"));
  EXPECT_THAT(loader_hosts(hosts, 17, 2), ElementsAre("cpu2", "cpu2"));
  EXPECT_THAT(loader_hosts(hosts, 3, 2), ElementsAre("gpu2", "cpu1"));
}

TEST(LoaderHosts, AreThoseOfTheRanksOtherwise) {
  EXPECT_THAT(loader_hosts({{"gpu1", 8}, {"gpu2", 8}}, 16, 3), ElementsAre("gpu1", "gpu2", "gpu1"));
  EXPECT_THAT(loader_hosts({}, 4, 2), ElementsAre("localhost", "localhost"));
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
