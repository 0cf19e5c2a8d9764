#include "cli/slurm/slurm_script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::Optional;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(SlurmSeconds, ReadsAllWaysOfWritingATime) {
  EXPECT_THAT(slurm_seconds("30"), Optional(30 * 60));
  EXPECT_THAT(slurm_seconds("90:30"), Optional(90 * 60 + 30));
  EXPECT_THAT(slurm_seconds("08:00:00"), Optional(8 * 3600));
  EXPECT_THAT(slurm_seconds("2-12"), Optional(60 * 3600));
  EXPECT_THAT(slurm_seconds("2-12:30"), Optional(60 * 3600 + 1800));
  EXPECT_THAT(slurm_seconds("7-00:00:01"), Optional(7 * 86400 + 1));
  EXPECT_THAT(slurm_seconds("UNLIMITED"), Optional(kUnlimitedSeconds));
  EXPECT_THAT(slurm_seconds("infinite"), Optional(kUnlimitedSeconds));
  EXPECT_THAT(slurm_seconds("0"), Optional(kUnlimitedSeconds));
  for (const char* text :
       {"", "x", "1:", ":1", "1:2:3:4", "-1:00", "1--2", "1-", "99999999999", "1 "}) {
    EXPECT_EQ(slurm_seconds(text), std::nullopt) << text;
  }
}

TEST(SlurmMebibytes, ReadsUnits) {
  EXPECT_THAT(slurm_mebibytes("250000"), Optional(250000));
  EXPECT_THAT(slurm_mebibytes("250000M"), Optional(250000));
  EXPECT_THAT(slurm_mebibytes("16G"), Optional(16384));
  EXPECT_THAT(slurm_mebibytes("2t"), Optional(2 * 1024 * 1024));
  EXPECT_THAT(slurm_mebibytes("1025K"), Optional(2));
  for (const char* text : {"", "G", "1.5G", "16X", "-1", "1G2"}) {
    EXPECT_EQ(slurm_mebibytes(text), std::nullopt) << text;
  }
}

TEST(SlurmGpus, CountsThoseOfAllTypes) {
  EXPECT_EQ(slurm_gpus("(null)"), 0);
  EXPECT_EQ(slurm_gpus("gpu:6"), 6);
  EXPECT_EQ(slurm_gpus("gpu"), 1);
  EXPECT_EQ(slurm_gpus("gpu:h100:4(S:0-1)"), 4);
  EXPECT_EQ(slurm_gpus("gpu:a100:2(S:0),gpu:t4:1(S:1),nvme:3"), 3);
  EXPECT_EQ(slurm_gpus("gpu:h100"), 1);
  EXPECT_EQ(slurm_gpus("gpu_memory:80"), 0);
}

// As Slurm 22.05 writes them.
constexpr const char* kPartitions =
    "PartitionName=ml AllowGroups=ALL Default=YES QoS=N/A MaxNodes=UNLIMITED MaxTime=7-00:00:00 "
    "MinNodes=0 State=UP TotalCPUs=96 TotalNodes=2\n"
    "PartitionName=short AllowGroups=ALL Default=NO MaxNodes=1 MaxTime=00:30:00 State=UP\n"
    "PartitionName=old Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED State=DOWN\n"
    "PartitionName=shared Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=2 State=UP "
    "MaxCPUsPerNode=24 MaxMemPerNode=100000\n";
constexpr const char* kNodes =
    "node1 ml 48 262144 gpu:6\nnode2 ml 48 131072+ gpu:h100:4(S:0-1)\nnode1 short 48 262144 gpu:6\n"
    "node3 old 8 1000 (null)\nnode1 shared 48 262144 gpu:6\nnode2 shared 48 262144 gpu:6\n";

TEST(SlurmPartitions, AreRead) {
  const auto partitions = slurm_partitions(kPartitions);
  ASSERT_THAT(partitions, SizeIs(4));
  EXPECT_EQ(partitions[0].name, "ml");
  EXPECT_TRUE(partitions[0].is_default);
  EXPECT_TRUE(partitions[0].is_up);
  EXPECT_THAT(partitions[0].most_seconds, Optional(7 * 86400));
  EXPECT_EQ(partitions[0].most_nodes, std::nullopt);
  EXPECT_THAT(partitions[1].most_nodes, Optional(1));
  EXPECT_FALSE(partitions[1].is_default);
  EXPECT_EQ(partitions[2].most_seconds, std::nullopt);
  EXPECT_FALSE(partitions[2].is_up);
  EXPECT_EQ(partitions[0].most_cpus_per_node, std::nullopt);
  EXPECT_EQ(partitions[3].least_nodes, 2);
  EXPECT_THAT(partitions[3].most_cpus_per_node, Optional(24));
  EXPECT_THAT(partitions[3].most_mebibytes_per_node, Optional(100000));
  EXPECT_THAT(slurm_partitions("No partitions\n"), IsEmpty());
}

