#include "collectives/lifelines.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace kolo {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends.data()), 0); }
  int reading() const { return ends[0]; }
  int writing() const { return ends[1]; }
  std::array<int, 2> ends{};
};

TEST(Lifelines, ShowWhichOfSomeRanksHasEnded) {
  const Pipe of_5;
  const Pipe of_7;
  const Lifelines lifelines({{3}, {5, of_5.reading()}, {7, of_7.reading()}}, -1);
  EXPECT_EQ(lifelines.lost_rank({3, 5, 7}), std::nullopt);
  close(of_7.writing());
  EXPECT_EQ(lifelines.lost_rank({3, 5, 7}), 7);
  EXPECT_EQ(lifelines.lost_rank({3, 5}), std::nullopt) << "asks for others";
  EXPECT_EQ(lifelines.lost_rank({0, 1}), std::nullopt) << "they are on another node";
  close(of_5.writing());
  EXPECT_EQ(lifelines.lost_rank({7, 5}), 5);
}

TEST(Lifelines, ShowWhichOfSomeRanksAreStopped) {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  const Lifelines lifelines({{0, -1, getpid()}, {1, -1, child}, {2}}, -1);
  EXPECT_EQ(lifelines.stopped_ranks({0, 1, 2}), std::vector<int>{});
  ASSERT_EQ(kill(child, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(lifelines.stopped_ranks({0, 1, 2}), std::vector<int>{1});
  EXPECT_EQ(lifelines.stopped_ranks({0, 2}), std::vector<int>{}) << "asks for others";
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(lifelines.stopped_ranks({0, 1, 2}), std::vector<int>{}) << "it has ended";
}

// Rank 1 forks a child that outlives it, for as long as the test runs.
TEST(Lifelines, AForkDoesNotLookAsIfItsParentLived) {
  const Pipe of_1;
  const Pipe dropped;
  const Pipe test_runs;
  const pid_t parent = fork();
  if (parent == 0) {
    close(test_runs.writing());
    Lifelines lifelines({{0}, {1}}, of_1.writing());
    char byte = 0;
    if (fork() == 0) {
      lifelines.drop_own();
      _exit(write(dropped.writing(), &byte, 1) == 1
                ? static_cast<int>(read(test_runs.reading(), &byte, 1))
                : 1);
    }
    _exit(static_cast<int>(read(test_runs.reading(), &byte, 1)));
  }
  close(of_1.writing());
  char byte = 0;
  ASSERT_EQ(read(dropped.reading(), &byte, 1), 1);
  const Lifelines lifelines({{0}, {1, of_1.reading()}}, -1);
  EXPECT_EQ(lifelines.lost_rank({0, 1}), std::nullopt);
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_EQ(lifelines.lost_rank({0, 1}), 1);
  close(test_runs.writing());
}

}  // namespace
}  // namespace kolo
