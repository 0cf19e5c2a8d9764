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

}  // namespace
}  // namespace kolo::cli