TEST(SlurmNodes, AreRead) {
  const auto nodes = slurm_nodes(kNodes);
  ASSERT_THAT(nodes, SizeIs(6));
  EXPECT_EQ(nodes[1].name, "node2");
  EXPECT_EQ(nodes[1].partition, "ml");
  EXPECT_EQ(nodes[1].cpus, 48);
  EXPECT_EQ(nodes[1].memory_mebibytes, 131072);
  EXPECT_EQ(nodes[1].gpus, 4);
}

SlurmRequest request() {
  SlurmRequest made;
  made.program = {"./mnist", "--data", "my data"};
  return made;
}

std::vector<std::string> refusals(const SlurmRequest& made) {
  EXPECT_THAT(faults_of(made), IsEmpty());
  return refusals_of(made, slurm_partitions(kPartitions), slurm_nodes(kNodes));
}

TEST(SlurmRequests, HaveARankAGpu) {
  SlurmRequest made = request();
  EXPECT_EQ(tasks_per_node(made), 1);
  made.gpus_per_node = 6;
  EXPECT_EQ(tasks_per_node(made), 6);
  made.tasks_per_node = 3;
  EXPECT_EQ(tasks_per_node(made), 3);
  made.tasks_per_node = std::nullopt;
  made.gpus_per_node = 0;
  EXPECT_EQ(tasks_per_node(made), 1);
}

TEST(SlurmRequests, WithFaultsOfTheirOwn) {
  SlurmRequest made = request();
  EXPECT_THAT(faults_of(made), IsEmpty());
  made.memory = "16G";
  made.memory_per_cpu = "2G";
  EXPECT_THAT(faults_of(made),
              ElementsAre(HasSubstr("--mem and --mem-per-cpu exclude each other")));
  made = request();
  made.nodes = 0;
  made.gpus_per_node = -1;
  made.tasks_per_node = 0;
  made.cpus_per_task = 0;
  made.memory_per_cpu = "much";
  made.time = "soon";
  made.job_name = "a\n#SBATCH --uid=0";
  EXPECT_THAT(faults_of(made),
              UnorderedElementsAre(HasSubstr("--nodes 0"), HasSubstr("--gpus-per-node -1"),
                                   HasSubstr("--ntasks-per-node 0"), HasSubstr("--cpus-per-task 0"),
                                   HasSubstr("--mem-per-cpu much"), HasSubstr("--time soon"),
                                   HasSubstr("a line break")));
}

TEST(SlurmRequests, ThatFitAreTaken) {
  SlurmRequest made = request();
  EXPECT_THAT(refusals(made), IsEmpty());
  made.gpus_per_node = 6;
  made.cpus_per_task = 8;
  made.memory = "256G";
  made.time = "7-00:00:00";
  EXPECT_THAT(refusals(made), IsEmpty());
  made.gpus_per_node = 4;
  made.nodes = 2;
  made.memory = "128G";
  EXPECT_THAT(refusals(made), IsEmpty());
  made.partition = "short";
  made.nodes = 1;
  made.time = "30";
  EXPECT_THAT(refusals(made), IsEmpty());
}

