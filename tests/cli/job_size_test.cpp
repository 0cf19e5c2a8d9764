#include "cli/run/job_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

using testing::HasSubstr;

std::string size_of(const SizeRequest& request, const Allocation& allocation = {}) {
  try {
    const JobSize size = choose_job_size(request, allocation);
    return std::to_string(size.size) + " on " + to_string(size.hosts);
  } catch (const UsageError& error) {
    return error.what();
  }
}

SizeRequest ranks(long size, std::vector<Host> hosts = {}) {
  return {size, {}, {}, std::move(hosts)};
}

SizeRequest gpus(long count, std::vector<Host> hosts = {}, std::optional<long> each = {}) {
  return {{}, count, each, std::move(hosts)};
}

Allocation slurm(std::vector<Host> hosts, int gpus_per_host = 0) {
  Allocation allocation;
  allocation.system = BatchSystem::kSlurm;
  allocation.hosts = std::move(hosts);
  allocation.gpus_per_host = gpus_per_host;
  return allocation;
}

TEST(JobSize, IsTheNumberOrAllSlots) {
  EXPECT_EQ(size_of(ranks(4, {{"a", 2}, {"b", 3}})), "4 on a:2,b:3");
  EXPECT_EQ(size_of({{}, {}, {}, {{"a", 2}, {"b", 3}}}), "5 on a:2,b:3");
  EXPECT_EQ(size_of(ranks(7)), "7 on ");
}

TEST(JobSize, SaysWhatIsMissing) {
  EXPECT_THAT(size_of({}), HasSubstr("how many ranks? Give -np N"));
  EXPECT_THAT(size_of(ranks(0)), HasSubstr("-np 0: must be from 1"));
  EXPECT_THAT(size_of(ranks(-3)), HasSubstr("-np -3"));
  EXPECT_THAT(size_of(ranks(6, {{"a", 2}, {"b", 3}})),
              HasSubstr("needs 6 slots, but the hosts have 5: a:2,b:3; give more hosts"));
}

TEST(JobSize, OfAHeterogeneousJobIsRefused) {
  Allocation job = slurm({{"n1", 6}});
  job.others.resize(2);
  for (const SizeRequest& request : {SizeRequest{}, ranks(4), gpus(2)}) {
    EXPECT_THAT(size_of(request, job), HasSubstr("srun --het-group=0-2 --mpi=pmix PROGRAM"));
  }
  EXPECT_THAT(size_of({}, job), HasSubstr("On the first: kolo run -H n1:6"));
  EXPECT_EQ(size_of(ranks(4, {{"n1", 6}}), job), "4 on n1:6") << "as that says";
  SizeRequest with_loaders;
  with_loaders.has_loaders = true;
  EXPECT_EQ(size_of(with_loaders, job), "6 on n1:6");
}

TEST(JobSize, OfABatchJobIsItsTasks) {
  const Allocation job = slurm({{"n1", 6}, {"n2", 6}});
  EXPECT_EQ(size_of({}, job), "12 on n1:6,n2:6");
  EXPECT_EQ(size_of(ranks(7), job), "7 on n1:6,n2:6");
  EXPECT_THAT(size_of(ranks(13), job), HasSubstr("have 12: n1:6,n2:6; ask Slurm for more tasks"));
  EXPECT_EQ(size_of({{}, {}, {}, {{"n2", 3}}}, job), "3 on n2:3");
  EXPECT_EQ(size_of({{}, {}, {}, {{"n2.cluster", 3}}}, job), "3 on n2:3");
  EXPECT_EQ(size_of({{}, {}, {}, {{"n2", 2}, {"n1", 1}, {"n2.cluster", 1}}}, job), "4 on n1:1,n2:3")
      << "in the job's order, as its launcher fills them";
  EXPECT_EQ(size_of({{}, {}, {}, {{"localhost", 2}}, "n2"}, job), "2 on n2:2");
  EXPECT_THAT(size_of(ranks(1, {{"n3", 1}}), job),
              HasSubstr("host n3 does not belong to this job of Slurm, which has n1:6,n2:6"));
}

TEST(JobSize, OfOneTaskANodeIsARankAGpuOrEqualShares) {
  EXPECT_EQ(size_of({}, slurm({{"n1", 1}, {"n2", 1}}, 3)), "6 on n1:3,n2:3");
  EXPECT_EQ(size_of({}, slurm({{"n1", 1}, {"n2", 1}})), "2 on n1:1,n2:1");
  EXPECT_EQ(size_of(ranks(5), slurm({{"n1", 1}, {"n2", 1}}, 3)), "5 on n1:3,n2:3");
  EXPECT_EQ(size_of(ranks(5), slurm({{"n1", 1}, {"n2", 1}})), "5 on n1:3,n2:3");
}

