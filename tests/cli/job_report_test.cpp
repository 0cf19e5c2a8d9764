#include "cli/doctor/job_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace kolo::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// `nodes` nodes with `ranks` ranks, a core and a thread each.
std::vector<RankReport> job_of(int nodes, int ranks) {
  std::vector<RankReport> job;
  for (int rank = 0; rank < nodes * ranks; ++rank) {
    RankReport report;
    report.rank = rank;
    report.local_rank = rank % ranks;
    report.node = rank / ranks;
    report.host = "node" + std::to_string(report.node + 1);
    report.cores = {report.local_rank};
    report.threads = 1;
    report.copy_gigabytes_per_second = 10;
    report.network_gigabytes_per_second = nodes > 1 && report.local_rank == 0 ? 2 : 0;
    job.push_back(report);
  }
  return job;
}

auto problem(const std::string& what) {
  return AllOf(Field(&Finding::is_problem, true), Field(&Finding::what, HasSubstr(what)));
}
auto note(const std::string& what) {
  return AllOf(Field(&Finding::is_problem, false), Field(&Finding::what, HasSubstr(what)));
}

TEST(RankReports, ComeBackAsTheyWere) {
  RankReport report;
  report.rank = 7;
  report.local_rank = 3;
  report.node = 1;
  report.host = "a \"strange\" host";
  report.cores = {0, 2, 5};
  report.quotas = {{1.5, "27:42"}, {4, "a path"}};
  report.threads = 2;
  report.devices = {"GPU-1a2b3c4d at 0000:3b:00.0", "1"};
  report.node_devices = 4;
  report.memory_limit_bytes = std::int64_t{1} << 40;
  report.copy_gigabytes_per_second = 1.5;
  report.network_gigabytes_per_second = 0.25;
  const RankReport back = decode(encode(report));
  EXPECT_EQ(encode(back), encode(report));
  EXPECT_EQ(back.host, report.host);
  EXPECT_EQ(back.cores, report.cores);
  EXPECT_EQ(back.devices, report.devices);
  EXPECT_THAT(back.quotas, SizeIs(2));
  EXPECT_EQ(back.memory_limit_bytes, report.memory_limit_bytes);
  EXPECT_DOUBLE_EQ(back.network_gigabytes_per_second, 0.25);
}

TEST(RankReports, ThatAreBrokenAreRefused) {
  const std::string whole = encode(job_of(1, 1).front());
  for (const std::string& text :
       {std::string(), std::string("x"), whole.substr(0, whole.size() / 2)}) {
    EXPECT_THROW(decode(text), std::invalid_argument) << text;
  }
}

TEST(DeviceOf, FollowsTheLocalRank) {
  RankReport report;
  EXPECT_EQ(device_of(report), -1);
  report.devices = {"0"};
  report.local_rank = 3;
  EXPECT_EQ(device_of(report), 0) << "each rank sees its own alone";
  report.devices = {"0", "1", "2", "3", "4", "5"};
  EXPECT_EQ(device_of(report), 3);
}

TEST(JudgeJob, FindsNothingWhereNothingIsWrong) {
  EXPECT_THAT(judge_job(job_of(2, 4)), IsEmpty());
  EXPECT_THAT(judge_job(job_of(1, 1)), IsEmpty());
  EXPECT_THAT(judge_job({}), IsEmpty());
}

TEST(JudgeJob, SeesRanksThatShareAllCores) {
  auto job = job_of(2, 4);
  for (int rank = 4; rank < 8; ++rank) job[rank].cores = {0, 1};
  EXPECT_THAT(judge_job(job),
              ElementsAre(problem("ranks 4-7 on node2 share 2 cores, for 4 threads")));
  for (int rank = 4; rank < 8; ++rank) job[rank].cores = {0, 1, 2, 3};
  EXPECT_THAT(judge_job(job),
              ElementsAre(note("ranks 4-7 on node2 share 4 cores: they are not bound")));
  for (int rank = 4; rank < 8; ++rank) job[rank].threads = 0;
  EXPECT_THAT(judge_job(job), ElementsAre(problem("share 4 cores, for 16 threads")))
      << "without OMP_NUM_THREADS each rank takes all cores";
}

TEST(JudgeJob, SeesRanksThatAreBoundToTheSameCore) {
  auto job = job_of(1, 4);
  job[2].cores = {1, 2};
  EXPECT_THAT(judge_job(job),
              ElementsAre(problem("ranks 1, 2 on node1 may run on the same 1 core (1)")));
}

