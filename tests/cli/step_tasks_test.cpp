#include "cli/batch/step_tasks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "cli/environment_of.hpp"
#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

std::map<std::string, std::string> step() {
  return {{"SLURM_JOB_ID", "17"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "node[3-5]"},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
          {"SLURM_PROCID", "2"}};
}

TEST(StepTask, IsFound) {
  const std::optional<StepTask> task = find_step_task(environment_of(step()));
  ASSERT_TRUE(task);
  EXPECT_EQ(task->task, 2);
  EXPECT_EQ(task->count, 3);
  EXPECT_EQ(task->id, "17.0");
  EXPECT_EQ(task->first_host, "node3");
}

TEST(StepTask, IsNoneInABatchScriptAShellOrAlone) {
  EXPECT_FALSE(find_step_task(environment_of({})));
  auto batch = step();
  batch.erase("SLURM_STEP_ID");
  EXPECT_FALSE(find_step_task(environment_of(batch)));
  auto alone = step();
  alone["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_FALSE(find_step_task(environment_of(alone)));
  auto shell = step();
  shell.insert({{"SLURM_PTY_PORT", "17123"}});
  shell["SLURM_STEP_TASKS_PER_NODE"] = "6";
  EXPECT_FALSE(find_step_task(environment_of(shell)));
}

TEST(StepTask, IsBesideATerminalWhereTheFirstHasIt) {
  auto shell = step();
  EXPECT_FALSE(is_beside_a_terminal(environment_of(shell)));
  shell.insert({{"SLURM_PTY_PORT", "17123"}});
  EXPECT_TRUE(is_beside_a_terminal(environment_of(shell)));
  EXPECT_FALSE(find_step_task(environment_of(shell))) << "nobody leads";
  shell["SLURM_PROCID"] = "0";
  EXPECT_FALSE(is_beside_a_terminal(environment_of(shell)));
  shell.erase("SLURM_PROCID");
  EXPECT_FALSE(is_beside_a_terminal(environment_of(shell)));
}

TEST(StepTask, IsRefusedWhereTasksShareANode) {
  auto several = step();
  several["SLURM_STEP_TASKS_PER_NODE"] = "1(x2),2";
  EXPECT_THROW((void)find_step_task(environment_of(several)), UsageError);
}

StepTask task_of(const std::string& id, int task) {
  return {task, 3, id, "localhost"};
}

std::string own_id(const char* test) {
  return std::to_string(::getpid()) + "." + test;
}

// follow_leader() ignores signals and prints, so it gets a process.
pid_t start(const std::function<int()>& run) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(run());
  return pid;
}

int end_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void greet(StepLeader& leader, int how_many) {
  for (int greeted = 0; greeted < how_many; ++greeted) {
    pollfd poll_fd{leader.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&poll_fd, 1, 20000), 1) << "nobody comes";
    leader.greet();
  }
}

TEST(StepLeader, GivesItsCodeToAll) {
  const std::string id = own_id("code");
  std::vector<pid_t> followers;
  for (const int task : {1, 2})
    followers.push_back(start([&] { return follow_leader(task_of(id, task), 20); }));
  ::usleep(300'000);  // they come too early
  {
    StepLeader leader(task_of(id, 0));
    greet(leader, 1);
    ::usleep(100'000);
    for (const pid_t pid : followers) ::kill(pid, SIGTERM);  // is for the leader
    leader.finish(7);                                        // greets whoever is still outside
    for (const pid_t pid : followers) EXPECT_EQ(end_of(pid), 7);
  }
}

// The job may be over before another task has begun.
TEST(StepLeader, WaitsForATaskThatBeginsLate) {
  const std::string id = own_id("late");
  StepLeader leader({0, 2, id, "localhost"});
  const pid_t follower = start([&] {
    ::usleep(500'000);
    return follow_leader(task_of(id, 1), 20);
  });
  leader.finish(4);
  EXPECT_EQ(end_of(follower), 4);
}

TEST(StepLeader, IsMissedWhenItDies) {
  const std::string id = own_id("death");
  const pid_t follower = start([&] { return follow_leader(task_of(id, 1), 20); });
  {
    StepLeader leader(task_of(id, 0));
    greet(leader, 1);
  }
  EXPECT_EQ(end_of(follower), 1);
}

TEST(StepLeader, IsNotWaitedForWithoutEnd) {
  const std::string id = own_id("nobody");
  const pid_t follower = start([&] { return follow_leader(task_of(id, 1), 0.5); });
  EXPECT_EQ(end_of(follower), 1);
}

// The connections of those before linger at all of its ports.
TEST(StepLeader, MayFollowManyOthersInAStep) {
  const std::string id = own_id("loop");
  for (int turn = 0; turn < 20; ++turn) {
    StepLeader leader({0, 2, id, "localhost"});
    const pid_t follower = start([&] { return follow_leader(task_of(id, 1), 20); });
    leader.finish(turn);
    ASSERT_EQ(end_of(follower), turn);
  }
}

// Another program has the first port, and says nothing or something else.
TEST(StepLeader, IsFoundBesideAStranger) {
  const std::string id = own_id("stranger");
  StepLeader leader(task_of(id, 0));
  StepLeader of_same_ports({0, 2, id, "localhost"});  // takes the next port
  const pid_t follower = start([&] { return follow_leader(task_of(id, 1), 20); });
  // The first is silent, so after a while the follower tries the second.
  greet(of_same_ports, 1);
  of_same_ports.finish(3);
  EXPECT_EQ(end_of(follower), 3);
}

TEST(StepLeader, IsNotTakenForAStrangerThatTalks) {
  const std::string id = own_id("talker");
  sockaddr_in6 address{};
  socklen_t length = sizeof address;
  {
    const StepLeader first(task_of(id, 0));
    ASSERT_EQ(::getsockname(first.fd(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  }
  const Fd stranger(::socket(address.sin6_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(stranger.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(stranger.get(), 1), 0);
  StepLeader leader({0, 2, id, "localhost"});
  const pid_t follower = start([&] { return follow_leader(task_of(id, 1), 20); });
  const Fd visitor(::accept(stranger.get(), nullptr, nullptr));
  ASSERT_EQ(::write(visitor.get(), "220 mail\n", 9), 9);
  leader.finish(3);
  EXPECT_EQ(end_of(follower), 3);
}

}  // namespace
}  // namespace kolo::cli