TEST(JobSize, SharesTheCpusOfTasks) {
  const auto threads = [](const SizeRequest& request, int cpus, std::vector<Host> hosts) {
    Allocation allocation = slurm(std::move(hosts), 3);
    allocation.cpus_per_rank = cpus;
    return choose_job_size(request, allocation).threads_per_rank;
  };
  EXPECT_EQ(threads({}, 7, {{"n1", 6}, {"n2", 6}}), 7);
  EXPECT_EQ(threads({}, 18, {{"n1", 1}, {"n2", 1}}), 6) << "three ranks of one task";
  EXPECT_EQ(threads(gpus(6), 4, {{"n1", 4}, {"n2", 2}}), 2) << "on the host that has least";
  EXPECT_EQ(threads(ranks(8), 2, {{"n1", 1}, {"n2", 1}}), 1);
  EXPECT_EQ(threads({}, 0, {{"n1", 6}}), 0) << "not told";
  EXPECT_EQ(choose_job_size(ranks(4), {}).threads_per_rank, 0);
}

TEST(JobSize, ByGpusFillsHosts) {
  const std::vector<Host> two = {{"a"}, {"b"}};
  EXPECT_EQ(size_of(gpus(8)), "8 on ");
  EXPECT_EQ(size_of(gpus(16, two)), "16 on a:8,b:8");
  EXPECT_EQ(size_of(gpus(12, two)), "12 on a:8,b:8");
  EXPECT_EQ(size_of(gpus(8, two, 4)), "8 on a:4,b:4");
  EXPECT_EQ(size_of(gpus(6, {{"a", 2, true}, {"b", 4, true}})), "6 on a:2,b:4");
  EXPECT_EQ(size_of(gpus(6), slurm({{"n1", 1}, {"n2", 1}}, 3)), "6 on n1:3,n2:3");
  EXPECT_EQ(size_of(gpus(12), slurm({{"n1", 4}, {"n2", 4}}, 6)), "12 on n1:6,n2:6");
  Allocation pbs;
  pbs.system = BatchSystem::kPbs;
  pbs.hosts = {{"n1", 24, true}, {"n2", 24, true}};  // cores
  EXPECT_EQ(size_of(gpus(12, {}, 6), pbs), "12 on n1:6,n2:6");
}

TEST(JobSize, ByGpusNamesTheHostsThatAreLacking) {
  EXPECT_THAT(size_of(gpus(32, {{"a"}, {"b"}})),
              HasSubstr("--gpus 32 lacks 2 hosts of 8 GPUs: a:8,b:8 gives 16"));
  EXPECT_THAT(size_of(gpus(9)), HasSubstr("lacks 1 host of 8 GPUs")) << "one GPU of it";
  EXPECT_THAT(size_of(gpus(16)), HasSubstr("lacks 1 host of 8 GPUs: this host alone gives 8"));
  EXPECT_THAT(size_of(gpus(2, {}, 1)), HasSubstr("lacks 1 host of 1 GPU:"));
  EXPECT_THAT(size_of(gpus(0)), HasSubstr("--gpus 0"));
  EXPECT_THAT(size_of(gpus(8, {}, 0)), HasSubstr("--gpus-per-host 0"));
  EXPECT_THAT(size_of({4, 4, {}, {}}), HasSubstr("exclude each other"));
  EXPECT_THAT(size_of({4, {}, 4, {}}), HasSubstr("--gpus-per-host is for --gpus"));
}

TEST(JobSize, IsNotGuessedWhereHostsMayHaveDifferentGpus) {
  Allocation job = slurm({{"n1", 1}, {"n2", 1}}, 5);
  job.gpus_may_differ = true;
  EXPECT_THAT(size_of({}, job), HasSubstr("ask Slurm for --gpus-per-node"));
  EXPECT_THAT(size_of(gpus(6), job), HasSubstr("ask Slurm for --gpus-per-node"));
  EXPECT_EQ(size_of(ranks(6), job), "6 on n1:3,n2:3");
  EXPECT_EQ(size_of(gpus(6, {}, 3), job), "6 on n1:3,n2:3");
  job.hosts = {{"n1", 2}, {"n2", 4}};
  EXPECT_EQ(size_of({}, job), "6 on n1:2,n2:4");
}

}  // namespace
}  // namespace kolo::cli