TEST(SlurmRequests, ThatNoNodeCanTakeAreRefused) {
  SlurmRequest made = request();
  made.partition = "big";
  EXPECT_THAT(refusals(made),
              ElementsAre("there is no partition big; the cluster has ml, short, old, shared"));
  made.partition = "ml";
  made.gpus_per_node = 8;
  EXPECT_THAT(refusals(made),
              ElementsAre("8 GPUs a node, but the nodes of partition ml have 6 at most"));
  made.gpus_per_node = 6;
  made.cpus_per_task = 9;
  EXPECT_THAT(refusals(made),
              ElementsAre("54 CPUs a node, but the nodes of partition ml have 48 at most"));
  made.cpus_per_task = 1;
  made.memory_per_cpu = "50000";
  EXPECT_THAT(refusals(made), ElementsAre(HasSubstr("300000 MiB of memory a node")));
  made.memory_per_cpu = "";
  made.time = "7-00:01:00";
  EXPECT_THAT(refusals(made),
              ElementsAre("--time 7-00:01:00, but partition ml allows 10080 minutes at most"));
  made.time = "";
  made.nodes = 2;
  EXPECT_THAT(
      refusals(made),
      ElementsAre("2 nodes, but partition ml has 1 that have all that the job requests of a node"));
  made.gpus_per_node = std::nullopt;
  made.memory = "129G";
  EXPECT_THAT(refusals(made), ElementsAre(HasSubstr("has 1 that have all")));
  made.memory = "";
  made.nodes = 3;
  EXPECT_THAT(refusals(made), ElementsAre("3 nodes, but partition ml has 2"));
  made.partition = "short";
  made.nodes = 2;
  EXPECT_THAT(refusals(made), ElementsAre("2 nodes, but a job of partition short has 1 at most",
                                          "2 nodes, but partition short has 1"));
  made.partition = "old";
  made.nodes = 1;
  EXPECT_THAT(refusals(made), ElementsAre("partition old is not up"));
}

TEST(SlurmRequests, ThatThePartitionGivesToNoJobAreRefused) {
  SlurmRequest made = request();
  made.partition = "shared";
  made.nodes = 1;
  made.cpus_per_task = 25;
  made.memory = "100001";
  EXPECT_THAT(
      refusals(made),
      ElementsAre("1 node, but a job of partition shared has 2 at least",
                  "25 CPUs a node, but partition shared gives 24 at most",
                  "100001 MiB of memory a node, but partition shared gives 100000 at most"));
  made.nodes = 2;
  made.cpus_per_task = 24;
  made.memory = "100000";
  EXPECT_THAT(refusals(made), IsEmpty());
  made.cpus_per_task = 49;
  EXPECT_THAT(refusals(made), ElementsAre("49 CPUs a node, but partition shared gives 24 at most"));
}

TEST(SlurmRequests, AreToldOfTheTighterLimit) {
  SlurmPartition partition;
  partition.name = "a";
  partition.most_cpus_per_node = 9;
  SlurmRequest made = request();
  made.partition = "a";
  made.cpus_per_task = 10;
  EXPECT_THAT(refusals_of(made, {partition}, {{"node1", "a", 8, 1000, 0}}),
              ElementsAre("10 CPUs a node, but the nodes of partition a have 8 at most"));
}

TEST(SlurmRequests, TakeOneOfSeveralPartitions) {
  SlurmRequest made = request();
  made.partition = "short,ml";
  made.time = "31";
  EXPECT_THAT(refusals(made), IsEmpty());
  made.time = "0";
  EXPECT_THAT(refusals(made),
              ElementsAre("--time 0, but partition short allows 30 minutes at most",
                          "--time 0, but partition ml allows 10080 minutes at most"));
  made.partition = "ml,big";
  made.time = "31";
  EXPECT_THAT(refusals(made), IsEmpty());
  made.partition = "short,big";
  EXPECT_THAT(refusals(made), ElementsAre(HasSubstr("there is no partition big")));
}

TEST(SlurmRequests, WithoutAPartitionNeedADefault) {
  SlurmPartition partition;
  partition.name = "a";
  EXPECT_THAT(refusals_of(request(), {partition}, {}),
              ElementsAre("no --partition is given, and the cluster has no default; it has a"));
}

TEST(SlurmScript, HasWhatWasAskedFor) {
  SlurmRequest made = request();
  made.partition = "ml";
  made.nodes = 2;
  made.gpus_per_node = 6;
  made.cpus_per_task = 7;
  made.memory = "250000";
  made.time = "08:00:00";
  made.more = {"--account=physics"};
  EXPECT_EQ(slurm_script(made, "/opt/kolo/share/kolo/slurm", {}),
            "#!/bin/bash\n"
            "# Written by kolo slurm. It can be changed, and is submitted by sbatch.\n"
            "#SBATCH --job-name=mnist\n"
            "#SBATCH --partition=ml\n"
            "#SBATCH --nodes=2\n"
            "#SBATCH --ntasks-per-node=6\n"
            "#SBATCH --cpus-per-task=7\n"
            "#SBATCH --gres=gpu:6\n"
            "#SBATCH --mem=250000\n"
            "#SBATCH --time=08:00:00\n"
            "#SBATCH --output=%x-%j.log\n"
            "#SBATCH --open-mode=append\n"
            "#SBATCH --requeue\n"
            "#SBATCH --signal=B:USR1@300\n"
            "#SBATCH --account=physics\n"
            ". /opt/kolo/share/kolo/slurm/job.sh || exit 2\n"
            "job ./mnist --data 'my data'\n");
}

