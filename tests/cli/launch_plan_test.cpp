#include "cli/run/launch_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/usage_error.hpp"

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

TEST(LaunchPlan, CanBeSuspendedWhereTheLauncherPassesSignalsOn) {
  LaunchRequest request = request_of(2);
  EXPECT_TRUE(plan_launch(request).can_suspend);
  request.kind = LauncherKind::kHydra;
  EXPECT_FALSE(plan_launch(request).can_suspend);
  request.kind = LauncherKind::kOpenMpi4;
  EXPECT_TRUE(plan_launch(request).can_suspend);
  request.mpi_args = {"--forward-signals", "none"};
  EXPECT_FALSE(plan_launch(request).can_suspend);
  request = request_of(2);
  request.environment = {{"PRTE_MCA_ess_base_forward_signals", "none"}};
  EXPECT_FALSE(plan_launch(request).can_suspend);
}

std::string binding_error(LauncherKind kind, const std::string& bind_to) {
  try {
    check_binding(kind, bind_to);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Binding, IsOneThatTheLauncherKnows) {
  for (const auto kind : {LauncherKind::kOpenMpi4, LauncherKind::kOpenMpi5, LauncherKind::kHydra}) {
    for (const char* good : {"", "none", "core", "socket", "numa", "Core", "l3cache"})
      EXPECT_EQ(binding_error(kind, good), "") << good;
    EXPECT_THAT(binding_error(kind, "bogus"), HasSubstr("'bogus' is not a binding of"));
  }
  EXPECT_EQ(binding_error(LauncherKind::kOpenMpi5, "core:overload-allowed"), "");
  EXPECT_THAT(binding_error(LauncherKind::kOpenMpi5, "core:bogus"),
              HasSubstr("'bogus' is not a qualifier of Open MPI 5; use one of overload-allowed"));
  EXPECT_THAT(binding_error(LauncherKind::kOpenMpi5, "board"), HasSubstr("numa, socket, package"));
  EXPECT_EQ(binding_error(LauncherKind::kHydra, "core:2"), "");
  EXPECT_EQ(binding_error(LauncherKind::kHydra, "user:0,1"), "");
}

TEST(LauncherKind, BelongsToALibrary) {
  EXPECT_EQ(launcher_kind_of_library("Open MPI v5.0.11"), LauncherKind::kOpenMpi5);
  EXPECT_EQ(launcher_kind_of_library("Open MPI v4.1.4, package: x"), LauncherKind::kOpenMpi4);
  EXPECT_EQ(launcher_kind_of_library("MPICH Version:      4.0.2"), LauncherKind::kHydra);
  EXPECT_EQ(launcher_kind_of_library("Intel(R) MPI Library 2021.11"), LauncherKind::kHydra);
  EXPECT_EQ(launcher_kind_of_library(""), LauncherKind::kUnknown);
  EXPECT_EQ(launcher_kind_of_library("Open MPI v"), LauncherKind::kUnknown);
}

TEST(LaunchPlan, LeavesBindingToEachHost) {
  EXPECT_EQ(line_of(request_of(2)),
            "mpirun -np 2 --bind-to none kolo-rank --threads 0 --bind --grace-ms 150 --master "
            "127.0.0.1:29500 -- prog -np 'a b'");
  LaunchRequest request = request_of(2);
  request.allocation.cpus_per_host = 4;
  EXPECT_THAT(line_of(request), HasSubstr("--threads 0 --bind --cpus 4 --grace-ms"));
}

TEST(LaunchPlan, OversubscribesWhenThereAreTooFewCores) {
  LaunchRequest request = request_of(9);
  const LaunchPlan plan = plan_launch(request);
  EXPECT_TRUE(plan.oversubscribed);
  EXPECT_THAT(shell_line(plan), HasSubstr("--bind-to none --map-by slot:OVERSUBSCRIBE kolo-rank"));
  request.kind = LauncherKind::kOpenMpi4;
  EXPECT_THAT(line_of(request), HasSubstr("--bind-to none --oversubscribe kolo-rank"));
  EXPECT_FALSE(plan_launch(request_of(8)).oversubscribed);
}

TEST(LaunchPlan, NamesOtherHosts) {
  LaunchRequest request = request_of(2);
  request.hosts = {{"here", 1}, {"there", 1}};
  EXPECT_THAT(line_of(request), HasSubstr("--host here:1,there:1 --bind-to none"));
}

TEST(LaunchPlan, ObeysBindTo) {
  LaunchRequest request = request_of(2);
  request.bind_to = "none";
  EXPECT_THAT(line_of(request), HasSubstr("--bind-to none kolo-rank --threads 0 --grace-ms"));
  request.bind_to = "numa";
  EXPECT_THAT(line_of(request), HasSubstr("--bind-to numa kolo-rank --threads 0 --bound"));
}

// Open MPI asks Slurm for the hosts of a job, and would take no more slots on them by --host.
TEST(LaunchPlan, TellsOpenMpiTheHostsOfASlurmJobByItsVariables) {
  LaunchRequest request = request_of(5);
  request.hosts = {{"n1", 3}, {"n3", 2}};
  request.allocation.hosts = {{"n1", 1}, {"n3", 1}};
  request.allocation.system = BatchSystem::kSlurm;
  EXPECT_THAT(line_of(request),
              testing::StartsWith("env -u SRUN_CPUS_PER_TASK -u SLURM_EXACT -u SRUN_EXPORT_ENV "
                                  "SLURM_EXPORT_ENV=ALL SLURM_NODELIST=n1,n3 "
                                  "SLURM_TASKS_PER_NODE=3,2 mpirun -np 5 --bind-to none "));
  request.kind = LauncherKind::kHydra;
  EXPECT_THAT(line_of(request), HasSubstr(" mpirun -np 5 -hosts n1:3,n3:2 "));
}

TEST(LaunchPlan, LeavesDevicesToEachNodeOfASlurmJob) {
  LaunchRequest request = request_of(2);
  request.hosts = {{"n1", 1}, {"n2", 1}};
  request.environment = {{"CUDA_VISIBLE_DEVICES", "0,1"}};
  EXPECT_THAT(line_of(request), HasSubstr("-x CUDA_VISIBLE_DEVICES"));
  request.allocation.system = BatchSystem::kSlurm;
  EXPECT_THAT(line_of(request), Not(HasSubstr("-x CUDA_VISIBLE_DEVICES")));
  request.extra = {{"CUDA_VISIBLE_DEVICES", "1"}};
  EXPECT_THAT(line_of(request), HasSubstr("-x CUDA_VISIBLE_DEVICES")) << "asked for";
}

// Its daemons are started by srun, which would wait for the step to end.
TEST(LaunchPlan, SharesAStepOfSlurm) {
  LaunchRequest request = request_of(2);
  request.allocation.system = BatchSystem::kSlurm;
  EXPECT_THAT(line_of(request), Not(HasSubstr("--overlap")));
  request.allocation.in_step = true;
  EXPECT_THAT(line_of(request), HasSubstr(" --prtemca plm_slurm_args --overlap "));
  request.kind = LauncherKind::kOpenMpi4;
  EXPECT_THAT(line_of(request), HasSubstr(" --mca plm_slurm_args --overlap "));
  request.environment = {{"OMPI_MCA_plm_slurm_args", "--external-launcher"},
                         {"HYDRA_LAUNCHER_EXTRA_ARGS", "--external-launcher"}};
  EXPECT_THAT(line_of(request),
              HasSubstr(" --mca plm_slurm_args '--overlap --external-launcher' "));
  request.kind = LauncherKind::kHydra;
  EXPECT_THAT(line_of(request),
              HasSubstr("HYDRA_LAUNCHER_EXTRA_ARGS='--overlap --external-launcher' mpirun "));
}

// SIGTERM tells of a preemption, and would end them before the ranks have saved their state.
TEST(LaunchPlan, ShieldsDaemonsFromSlurmsSigterm) {
  LaunchRequest request = request_of(2);
  request.hosts = {{"n1", 1}, {"n2", 1}};
  EXPECT_THAT(line_of(request), Not(HasSubstr("--shield")));
  request.allocation.system = BatchSystem::kSlurm;
  EXPECT_THAT(line_of(request),
              HasSubstr(" --prtemca prte_launch_agent 'kolo-rank --shield prted' "));
  request.kind = LauncherKind::kOpenMpi4;
  EXPECT_THAT(line_of(request), HasSubstr(" --mca orte_launch_agent 'kolo-rank --shield orted' "));
  request.rank_program = "/a folder/kolo-rank";
  EXPECT_THAT(line_of(request), Not(HasSubstr("--shield")));
  request.rank_program = "kolo-rank";
  request.hosts = {{"here", 2}};
  EXPECT_THAT(line_of(request), Not(HasSubstr("--shield"))) << "there are no daemons";
}

TEST(LaunchPlan, NamesSomeHostsOfASlurmJob) {
  LaunchRequest request = request_of(3);
  request.hosts = {{"n2", 3}};
  request.allocation.hosts = {{"n1", 1}, {"n2", 1}};
  request.allocation.system = BatchSystem::kSlurm;
  EXPECT_THAT(line_of(request), HasSubstr("SLURM_NODELIST=n1,n2 SLURM_TASKS_PER_NODE=1,3 mpirun "
                                          "-np 3 --host n2:3 --bind-to none"));
}

TEST(LaunchPlan, UsesTheBatchSystemsOwnAgent) {
  LaunchRequest request = request_of(2);
  request.hosts = {{"n1", 1}, {"n2", 1}};
  request.allocation.system = BatchSystem::kLsf;
  request.remote_agent = "/lsf/blaunch";
  EXPECT_THAT(
      line_of(request),
      testing::StartsWith("PRTE_MCA_plm_ssh_agent=/lsf/blaunch "
                          "OMPI_MCA_plm_rsh_agent=/lsf/blaunch mpirun -np 2 --host n1:1,n2:1 "));
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
              HasSubstr("mpirun -np 2 -bind-to none kolo-rank --threads 0 --bind"));
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
  EXPECT_EQ(rendezvous_address(request), "127.0.0.1");
  request.hosts = {{"there", 1}, {"here", 1}};
  EXPECT_EQ(rendezvous_address(request), "there");
  request.hosts = {{"localhost", 1}, {"there", 1}};
  EXPECT_EQ(rendezvous_address(request), "here");
  request.hosts = {{"localhost", 2}};
  EXPECT_EQ(rendezvous_address(request), "127.0.0.1");
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