TEST(JudgeJob, SeesMoreThreadsThanCores) {
  auto job = job_of(1, 2);
  job[1].threads = 3;
  EXPECT_THAT(judge_job(job), ElementsAre(problem("rank 1 on node1 has 3 threads on 1 core")));
  job[1].threads = 2;
  EXPECT_THAT(judge_job(job), ElementsAre(problem("has 2 threads on 1 core")));
}

TEST(JudgeJob, SeesMoreThreadsThanAQuotaAllows) {
  auto job = job_of(1, 4);
  for (RankReport& report : job) report.quotas = {{4, "inner"}, {8, "outer"}};
  EXPECT_THAT(judge_job(job), IsEmpty());
  for (RankReport& report : job) report.quotas = {{1.5, "inner"}, {2, "outer"}};
  EXPECT_THAT(
      judge_job(job),
      ElementsAre(problem("ranks 0-3 on node1 share a CPU quota of 1.5 cores, for 4 threads")))
      << "the least of them, once";
  for (RankReport& report : job) report.quotas = {{1, "of rank " + std::to_string(report.rank)}};
  EXPECT_THAT(judge_job(job), IsEmpty()) << "each has a container of its own";
  job[2].quotas.front().cores = 0.5;
  EXPECT_THAT(judge_job(job), IsEmpty()) << "a rank has a thread at least";
  job[2].threads = 2;
  job[2].cores = {2, 8};
  EXPECT_THAT(judge_job(job),
              ElementsAre(problem("rank 2 on node1 has a CPU quota of 0.5 cores, for 2 threads")));
}

TEST(JudgeJob, SeesIdleAndSharedDevices) {
  auto job = job_of(1, 2);
  for (RankReport& report : job) report.devices = {"0", "1", "2"};
  EXPECT_THAT(judge_job(job), ElementsAre(problem("1 GPU of 3 on node1 is idle")));
  for (RankReport& report : job) report.devices = {"1"};
  EXPECT_THAT(judge_job(job), ElementsAre(problem("ranks 0, 1 on node1 share GPU 1")));
  for (RankReport& report : job) report.node_devices = 4;
  EXPECT_THAT(judge_job(job), Contains(problem("3 GPUs of 4 on node1 are idle")));
  for (RankReport& report : job) report.devices.clear();
  EXPECT_THAT(judge_job(job), ElementsAre(problem("4 GPUs of 4 on node1 are idle")));
}

TEST(JudgeJob, SeesASlowRankOnlyWhereCoresAreNotShared) {
  auto job = job_of(2, 4);
  job[5].copy_gigabytes_per_second = 4;
  EXPECT_THAT(judge_job(job),
              ElementsAre(problem("rank 5 on node2 copies memory at 4.0 GB/s; the median is 10")));
  job[5].copy_gigabytes_per_second = 6;
  EXPECT_THAT(judge_job(job), IsEmpty());
  job[5].copy_gigabytes_per_second = 4;
  job[0].cores = {1};
  EXPECT_THAT(judge_job(job), ElementsAre(problem("same 1 core")));
}

TEST(JudgeJob, SeesASlowNetwork) {
  auto job = job_of(4, 2);
  job[4].network_gigabytes_per_second = 0.5;
  EXPECT_THAT(
      judge_job(job),
      ElementsAre(problem("the network gives 0.5 GB/s from node2 to node3; the median is 2.0")));
  job[0].network_gigabytes_per_second = 0.5;
  EXPECT_THAT(judge_job(job), Contains(problem("from node4 to node1")));
}

TEST(JobTable, HasARowForEachRankAndTheNetwork) {
  auto job = job_of(2, 2);
  job[3].devices = {"0", "1"};
  job[3].memory_limit_bytes = std::int64_t{2} << 30;
  EXPECT_EQ(job_table(job),
            "rank  node   local rank  cores      threads  device  memory limit  copies GB/s\n"
            "0     node1  0           1 core: 0  1        none    unlimited     10\n"
            "1     node1  1           1 core: 1  1        none    unlimited     10\n"
            "2     node2  0           1 core: 0  1        none    unlimited     10\n"
            "3     node2  1           1 core: 1  1        1       2.0 GiB       10\n"
            "network, node2 to node1: 2.0 GB/s\n"
            "network, node1 to node2: 2.0 GB/s\n");
  EXPECT_THAT(job_sections(job), SizeIs(4));
  EXPECT_EQ(job_table({}), "");
}

}  // namespace
}  // namespace kolo::cli
