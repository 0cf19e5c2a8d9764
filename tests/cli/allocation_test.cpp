#include "cli/batch/allocation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/batch/slurm_notation.hpp"
#include "cli/environment_of.hpp"
#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::optional<std::string> no_file(const std::string&) {
  return std::nullopt;
}

Allocation allocation_of(std::map<std::string, std::string> variables,
                         const ReadFile& read = no_file) {
  return find_allocation(environment_of(std::move(variables)), read);
}

std::string hosts_of(const Allocation& allocation) {
  return std::string(name_of(allocation.system)) + " " + to_string(allocation.hosts);
}

TEST(Allocation, IsNoneWithoutABatchSystem) {
  EXPECT_EQ(hosts_of(allocation_of({{"HOME", "/root"}})), "no batch system ");
}

TEST(Allocation, OfABatchScriptOfSlurm) {
  const Allocation found = allocation_of({{"SLURM_JOB_NODELIST", "node[1-2],gpu7"},
                                          {"SLURM_TASKS_PER_NODE", "6(x2),1"},
                                          {"SLURM_JOB_CPUS_PER_NODE", "42(x2),7"},
                                          {"SLURM_CPUS_PER_TASK", "7"},
                                          {"SLURM_GPUS_ON_NODE", "6"}});
  EXPECT_EQ(hosts_of(found), "Slurm node1:6,node2:6,gpu7:1");
  EXPECT_EQ(found.cpus_per_host, 7);
  EXPECT_EQ(found.cpus_per_rank, 7);
  EXPECT_EQ(found.gpus_per_host, 6);
  EXPECT_FALSE(found.in_step);
}