TEST(SlurmScript, LeavesOutWhatWasNotAskedFor) {
  const std::string script = slurm_script(request(), "/a folder", {});
  for (const char* option : {"--partition", "--gres", "--mem", "--time", "--cpus-per-task"}) {
    EXPECT_THAT(script, Not(HasSubstr(option)));
  }
  EXPECT_THAT(script, HasSubstr("\n. '/a folder/job.sh' || exit 2\n"));
}

TEST(SlurmScript, QuotesWhatSlurmWouldSplit) {
  SlurmRequest made = request();
  made.job_name = "a \"job\" #1 \\o/";
  made.output = "my logs/%j.log";
  const std::string script = slurm_script(made, "/f", {});
  EXPECT_THAT(script, HasSubstr("#SBATCH --job-name=\"a \\\"job\\\" #1 \\\\o/\"\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --output=\"my logs/%j.log\"\n"));
  made.job_name = "";
  made.program = {"/bin/a\n#SBATCH --uid=0"};
  EXPECT_THAT(faults_of(made), ElementsAre(HasSubstr("a line break")));
}

TEST(SlurmScript, HasNoComponentsOfItsOwn) {
  for (const char* option : {"hetjob", " packjob", ":"}) {
    SlurmRequest made = request();
    made.more = {option, "--nodes=2"};
    EXPECT_THAT(faults_of(made), ElementsAre(HasSubstr("srun --het-group=0-1"))) << option;
  }
  SlurmRequest made = request();
  made.more = {"--comment=hetjob"};
  EXPECT_THAT(faults_of(made), IsEmpty());
}

SlurmLoaders loaders(long count) {
  SlurmLoaders made;
  made.count = count;
  made.options = {"--cpus", std::to_string(count)};
  return made;
}

TEST(SlurmScript, HasLoaderProcessesInASecondComponent) {
  SlurmRequest made = request();
  made.more = {"--account=physics"};
  made.time = "10";
  made.loaders = loaders(5);
  made.loaders->nodes = 2;
  made.loaders->partition = "old";
  made.loaders->cpus_per_task = 4;
  made.loaders->memory_per_cpu = "2G";
  made.loaders->options.insert(made.loaders->options.end(), {"--spool", "/my disk"});
  const std::string script = slurm_script(made, "/f", {});
  EXPECT_THAT(script, HasSubstr("#SBATCH --signal=B:USR1@120\n"
                                "#SBATCH --account=physics\n"
                                "#SBATCH hetjob\n"
                                "#SBATCH --partition=old\n"
                                "#SBATCH --nodes=2\n"
                                "#SBATCH --ntasks=5\n"
                                "#SBATCH --ntasks-per-node=3\n"
                                "#SBATCH --cpus-per-task=4\n"
                                "#SBATCH --mem-per-cpu=2G\n"
                                "#SBATCH --time=10\n"
                                ". /f/job.sh || exit 2\n"
                                "job --cpus 5 --spool '/my disk' ./mnist --data 'my data'\n"));
  made.memory = "250G";
  EXPECT_THAT(slurm_script(made, "/f", {}),
              HasSubstr("#SBATCH --cpus-per-task=4\n#SBATCH --mem=24576\n#SBATCH --time=10\n"))
      << "3 tasks of 4 CPUs of 2 GiB";
  made.memory = "";
  made.memory_per_cpu = "4G";
  made.loaders->memory_per_cpu = "";
  EXPECT_THAT(slurm_script(made, "/f", {}),
              HasSubstr("#SBATCH --cpus-per-task=4\n#SBATCH --mem-per-cpu=4G\n"));
  made.loaders->partition = "";
  made.partition = "ml";
  EXPECT_THAT(slurm_script(made, "/f", {}), HasSubstr("hetjob\n#SBATCH --partition=ml\n"));
}

