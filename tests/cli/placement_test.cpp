#include "cli/rank/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/environment_of.hpp"

namespace kolo::cli {
namespace {

std::string show(const std::optional<Placement>& p) {
  if (!p) return "none";
  return std::to_string(p->rank) + "/" + std::to_string(p->size) + " " +
         std::to_string(p->local_rank) + "/" + std::to_string(p->local_size);
}

const std::map<std::string, std::string> kSlurmBatch = {
    {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_NODEID", "0"}};

TEST(Placement, OfOpenMpi) {
  EXPECT_EQ(show(placement_from(environment_of({{"OMPI_COMM_WORLD_RANK", "3"},
                                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}))),
            "3/4 1/2");
}

TEST(Placement, OfMpich) {
  EXPECT_EQ(show(placement_from(environment_of({{"PMI_RANK", "3"},
                                                {"PMI_SIZE", "4"},
                                                {"MPI_LOCALRANKID", "1"},
                                                {"MPI_LOCALNRANKS", "2"}}))),
            "3/4 1/2");
}

TEST(Placement, OfSrunWithPmix) {
  EXPECT_EQ(show(placement_from(environment_of({{"PMIX_RANK", "5"},
                                                {"SLURM_PROCID", "5"},
                                                {"SLURM_STEP_NUM_TASKS", "6"},
                                                {"SLURM_LOCALID", "1"},
                                                {"SLURM_NODEID", "2"},
                                                {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}}))),
            "5/6 1/2");
}

TEST(Placement, BelievesMpiBeforeSlurm) {
  std::map<std::string, std::string> variables = kSlurmBatch;
  variables.insert({{"OMPI_COMM_WORLD_RANK", "3"},
                    {"OMPI_COMM_WORLD_SIZE", "4"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                    {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_EQ(show(placement_from(environment_of(variables))), "3/4 3/4");
}

TEST(Placement, HasNoMoreRanksOnANodeThanThereAre) {
  EXPECT_EQ(show(placement_from(environment_of({{"OMPI_COMM_WORLD_RANK", "1"},
                                                {"OMPI_COMM_WORLD_SIZE", "2"},
                                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}))),
            "1/2 -1/-1");
}

TEST(Placement, IsUnknownInABatchScriptAndWithoutALauncher) {
  EXPECT_EQ(show(placement_from(environment_of(kSlurmBatch))), "none");
  EXPECT_EQ(show(placement_from(environment_of({}))), "none");
}

TEST(Placement, RefusesNonsense) {
  EXPECT_EQ(show(placement_from(environment_of({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}))), "none");
  EXPECT_EQ(show(placement_from(environment_of({{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}))), "none");
  EXPECT_EQ(show(placement_from(environment_of({{"PMI_RANK", "x"}, {"PMI_SIZE", "4"}}))), "none");
}

TEST(Placement, LeavesTheLocalRankOpenWhereNobodyTells) {
  EXPECT_EQ(show(placement_from(environment_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}))),
            "1/4 -1/-1");
  EXPECT_EQ(show(placement_from(environment_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}))),
            "0/1 0/1");
}

TEST(ThreadsPerRank, SharesTheCoresOfTheNode) {
  EXPECT_EQ(threads_per_rank({0, 8, 8, {}}, 2), 4);
  EXPECT_EQ(threads_per_rank({0, 8, 0, {}}, 2), 8);  // its own cores, all of them
  EXPECT_EQ(threads_per_rank({0, 2, 2, {}}, 4), 1);
  EXPECT_EQ(threads_per_rank({0, 8, 8, {}}, -1), 8);
  EXPECT_EQ(threads_per_rank({3, 8, 8, {}}, 2), 3);
}

TEST(ThreadsPerRank, SharesASocketAmongTheRanksThatAreBoundToIt) {
  EXPECT_EQ(threads_per_rank({0, 8, 16, {}}, 8), 2);
  EXPECT_EQ(threads_per_rank({0, 1, 16, {}}, 8), 1) << "bound to a core";
  EXPECT_EQ(threads_per_rank({0, 8, 16, {}}, 1), 8);
}

TEST(ThreadsPerRank, KeepsToTheQuota) {
  EXPECT_EQ(threads_per_rank({0, 8, 8, 1.5}, 1), 1);
  EXPECT_EQ(threads_per_rank({0, 8, 8, 0.25}, 1), 1) << "at least one";
  EXPECT_EQ(threads_per_rank({0, 8, 8, 6.0}, 2), 3);
  EXPECT_EQ(threads_per_rank({0, 4, 0, 6.0}, 2), 3) << "bound ranks share it, too";
  EXPECT_EQ(threads_per_rank({0, 2, 0, 100.0}, 2), 2);
  EXPECT_EQ(threads_per_rank({5, 8, 8, 1.0}, 2), 5) << "the user's word";
}

TEST(ExportedVariables, HoldWhatProgramsLookFor) {
  EXPECT_THAT(
      exported_variables({3, 4, 1, 2}, {"node1", 29500}, 6, environment_of({})),
      testing::ElementsAre(std::pair{"RANK", "3"}, std::pair{"WORLD_SIZE", "4"},
                           std::pair{"LOCAL_RANK", "1"}, std::pair{"LOCAL_WORLD_SIZE", "2"},
                           std::pair{"MASTER_ADDR", "node1"}, std::pair{"MASTER_PORT", "29500"},
                           std::pair{"OMP_NUM_THREADS", "6"}, std::pair{"MKL_NUM_THREADS", "6"}));
}

TEST(ExportedVariables, LeaveThreadsToTheUser) {
  EXPECT_THAT(
      exported_variables({0, 2, -1, -1}, {"", 0}, 6, environment_of({{"OMP_NUM_THREADS", "1"}})),
      testing::ElementsAre(std::pair{"RANK", "0"}, std::pair{"WORLD_SIZE", "2"}))
      << "MKL follows OMP_NUM_THREADS";
  EXPECT_THAT(
      exported_variables({0, 2, -1, -1}, {"", 0}, 6, environment_of({{"MKL_NUM_THREADS", "1"}})),
      testing::ElementsAre(std::pair{"RANK", "0"}, std::pair{"WORLD_SIZE", "2"},
                           std::pair{"OMP_NUM_THREADS", "6"}));
}

}  // namespace
}  // namespace kolo::cli
