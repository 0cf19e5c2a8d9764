#include "core/control_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "temporary_folder.hpp"

namespace kolo {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::Optional;

// A folder that stands for "/", with files of /proc and of control groups.
class System {
 public:
  System(const std::string& groups, const std::string& mounts) {
    write("/proc/self/cgroup", groups);
    write("/proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda rw\n" + mounts);
  }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.path() + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::vector<CpuQuota> quotas() const { return cpu_quotas(folder_.path()); }
  std::optional<double> cores() const { return least_cores(quotas()); }
  std::int64_t memory() const { return memory_limit(folder_.path()); }
  std::uint64_t available() const { return available_memory(folder_.path()); }

 private:
  const testing_support::TemporaryFolder folder_;
};

auto cores_are(double cores) {
  return Field(&CpuQuota::cores, DoubleEq(cores));
}

const char* const kSecond = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
const char* const kFirst =
    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST(CpuQuota, IsThatOfVersion2) {
  const System system("0::/job\n", kSecond);
  EXPECT_THAT(system.quotas(), IsEmpty());
  system.write("/sys/fs/cgroup/job/cpu.max", "max 100000");
  EXPECT_THAT(system.quotas(), IsEmpty());
  system.write("/sys/fs/cgroup/job/cpu.max", "150000 100000");
  EXPECT_THAT(system.quotas(), ElementsAre(cores_are(1.5)));
}

TEST(CpuQuota, IsThatOfVersion1) {
  const System system("4:cpu,cpuacct:/job\n3:cpuset:/other\n0::/\n", kFirst);
  system.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000");
  system.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  EXPECT_THAT(system.quotas(), IsEmpty());
  system.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "25000");
  EXPECT_THAT(system.quotas(), ElementsAre(cores_are(0.5)));
  system.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "0");
  EXPECT_THAT(system.quotas(), IsEmpty()) << "nonsense";
}

TEST(CpuQuota, OfEachGroupAroundItHolds) {
  const System system("0::/slurm/job_4/step_0\n", kSecond);
  system.write("/sys/fs/cgroup/slurm/job_4/step_0/cpu.max", "max 100000");
  system.write("/sys/fs/cgroup/slurm/job_4/cpu.max", "400000 100000");
  system.write("/sys/fs/cgroup/slurm/cpu.max", "200000 100000");
  system.write("/sys/fs/cgroup/cpu.max", "800000 100000");
  EXPECT_THAT(system.quotas(), ElementsAre(cores_are(4), cores_are(2), cores_are(8)));
  EXPECT_THAT(system.cores(), Optional(DoubleEq(2)));
}

// A container sees the tree from its own group on: as "/", or, without a namespace, in a mount that
// begins there.
TEST(CpuQuota, OfAContainerIsSeenInItsPartOfTheTree) {
  const System with_namespace("0::/\n", kSecond);
  with_namespace.write("/sys/fs/cgroup/cpu.max", "300000 100000");
  EXPECT_THAT(with_namespace.cores(), Optional(DoubleEq(3)));

  const System without("4:cpu:/docker/ab/job\n",
                       "31 30 0:27 /docker/ab /sys/fs/cgroup/cpu ro - cgroup cgroup ro,cpu\n");
  without.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  without.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000");
  without.write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  without.write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000");
  EXPECT_THAT(without.quotas(), ElementsAre(cores_are(1), cores_are(3)));

  for (const char* elsewhere : {"0::/docker/abc\n", "0::/../cd\n", "0::/\n"}) {
    const System outside(elsewhere,
                         "31 30 0:27 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup2 ro\n");
    outside.write("/sys/fs/cgroup/cpu.max", "300000 100000");
    EXPECT_THAT(outside.quotas(), ElementsAre(cores_are(3))) << elsewhere;
  }
}

TEST(CpuQuota, IsFoundWhereverTheTreeIsMounted) {
  const System system("0::/job\n", "31 30 0:27 / /mnt/control\\040groups rw - cgroup2 none rw\n");
  system.write("/mnt/control groups/job/cpu.max", "100000 100000");
  EXPECT_THAT(system.cores(), Optional(DoubleEq(1)));
}