TEST(SlurmRequests, AreRefusedForTheirLoaderProcesses) {
  SlurmRequest made = request();
  made.loaders = loaders(50);
  EXPECT_THAT(refusals(made), ElementsAre("loader processes: 50 CPUs a node, but the nodes of "
                                          "partition ml have 48 at most"));
  made.loaders->nodes = 2;
  EXPECT_THAT(refusals(made), IsEmpty());
  made.loaders->partition = "nowhere";
  made.time = "10";
  EXPECT_THAT(refusals(made), ElementsAre(HasSubstr("loader processes: there is no partition")));
  made.time = "";
  EXPECT_THAT(faults_of(made), ElementsAre(HasSubstr("--loader-partition needs --time")));
  made.more = {"--time=10"};
  EXPECT_THAT(faults_of(made), IsEmpty());
  made.more = {"--mem=200G"};
  made.time = "10";
  EXPECT_THAT(faults_of(made), ElementsAre(HasSubstr("without --sbatch")));
  made.more.clear();
  made.loaders = loaders(1);
  made.memory = "200G";
  EXPECT_THAT(faults_of(made), ElementsAre(HasSubstr("add --loader-mem-per-cpu")));
  made.memory = "";
  made.loaders->nodes = 2;
  made.loaders->cpus_per_task = 0;
  made.loaders->memory_per_cpu = "much";
  EXPECT_THAT(faults_of(made), ElementsAre(HasSubstr("--loader-cpus-per-task 0"),
                                           HasSubstr("--loader-mem-per-cpu much"),
                                           HasSubstr("--loader-nodes 2 is more than --cpus 1")));
}

TEST(SlurmScript, AsksEarlierToStopInLongerJobs) {
  SlurmRequest made = request();
  made.time = "10";
  EXPECT_THAT(slurm_script(made, "/f", {}), HasSubstr("--signal=B:USR1@120\n"));
  made.time = "UNLIMITED";
  EXPECT_THAT(slurm_script(made, "/f", {}), HasSubstr("--signal=B:USR1@300\n"));
}

// --time is not given, and the partition's times hold.
TEST(SlurmScript, AsksToStopInTheTimeOfThePartition) {
  const auto partitions = slurm_partitions(
      "PartitionName=brief Default=YES DefaultTime=00:02:00 MaxTime=UNLIMITED State=UP\n"
      "PartitionName=short Default=NO DefaultTime=NONE MaxTime=00:10:00 State=UP\n"
      "PartitionName=long Default=NO DefaultTime=NONE MaxTime=UNLIMITED State=UP\n");
  SlurmRequest made = request();
  EXPECT_THAT(slurm_script(made, "/f", partitions), HasSubstr("--signal=B:USR1@24\n"));
  made.partition = "short";
  EXPECT_THAT(slurm_script(made, "/f", partitions), HasSubstr("--signal=B:USR1@120\n"));
  made.partition = "long";
  EXPECT_THAT(slurm_script(made, "/f", partitions), HasSubstr("--signal=B:USR1@300\n"));
  made.partition = "long,short";
  EXPECT_THAT(slurm_script(made, "/f", partitions), HasSubstr("--signal=B:USR1@120\n"));
  made.time = "05:00";
  EXPECT_THAT(slurm_script(made, "/f", partitions), HasSubstr("--signal=B:USR1@60\n"));
}

TEST(SlurmScript, IsNotOverruledByVariables) {
  EXPECT_THAT(overruling_variables("#!/bin/bash\n#SBATCH --time=10\n#SBATCH --job-name=a\n"
                                   "#SBATCH --requeue\n#SBATCH --gres=gpu:2\njob a\n"),
              UnorderedElementsAre("SBATCH_TIME", "SBATCH_TIMELIMIT", "SBATCH_JOB_NAME",
                                   "SBATCH_REQUEUE", "SBATCH_NO_REQUEUE", "SBATCH_GRES",
                                   "SBATCH_GPUS", "SBATCH_GPUS_PER_NODE", "SBATCH_GPUS_PER_TASK"));
  SlurmRequest made = request();
  made.memory = "1G";
  made.more = {"--account physics"};
  const auto variables = overruling_variables(slurm_script(made, "/f", {}));
  EXPECT_THAT(variables, IsSupersetOf({"SBATCH_MEM_PER_NODE", "SBATCH_MEM_PER_CPU",
                                       "SBATCH_ACCOUNT", "SBATCH_SIGNAL", "SBATCH_OUTPUT"}));
  EXPECT_THAT(variables, Not(Contains("SBATCH_PARTITION"))) << "which was not given";
}

}  // namespace
}  // namespace kolo::cli
