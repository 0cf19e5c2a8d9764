#include "cli/rank/failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "cli/run/blame.hpp"

namespace kolo::cli {
namespace {

RankEnd failure(int rank, const char* host, std::int64_t time, bool told, int code) {
  return {rank, {{host, 100 + rank, time, {}}, told, false, Ending::kExit, code, "prog"}};
}

// Of a rank that had lost a peer.
RankEnd consequence(int rank, const char* host, std::int64_t time, int code) {
  RankEnd end = failure(rank, host, time, false, code);
  end.ended.lost_peer = true;
  return end;
}

RankEnd killed(int rank, const char* host, std::int64_t time) {
  RankEnd end = failure(rank, host, time, false, SIGKILL);
  end.ended.how = Ending::kSignal;
  return end;
}

TEST(FirstFailure, IsTheEarliestOfAHost) {
  const std::vector<RankEnd> all = {failure(1, "a", 200, false, 5), failure(0, "a", 100, false, 6)};
  ASSERT_NE(first_failure(all), nullptr);
  EXPECT_EQ(first_failure(all)->rank, 0);
}

TEST(FirstFailure, IsTheFirstHeardOfBetweenHosts) {
  const std::vector<RankEnd> all = {failure(1, "a", 900, false, 5), failure(0, "b", 100, false, 6),
                                    failure(2, "a", 800, false, 7)};
  ASSERT_NE(first_failure(all), nullptr);
  EXPECT_EQ(first_failure(all)->rank, 2);
}

TEST(FirstFailure, PassesOverRanksThatWereToldToEnd) {
  const std::vector<RankEnd> all = {failure(1, "a", 100, true, 5), failure(0, "a", 200, false, 6)};
  ASSERT_NE(first_failure(all), nullptr);
  EXPECT_EQ(first_failure(all)->rank, 0);
  EXPECT_EQ(first_failure({failure(1, "a", 100, true, 5)}), nullptr);
  EXPECT_EQ(first_failure({}), nullptr);
}

TEST(FirstFailure, IsNoneOfSuccesses) {
  const std::vector<RankEnd> all = {failure(0, "a", 100, false, 0), failure(1, "a", 200, false, 3)};
  ASSERT_NE(first_failure(all), nullptr);
  EXPECT_EQ(first_failure(all)->rank, 1);
  EXPECT_EQ(first_failure(all, 0)->rank, 0) << "unless it is known to be a failure nevertheless";
}

TEST(FirstFailure, IsTheCauseAndNotAConsequence) {
  const std::vector<RankEnd> all = {consequence(1, "a", 100, 1), failure(0, "b", 300, false, 3),
                                    consequence(2, "b", 200, 1)};
  ASSERT_NE(first_failure(all), nullptr);
  EXPECT_EQ(first_failure(all)->rank, 0) << "exit() took it longer";
  ASSERT_NE(first_failure({consequence(1, "a", 200, 1), consequence(2, "a", 100, 1)}), nullptr);
  EXPECT_EQ(first_failure({consequence(1, "a", 200, 1), consequence(2, "a", 100, 1)})->rank, 2)
      << "if no cause is known";
}

TEST(Sentence, NamesRankHostAndEnd) {
  RankEnd f = failure(1, "node7", 0, false, 3);
  EXPECT_EQ(sentence(f), "rank 1 on host node7 exited with code 3");
  EXPECT_EQ(exit_code(f.ended), 3);
  f.ended.how = Ending::kSignal;
  f.ended.code = SIGKILL;
  EXPECT_EQ(sentence(f), "rank 1 on host node7 was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(exit_code(f.ended), 137);
  f.ended.how = Ending::kNotStarted;
  f.ended.code = ENOENT;
  EXPECT_EQ(sentence(f), "rank 1 on host node7 could not start 'prog': No such file or directory");
  EXPECT_EQ(exit_code(f.ended), 127);
  f.ended.code = EACCES;
  EXPECT_EQ(exit_code(f.ended), 126);
}

TEST(Verdict, IsTheFirstRankThatReported) {
  JobRecord record;
  record.ends = {failure(2, "a", 100, false, 5)};
  record.launcher = LauncherReport{2, "exited somehow", false};
  ASSERT_TRUE(verdict(record));
  EXPECT_EQ(verdict(record)->sentence, "rank 2 on host a exited with code 5");
  EXPECT_EQ(verdict(record)->exit_code, 5);
}

TEST(Verdict, BelievesTheLauncherOnARankThatDidNotReport) {
  JobRecord record;
  record.started[1] = {"b", 7, 0, {}};
  record.ends = {failure(2, "a", 100, false, 5)};
  record.launcher = LauncherReport{1, "ended without MPI_Finalize", false};
  ASSERT_TRUE(verdict(record));
  EXPECT_EQ(verdict(record)->sentence, "rank 1 on host b ended without MPI_Finalize");
  EXPECT_EQ(verdict(record)->exit_code, std::nullopt);
}

TEST(Verdict, BlamesNoRankThatLeftMpiBecauseItsPeerWasKilled) {
  JobRecord record;
  record.launcher = LauncherReport{0, "ended without MPI_Finalize", false};
  for (const char* other_host : {"a", "b"}) {
    record.ends = {killed(1, "a", 100), failure(0, other_host, 200, false, 0)};
    ASSERT_TRUE(verdict(record));
    EXPECT_EQ(verdict(record)->sentence, "rank 1 on host a was killed by signal 9 (SIGKILL)");
    EXPECT_EQ(verdict(record)->exit_code, 137);
  }
}

TEST(Verdict, BlamesARankThatLeftMpiFirst) {
  JobRecord record;
  record.launcher = LauncherReport{0, "ended without MPI_Finalize", false};
  record.ends = {killed(1, "a", 200), failure(0, "a", 100, false, 0)};
  ASSERT_TRUE(verdict(record));
  EXPECT_EQ(verdict(record)->sentence, "rank 0 ended without MPI_Finalize");
  record.ends = {failure(0, "a", 100, false, 0)};
  EXPECT_EQ(verdict(record)->sentence, "rank 0 ended without MPI_Finalize");
}

TEST(Verdict, BlamesAnAbortOnlyWhenNobodyFailedBefore) {
  JobRecord record;
  record.launcher = LauncherReport{1, "called MPI_Abort with code 7", true};
  record.ends = {failure(0, "a", 1, true, 143), failure(1, "a", 2, true, 7)};
  EXPECT_EQ(verdict(record)->sentence, "rank 1 called MPI_Abort with code 7");
  record.ends.push_back(failure(0, "a", 0, false, 9));
  EXPECT_EQ(verdict(record)->sentence, "rank 0 on host a exited with code 9");
}

TEST(RanksUnheardOf, AreThoseWithoutAnEnd) {
  JobRecord record;
  record.ends = {failure(0, "a", 1, false, 0), failure(3, "a", 1, false, 0), {1, {}}};
  EXPECT_THAT(ranks_unheard_of(record, 5), testing::ElementsAre(2, 4));
  EXPECT_THAT(ranks_unheard_of(record, 2), testing::IsEmpty());
}

TEST(HostsOfOneName, AreOnDifferentMachines) {
  std::map<int, Started> started;
  started[0] = {"node1", 7, 0, "boot1/net"};
  started[1] = {"localhost", 7, 0, "boot2/net"};
  started[2] = {"localhost", 8, 0, "boot2/net"};
  started[3] = {"localhost", 9, 0, ""};
  EXPECT_EQ(hosts_of_one_name(started), "") << "what is not known is no difference";
  started[4] = {"localhost", 7, 0, "boot3/net"};
  EXPECT_EQ(hosts_of_one_name(started),
            "ranks 1, 2 and rank 4 are on two hosts that both call themselves 'localhost'");
  started[1].machine = started[2].machine = "boot4/net";  // the ranks' order counts, not this one
  EXPECT_EQ(hosts_of_one_name(started),
            "ranks 1, 2 and rank 4 are on two hosts that both call themselves 'localhost'");
}

TEST(Verdict, IsNoneWithoutAFailure) {
  EXPECT_FALSE(verdict({}));
}

}  // namespace
}  // namespace kolo::cli