TEST(CpuQuota, NamesItsGroupWhateverIsSeenOfTheTree) {
  const System system("0::/job\n",
                      std::string(kSecond) + "31 30 0:27 /job /mnt rw - cgroup2 none rw\n");
  system.write("/sys/fs/cgroup/job/cpu.max", "100000 100000");
  system.write("/sys/fs/cgroup/cpu.max", "200000 100000");
  const auto quotas = system.quotas();
  ASSERT_THAT(quotas, ElementsAre(cores_are(1), cores_are(2)));
  EXPECT_NE(quotas[0].group, quotas[1].group);
  EXPECT_EQ(system.quotas()[0].group, quotas[0].group);
}

TEST(CpuQuota, IsNoneWithoutControlGroups) {
  EXPECT_THAT(System("", "").quotas(), IsEmpty());
  EXPECT_THAT(System("nonsense\n4:cpu\n", kFirst).quotas(), IsEmpty());
  EXPECT_THAT(System("0::/\n", "nonsense - cgroup2\n").quotas(), IsEmpty());
  const testing_support::TemporaryFolder nothing;
  EXPECT_THAT(cpu_quotas(nothing.path()), IsEmpty());
  EXPECT_EQ(least_cores({}), std::nullopt);
}

TEST(MemoryLimit, IsTheLeastOfAGroupAndThoseAroundIt) {
  const System system("0::/slurm/job_4/step_0\n", kSecond);
  EXPECT_EQ(system.memory(), -1);
  system.write("/sys/fs/cgroup/slurm/job_4/step_0/memory.max", "max");
  system.write("/sys/fs/cgroup/slurm/job_4/memory.max", "4096");
  EXPECT_EQ(system.memory(), 4096);
  system.write("/sys/fs/cgroup/slurm/job_4/step_0/memory.max", "2048");
  EXPECT_EQ(system.memory(), 2048);
  system.write("/sys/fs/cgroup/memory.max", "512");
  EXPECT_EQ(system.memory(), 512);
}

TEST(MemoryLimit, IsThatOfVersion1) {
  const System system("4:cpu,cpuacct:/x\n3:memory:/job\n0::/\n", kFirst);
  system.write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "16");
  EXPECT_EQ(system.memory(), -1) << "the folder of another group";
  system.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(system.memory(), -1) << "none";
  system.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8192");
  EXPECT_EQ(system.memory(), 8192);
}

TEST(AvailableMemory, IsTheKernelsEstimate) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(available_memory(folder.path()), ~std::uint64_t{0}) << "not known";
  std::filesystem::create_directories(folder / "proc");
  std::ofstream(folder / "proc/meminfo") << "MemTotal:  2000 kB\nMemAvailable:  1000 kB\n";
  EXPECT_EQ(available_memory(folder.path()), 1024'000U);
}

TEST(AvailableMemory, IsWhatControlGroupsLeave) {
  const System second("0::/slurm/job_4/step_0\n", kSecond);
  second.write("/sys/fs/cgroup/slurm/job_4/memory.max", "4096");
  EXPECT_EQ(second.available(), 4096U) << "nothing is used";
  second.write("/sys/fs/cgroup/slurm/job_4/memory.current", "3000");
  EXPECT_EQ(second.available(), 1096U);
  second.write("/sys/fs/cgroup/slurm/job_4/memory.stat", "anon 1\ninactive_file 1000");
  EXPECT_EQ(second.available(), 2096U);
  second.write("/sys/fs/cgroup/slurm/job_4/memory.current", "9000");
  EXPECT_EQ(second.available(), 0U);

  const System first("4:cpu,cpuacct:/x\n3:memory:/job\n0::/\n", kFirst);
  first.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8192");
  first.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "5000");
  first.write("/sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 808");
  EXPECT_EQ(first.available(), 4000U);
}

}  // namespace
}  // namespace kolo