TEST(Allocation, OfAStepOfSlurmIsTheSteps) {
  std::map<std::string, std::string> variables = {{"SLURM_JOB_NODELIST", "node[1-4]"},
                                                  {"SLURM_TASKS_PER_NODE", "2(x4)"},
                                                  {"SLURM_STEP_ID", "0"},
                                                  {"SLURM_STEP_NODELIST", "node[3-4]"},
                                                  {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
  EXPECT_EQ(hosts_of(allocation_of(variables)), "Slurm node3:1,node4:1");
  EXPECT_TRUE(allocation_of(variables).in_step);
  // An interactive shell has a step of one node, and is for the whole job.
  variables["SLURM_STEP_ID"] = "4294967290";
  EXPECT_EQ(hosts_of(allocation_of(variables)), "Slurm node1:2,node2:2,node3:2,node4:2");
  EXPECT_TRUE(allocation_of(variables).in_step);
}

TEST(Allocation, OfATotalOfGpusDoesNotKnowThoseOfEachHost) {
  std::map<std::string, std::string> variables = {
      {"SLURM_JOB_NODELIST", "node[1-2]"}, {"SLURM_GPUS", "h100:6"}, {"SLURM_GPUS_ON_NODE", "5"}};
  EXPECT_TRUE(allocation_of(variables).gpus_may_differ);
  for (const char* name : {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK"}) {
    auto each = variables;
    each[name] = "3";
    EXPECT_FALSE(allocation_of(each).gpus_may_differ) << name;
  }
  variables["SLURM_JOB_NODELIST"] = "node1";
  EXPECT_FALSE(allocation_of(variables).gpus_may_differ);
}

// What Slurm 22.05 sets in the batch script of `sbatch -N1 : -N2`.
TEST(Allocation, OfAHeterogeneousJobKnowsItsComponents) {
  std::map<std::string, std::string> variables = {{"SLURM_HET_SIZE", "2"},
                                                  {"SLURM_JOB_NODELIST", "node1"},
                                                  {"SLURM_TASKS_PER_NODE", "2"},
                                                  {"SLURM_JOB_NODELIST_HET_GROUP_0", "node1"},
                                                  {"SLURM_JOB_NODELIST_HET_GROUP_1", "node[2-3]"},
                                                  {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "3(x2)"},
                                                  {"SLURM_CPUS_PER_TASK_HET_GROUP_0", "7"}};
  const Allocation job = allocation_of(variables);
  EXPECT_EQ(hosts_of(job), "Slurm node1:2");
  EXPECT_EQ(job.cpus_per_rank, 7);
  ASSERT_EQ(job.others.size(), 1U);
  EXPECT_EQ(job.others[0].number, 1);
  EXPECT_EQ(to_string(job.others[0].hosts), "node2:3,node3:3");
  variables["SLURM_STEP_ID"] = "4294967290";  // the shell of salloc
  variables["SLURM_STEP_NODELIST"] = "node1";
  EXPECT_EQ(allocation_of(variables).others.size(), 1U);
  variables["SLURM_CPUS_PER_TASK"] = "2";  // of sbatch and salloc without components
  EXPECT_EQ(allocation_of(variables).cpus_per_rank, 2);
  variables.erase("SLURM_HET_SIZE");
  EXPECT_EQ(allocation_of(variables).others.size(), 0U);
}

TEST(Allocation, OfATotalOfGpusInTheFirstComponentDoesNotKnowThoseOfEachHost) {
  std::map<std::string, std::string> variables = {{"SLURM_HET_SIZE", "2"},
                                                  {"SLURM_JOB_NODELIST", "node[1-2]"},
                                                  {"SLURM_JOB_NODELIST_HET_GROUP_1", "node3"},
                                                  {"SLURM_GPUS_HET_GROUP_0", "8"},
                                                  {"SLURM_GPUS_ON_NODE", "5"}};
  EXPECT_TRUE(allocation_of(variables).gpus_may_differ);
  variables["SLURM_GPUS_PER_NODE_HET_GROUP_0"] = "4";
  EXPECT_FALSE(allocation_of(variables).gpus_may_differ);
}

// `srun --het-group=...` in that job: a step has the hosts of the components that it names.
TEST(Allocation, OfAHeterogeneousStepHasHostsThatAreReached) {
  const auto of_step = [](const std::string& nodes, const std::string& first) {
    return allocation_of({{"SLURM_HET_SIZE", "2"},
                          {"SLURM_JOB_NODELIST", nodes},
                          {"SLURM_JOB_NODELIST_HET_GROUP_0", first},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", nodes}});
  };
  EXPECT_EQ(hosts_of(of_step("node[1-2]", "node[1-3]")), "Slurm node1:1,node2:1");
  EXPECT_EQ(hosts_of(of_step("node3", "node[1-2]")), "Slurm node3:1") << "needs no daemon";
  EXPECT_EQ(of_step("node[1-2]", "node[1-3]").others.size(), 0U) << "all that the step has";
  EXPECT_THROW((void)of_step("node[1-3]", "node1"), UsageError);
  EXPECT_THROW((void)of_step("node[2-3]", "node1"), UsageError);
}

TEST(Allocation, HasARankOnEachHostAtLeast) {
  EXPECT_EQ(
      hosts_of(allocation_of({{"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_TASKS_PER_NODE", "0,2"}})),
      "Slurm a:1,b:2");
}

TEST(Allocation, OfSlurmWithoutNumbers) {
  EXPECT_EQ(hosts_of(allocation_of({{"SLURM_JOB_NODELIST", "a,b"}})), "Slurm a:1,b:1");
  EXPECT_EQ(hosts_of(allocation_of({{"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_TASKS_PER_NODE", "3"}})),
            "Slurm a:1,b:1");
  EXPECT_THROW((void)allocation_of({{"SLURM_JOB_NODELIST", "a["}}), UsageError);
}

TEST(Allocation, OfPbs) {
  const ReadFile read = [](const std::string& name) -> std::optional<std::string> {
    if (name != "/var/spool/pbs/aux/17.server") return std::nullopt;
    return "node1.cluster\nnode1.cluster\nnode2.cluster\nnode1.cluster\n";
  };
  EXPECT_EQ(hosts_of(allocation_of({{"PBS_NODEFILE", "/var/spool/pbs/aux/17.server"}}, read)),
            "PBS node1.cluster:3,node2.cluster:1");
  EXPECT_THROW((void)allocation_of({{"PBS_NODEFILE", "/gone"}}, read), UsageError);
}

// Jobs that share a machine would otherwise all bind to its first cores.
TEST(Allocation, OfPbsAndLsfTellsCpus) {
  const ReadFile read = [](const std::string&) { return std::optional<std::string>("a\na\nb\n"); };
  std::map<std::string, std::string> pbs = {{"PBS_NODEFILE", "nodes"}};
  EXPECT_EQ(allocation_of(pbs, read).cpus_per_host, 1);
  pbs["NCPUS"] = "8";
  EXPECT_EQ(allocation_of(pbs, read).cpus_per_host, 8) << "a line for each process";
  EXPECT_EQ(allocation_of({{"LSB_DJOB_HOSTFILE", "hosts"}}, read).cpus_per_host, 1);
  EXPECT_EQ(allocation_of({{"LSB_MCPU_HOSTS", "e 4 f 2"}}).cpus_per_host, 2);
}

TEST(Allocation, OfLsf) {
  const ReadFile read = [](const std::string&) { return std::optional<std::string>("a\na\nb\n"); };
  std::map<std::string, std::string> variables = {{"LSB_HOSTS", "c c d"}};
  EXPECT_EQ(hosts_of(allocation_of(variables, read)), "LSF c:2,d:1");
  variables["LSB_MCPU_HOSTS"] = "e 4 f 2 ";
  EXPECT_EQ(hosts_of(allocation_of(variables, read)), "LSF e:4,f:2");
  variables["LSB_DJOB_HOSTFILE"] = "/lsf/17.hostfile";
  EXPECT_EQ(hosts_of(allocation_of(variables, read)), "LSF a:2,b:1");
  EXPECT_THROW((void)allocation_of(variables), UsageError) << "which is not there";
  EXPECT_THROW((void)allocation_of({{"LSB_MCPU_HOSTS", "e 4 f"}}), UsageError);
  EXPECT_EQ(hosts_of(allocation_of({{"LSB_HOSTS", ""}})), "no batch system ");
}

TEST(SlurmHosts, AreExpanded) {
  EXPECT_THAT(slurm_hosts("node1"), ElementsAre("node1"));
  EXPECT_THAT(slurm_hosts("node[03-05,9]-ib,gpu1"),
              ElementsAre("node03-ib", "node04-ib", "node05-ib", "node9-ib", "gpu1"));
  EXPECT_THAT(slurm_hosts("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(slurm_hosts("r[0-1]n[3,5]"), ElementsAre("r0n3", "r0n5", "r1n3", "r1n5"));
  for (const char* bad : {"", ",", "a,", "a[", "a]", "a[]", "a[1-]", "a[-1]", "a[2-1]", "a[x]",
                          "a[1[2]]", "a[0-99999999]", "a[0-9999]b[0-9999]", "a[1-2"}) {
    EXPECT_THROW((void)slurm_hosts(bad), UsageError) << bad;
  }
}

TEST(SlurmCounts, AreExpanded) {
  EXPECT_THAT(slurm_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(slurm_counts("7"), ElementsAre(7));
  for (const char* bad :
       {"", "x", "2(", "2(x", "2(x3", "2(x3]", "2(xy)", "2(x0),1", "-1", "1(x99999999)"}) {
    EXPECT_THAT(slurm_counts(bad), IsEmpty()) << bad;
  }
}

}  // namespace
}  // namespace kolo::cli
