#include "benchmarks/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::bench {
namespace {

constexpr const char* kCpuinfo =
    "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763\nmodel\t\t: 1\n"
    "processor\t: 1\nmodel name\t: another\n";

TEST(BenchMachine, IsDescribedInALine) {
  EXPECT_EQ(
      describe_machine(kCpuinfo, 2, "Linux 6.1", "Open MPI v5.0.8, package: Open MPI me@here"),
      "AMD EPYC 7763, 2 cores, Linux 6.1, Open MPI v5.0.8");
  EXPECT_EQ(
      describe_machine("", 1, "Linux 6.1", "MPICH Version:      4.0.2\nMPICH Release date: x"),
      "unknown CPU, 1 core, Linux 6.1, MPICH Version: 4.0.2");
  EXPECT_EQ(describe_machine("Model\t\t: Raspberry Pi 4\n", 4, "Linux 6.1", "x"),
            "Raspberry Pi 4, 4 cores, Linux 6.1, x");
  EXPECT_THAT(describe_this_machine("an MPI"), testing::HasSubstr(", Linux "));
}

TEST(BenchPlacement, SaysCoresByRank) {
  EXPECT_EQ(describe_placement({"", ""}, 1), "unbound");
  EXPECT_EQ(describe_placement({"0", "1"}, 1), "by rank bound to cores 0 1");
  EXPECT_EQ(describe_placement({"0-3", "", "0-3"}, 2),
            "2 nodes, by rank bound to cores 0-3 any 0-3");
}

TEST(BenchCommand, CanBeRepeated) {
  EXPECT_EQ(describe_command({}, 2, {"allreduce"}), "kolo bench allreduce -np 2");
  EXPECT_EQ(describe_command({"PATH=/bin", "KOLO_CHUNK_BYTES=4096", "KOLO_MPI=/opt/mpi",
                              "HOROVOD_LOG_LEVEL=info"},
                             4, {"allreduce", "--json", "it's a file"}),
            "KOLO_CHUNK_BYTES=4096 HOROVOD_LOG_LEVEL=info kolo bench allreduce -np 4 --json "
            "'it'\\''s a file'");
}

TEST(BenchDate, IsUtc) {
  EXPECT_THAT(date_now(), testing::ContainsRegex("^20..-..-..T..:..:..Z$"));
}

}  // namespace
}  // namespace kolo::bench
