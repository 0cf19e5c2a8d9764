#include "cli/process/binding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

namespace kolo::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Core> cores_of(int count) {
  std::vector<Core> cores;
  for (int i = 0; i < count; ++i) cores.push_back({{i}, 0, 0});
  return cores;
}

TEST(ShareOfCores, OverlapsWithNoOther) {
  for (const int cores : {1, 2, 7, 44}) {
    for (int ranks = 1; ranks <= cores; ++ranks) {
      std::set<int> taken;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int> share = share_of_cores(cores_of(cores), rank, ranks, 0);
        EXPECT_EQ(share.size(), static_cast<std::size_t>(cores / ranks));
        for (const int cpu : share) EXPECT_TRUE(taken.insert(cpu).second) << cpu;
      }
    }
  }
}

TEST(ShareOfCores, StaysWithinAPackageWhereRanksCanBeDividedByThem) {
  // 2 x 22 cores and 6 ranks: the fourth begins in the second package.
  EXPECT_EQ(share_of_cores(cores_of(44), 3, 6, 0).front(), 22);
  EXPECT_LT(share_of_cores(cores_of(44), 2, 6, 0).back(), 22);
}

TEST(ShareOfCores, HasAllThreadsOfItsCores) {
  const std::vector<Core> cores = {{{0, 4}, 0, 0}, {{1, 5}, 0, 0}, {{2, 6}, 1, 1}, {{3, 7}, 1, 1}};
  EXPECT_THAT(share_of_cores(cores, 1, 2, 2), ElementsAre(2, 3, 6, 7));
}

TEST(ShareOfCores, IsNoneWhereThereAreTooFew) {
  EXPECT_THAT(share_of_cores(cores_of(3), 0, 4, 0), IsEmpty());
  EXPECT_THAT(share_of_cores(cores_of(8), 0, 4, 3), IsEmpty()) << "three threads on two cores";
  EXPECT_THAT(share_of_cores(cores_of(8), -1, -1, 0), IsEmpty()) << "nobody told the local rank";
  EXPECT_THAT(share_of_cores(cores_of(8), 2, 2, 0), IsEmpty());
  EXPECT_THAT(share_of_cores({}, 0, 1, 0), IsEmpty());
}

TEST(BindToCpus, IsSeenInWhatIsUsable) {
  const std::vector<Core> before = usable_cores_in_order();
  ASSERT_FALSE(before.empty());
  std::thread other([&] {  // binds itself alone
    bind_to_cpus(before.back().cpus);
    const std::vector<Core> now = usable_cores_in_order();
    ASSERT_EQ(now.size(), 1U);
    EXPECT_EQ(now.front().cpus, before.back().cpus);
  });
  other.join();
}

}  // namespace
}  // namespace kolo::cli
