#include "core/cores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

std::vector<double> shares(const std::vector<CpuAccess>& node) {
  std::vector<double> all;
  for (std::size_t i = 0; i < node.size(); ++i) all.push_back(share_of_node(node, i));
  return all;
}

TEST(ShareOfNode, IsAllOfItForOneProcess) {
  EXPECT_THAT(shares({{{0, 1, 2}, {}}}), testing::ElementsAre(3));
}

TEST(ShareOfNode, IsItsOwnCoresForABoundProcess) {
  EXPECT_THAT(shares({{{0, 1}, {}}, {{2, 3, 4}, {}}}), testing::ElementsAre(2, 3));
}

// Whatever cores the machine has beside them: a container may have four of 64.
TEST(ShareOfNode, IsEvenWhereProcessesMayUseTheSameCores) {
  const CpuAccess container{{4, 5, 6, 7}, {}};
  EXPECT_THAT(shares({container, container, container, container}),
              testing::ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(shares({{{0, 1, 2}, {}}, {{2}, {}}}), testing::ElementsAre(2.5, 0.5));
}

TEST(ShareOfNode, IsLimitedByQuotasThatProcessesHaveTogether) {
  const CpuAccess one{{0, 1, 2, 3}, {{3, "container"}}};
  EXPECT_THAT(shares({one}), testing::ElementsAre(3));
  EXPECT_THAT(shares({one, one}), testing::ElementsAre(1.5, 1.5));
  EXPECT_THAT(shares({{{0, 1}, {{1.5, "a"}}}, {{2, 3}, {{4, "b"}}}}), testing::ElementsAre(1.5, 2))
      << "each has a container of its own";
  EXPECT_THAT(shares({{{0, 1}, {{2, "a"}, {2, "pod"}}}, {{2, 3}, {{2, "b"}, {2, "pod"}}}}),
              testing::ElementsAre(1, 1))
      << "and together they have one quota";
}

TEST(CpuAccess, ComesBackAsItWas) {
  const CpuAccess access{{0, 1, 5}, {{1.5, "27:42"}, {4, "a path"}}};
  const CpuAccess back = decode_cpu_access(encode(access));
  EXPECT_EQ(encode(back), encode(access));
  EXPECT_EQ(back.cores, access.cores);
  EXPECT_THAT(back.quotas, SizeIs(2));
  EXPECT_THAT(decode_cpu_access("").cores, IsEmpty());
}

TEST(CpuAccess, OfThisThreadHasACore) {
  EXPECT_FALSE(cpu_access().cores.empty());
}

}  // namespace
}  // namespace kolo
