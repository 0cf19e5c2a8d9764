#include "core/host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>

namespace kolo {
namespace {

using testing::ElementsAre;

TEST(ProgramName, IsThatOfTheFile) {
  EXPECT_EQ(program_name(), std::filesystem::read_symlink("/proc/self/exe").filename().string());
}

TEST(Cores, AreListedAsRanges) {
  EXPECT_EQ(core_list({}), "");
  EXPECT_EQ(core_list({3}), "3");
  EXPECT_EQ(core_list({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(core_list({0, 2, 4, 5}), "0,2,4-5");
}

TEST(Cores, AreThoseThatTheThreadMayUse) {
  const std::vector<int> all = usable_cores();
  ASSERT_FALSE(all.empty());
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(all.back()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_THAT(usable_cores(), ElementsAre(all.back()));
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cores(), all);
}

}  // namespace
}  // namespace kolo
