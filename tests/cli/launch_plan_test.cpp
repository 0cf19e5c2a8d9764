#include "cli/launch_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/environment_of.hpp"

namespace kolo::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

LaunchRequest request_of(int size) {
  LaunchRequest request;
  request.mpirun = "mpirun";
  request.size = size;
  request.own_host = "here";
  request.own_cores = 8;
  request.rank_program = "kolo-rank";
  request.rendezvous = {"127.0.0.1", 29500};
  request.program = {"prog", "-np", "a b"};
  return request;
}

std::string line_of(const LaunchRequest& request) {
  return shell_line(plan_launch(request));
}

TEST(LauncherKind, IsReadFromItsVersion) {
  EXPECT_EQ(launcher_kind("mpirun (Open MPI) 5.0.11\n\nReport bugs"), LauncherKind::kOpenMpi5);
  EXPECT_EQ(launcher_kind("mpirun (Open MPI) 4.1.4\n"), LauncherKind::kOpenMpi4);
  EXPECT_EQ(launcher_kind("orterun (OpenRTE) 4.1.4\n"), LauncherKind::kOpenMpi4);
  EXPECT_EQ(launcher_kind("prterun (PRRTE) 3.0.3"), LauncherKind::kOpenMpi5);
  EXPECT_EQ(launcher_kind("HYDRA build details:\n    Version: 4.0.2"), LauncherKind::kHydra);
  EXPECT_EQ(launcher_kind("bash: mpirun: command not found"), LauncherKind::kUnknown);
  EXPECT_EQ(launcher_kind(""), LauncherKind::kUnknown);
}

TEST(LaunchPlan, BindsLocalRanksToTheirOwnCores) {
  EXPECT_EQ(
      line_of(request_of(2)),
      "mpirun -np 2 --bind-to core --map-by slot:PE=4 kolo-rank --threads 0 --bound --grace-ms "
      "150 --master 127.0.0.1:29500 -- prog -np 'a b'");
}

TEST(LaunchPlan, BindsNothingWhenThereAreTooFewCores) {
  LaunchRequest request = request_of(9);
  const LaunchPlan plan = plan_launch(request);
  EXPECT_TRUE(plan.oversubscribed);
  EXPECT_THAT(shell_line(plan), HasSubstr("--bind-to none --map-by slot:OVERSUBSCRIBE kolo-rank"));
  EXPECT_THAT(shell_line(plan), Not(HasSubstr("--bound")));
  request.kind = LauncherKind::kOpenMpi4;
  EXPECT_THAT(line_of(request), HasSubstr("--bind-to none --oversubscribe kolo-rank"));
  request = request_of(4);
  request.threads_per_rank = 3;  // 12 threads on 8 cores
  EXPECT_THAT(line_of(request), HasSubstr("--bind-to none"));
}

TEST(LaunchPlan, BindsNothingOnOtherHosts) {
  LaunchRequest request = request_of(2);
  request.hosts = {{"here", 1}, {"there", 1}};
  EXPECT_THAT(line_of(request), HasSubstr("--host here:1,there:1 --bind-to none"));
  request.hosts.clear();
  request.in_allocation = true;
  EXPECT_THAT(line_of(request), HasSubstr("--bind-to none"));
}

TEST(LaunchPlan, ObeysBindTo) {
  LaunchRequest request = request_of(2);
  request.bind_to = "none";
  EXPECT_THAT(line_of(request), HasSubstr("--bind-to none kolo-rank --threads 0 --grace-ms"));
  request.bind_to = "numa";
  EXPECT_THAT(line_of(request), HasSubstr("--bind-to numa kolo-rank --threads 0 --bound"));
}

TEST(LaunchPlan, OversubscribesThisHostAlone) {
  LaunchRequest request = request_of(20);
  request.hosts = {{"localhost", 20}};
  EXPECT_THAT(line_of(request), HasSubstr("--host localhost:20"));
  EXPECT_THAT(line_of(request), HasSubstr("OVERSUBSCRIBE"));
  request.hosts = {{"there", 20}};
  EXPECT_THAT(line_of(request), Not(HasSubstr("OVERSUBSCRIBE")));
}

TEST(LaunchPlan, ForwardsVariablesToOtherHosts) {
  LaunchRequest request = request_of(2);
  request.environment = {{"KOLO_LOG_LEVEL", "debug"}, {"HOME", "/root"}, {"PATH", "/bin"}};
  request.extra = {{"DATA", "a;b"}, {"PATH", "/usr/bin"}};
  EXPECT_THAT(line_of(request), HasSubstr("DATA='a;b' PATH=/usr/bin mpirun"));
  EXPECT_THAT(line_of(request), HasSubstr("-x DATA -x PATH kolo-rank"));
  request.hosts = {{"there", 2}};
  EXPECT_THAT(line_of(request), HasSubstr("-x DATA -x PATH -x KOLO_LOG_LEVEL kolo-rank"));
}

TEST(LaunchPlan, SpeaksHydra) {
  LaunchRequest request = request_of(2);
  request.kind = LauncherKind::kHydra;
  EXPECT_THAT(line_of(request),
              HasSubstr("mpirun -np 2 -bind-to core:4 kolo-rank --threads 0 --bound"));
  request.hosts = {{"a", 1}, {"b", 1}};
  EXPECT_THAT(line_of(request), HasSubstr("mpirun -np 2 -hosts a:1,b:1 -bind-to none kolo-rank"));
}

TEST(LaunchPlan, PutsExtraArgumentsBeforeTheProgram) {
  LaunchRequest request = request_of(1);
  request.allow_root = true;
  request.mpi_args = {"--mca", "btl", "^tcp"};
  EXPECT_THAT(line_of(request), HasSubstr("--allow-run-as-root"));
  EXPECT_THAT(line_of(request), HasSubstr("--mca btl '^tcp' kolo-rank"));
}

TEST(RendezvousAddress, IsOneThatAllRanksCanUse) {
  LaunchRequest request = request_of(2);
  const Lookup slurm = environment_of({{"SLURM_JOB_NODELIST", "node[3-4]"}});
  EXPECT_EQ(rendezvous_address(request, slurm), "127.0.0.1");
  request.in_allocation = true;
  EXPECT_EQ(rendezvous_address(request, slurm), "node3");
  EXPECT_EQ(rendezvous_address(request, environment_of({})), "here");
  request.hosts = {{"there", 1}, {"here", 1}};
  EXPECT_EQ(rendezvous_address(request, slurm), "there");
  request.hosts = {{"localhost", 1}, {"there", 1}};
  EXPECT_EQ(rendezvous_address(request, slurm), "here");
  request.hosts = {{"localhost", 2}};
  EXPECT_EQ(rendezvous_address(request, slurm), "127.0.0.1");
}

TEST(IsForwarded, KnowsPrefixesAndNames) {
  for (const char* name :
       {"KOLO_X", "HOROVOD_X", "OMP_X", "NCCL_X", "TORCH_X", "PATH", "PYTHONPATH"}) {
    EXPECT_TRUE(is_forwarded(name)) << name;
  }
  for (const char* name : {"HOME", "PATHS", "XPATH", "KOLO", ""})
    EXPECT_FALSE(is_forwarded(name)) << name;
}

TEST(ShellQuoted, KeepsAWordOne) {
  EXPECT_EQ(shell_quoted("a-b_c./:=,+@%1"), "a-b_c./:=,+@%1");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$x;*"), "'$x;*'");
}

}  // namespace
}  // namespace kolo::cli
