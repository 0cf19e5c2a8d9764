#include "benchmarks/child.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "benchmarks/shared_memory.hpp"

namespace kolo::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kLong = 30;
constexpr double kShort = 0.3;

std::unique_ptr<Child> shell(const std::string& script, double deadline_seconds = kLong) {
  return std::make_unique<Child>("the child", std::vector<std::string>{"/bin/sh", "-c", script},
                                 deadline_seconds);
}

std::string problem_of(Child& child, const std::string& line = "hello",
                       const std::string& word = "hello") {
  try {
    child.ask(line, word);
  } catch (const ChildError& error) {
    return error.what();
  }
  return "none";
}

constexpr const char* kEcho = "while read -r line; do echo \"$line\"; done";

TEST(BenchChild, AnswersLinesWithLines) {
  const auto child = shell(kEcho);
  EXPECT_EQ(child->ask("hello", "hello"), "");
  EXPECT_EQ(child->ask("hello you there", "hello"), "you there");
  const std::string text(10000, 'x');
  EXPECT_EQ(child->ask("a " + text, "a"), text);
}

TEST(BenchChild, AnswerMayComeInParts) {
  EXPECT_EQ(shell("read -r x; printf he; sleep 0.1; printf 'llo wor'; sleep 0.1; echo ld; read x")
                ->ask("?", "hello"),
            "world");
}

TEST(BenchChild, AnotherAnswerIsAnError) {
  const auto child = shell(kEcho);
  EXPECT_EQ(problem_of(*child, "good morning", "hello"),
            "the child answered 'good morning' to 'good morning'");
  EXPECT_THAT(problem_of(*child, "hello2", "hello"), HasSubstr("answered 'hello2'"));
}

TEST(BenchChild, EndIsNamedWithTheLastWords) {
  const auto child = shell("read -r x; seq 100 >&2; echo no torch here >&2; exit 3");
  EXPECT_THAT(problem_of(*child),
              AllOf(HasSubstr("the child exited with code 3; its last words:\n"),
                    HasSubstr("\n  100\n  no torch here"), Not(HasSubstr("\n  5"))));
  EXPECT_THAT(problem_of(*child), HasSubstr("the child has ended"));
}

TEST(BenchChild, EndBeforeTheQuestionIsNoticed) {
  const auto child = shell("exit 4");
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child->pid()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(problem_of(*child), "the child exited with code 4");
}

TEST(BenchChild, SignalIsNamed) {
  EXPECT_EQ(problem_of(*shell("read -r x; kill -SEGV $$")),
            "the child was killed by signal 11 (SIGSEGV)");
}

TEST(BenchChild, SilenceHasADeadline) {
  const auto child = shell("echo thinking >&2; sleep 100", kShort);
  const auto before = Clock::now();
  EXPECT_EQ(problem_of(*child),
            "the child did not answer 'hello' within 0.3 s; its last words:\n  thinking");
  EXPECT_GE(to_seconds(Clock::now() - before), kShort);
  EXPECT_LT(to_seconds(Clock::now() - before), 10);
}

TEST(BenchChild, HalfALineIsSilence) {
  EXPECT_THAT(problem_of(*shell("printf hel; sleep 100", kShort)), HasSubstr("did not answer"));
}

TEST(BenchChild, ClosedOutputIsNoticed) {
  EXPECT_EQ(problem_of(*shell("exec 0<&- 1>&-; sleep 100")), "the child closed its output");
}

TEST(BenchChild, EndIsNoticedThoughAnotherHoldsItsOutput) {
  const auto before = Clock::now();
  EXPECT_EQ(problem_of(*shell("sleep 100 & exit 5")), "the child exited with code 5");
  EXPECT_LT(to_seconds(Clock::now() - before), 10);
}

TEST(BenchChild, AProgramThatIsNotThereIsNamed) {
  try {
    const Child child("the child", {"/no/such/program"}, kLong);
    FAIL() << "no exception";
  } catch (const ChildError& error) {
    EXPECT_STREQ(error.what(), "the child cannot be started: No such file or directory");
  }
}

TEST(BenchChild, SharesMemory) {
  const SharedMemory memory(4096);
  auto* values = static_cast<char*>(memory.data());
  EXPECT_EQ(values[4095], 0);
  values[0] = 'a';
  const auto child = shell("read -r x; v=$(head -c 1 /proc/self/fd/" +
                           std::to_string(memory.descriptor()) + "); printf z > /proc/self/fd/" +
                           std::to_string(memory.descriptor()) + "; echo \"had $v\"; read -r x");
  EXPECT_EQ(child->ask("?", "had"), "a");
  EXPECT_EQ(values[0], 'z');
}

// --- what is left of it ---

bool is_gone(pid_t pid) {
  return kill(pid, 0) == -1 && errno == ESRCH;
}

// Reaps what the test has inherited, for ten seconds at most.
bool goes(pid_t pid) {
  for (int i = 0; i < 1000 && !is_gone(pid); ++i) {
    waitpid(pid, nullptr, WNOHANG);
    usleep(10000);
  }
  return is_gone(pid);
}

TEST(BenchChild, IsKilledWithWhatItHasStarted) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  auto child = shell("sleep 100 & read -r x; echo pid $!; trap '' TERM; sleep 100");
  const pid_t grandchild = std::stoi(child->ask("?", "pid"));
  const pid_t pid = child->pid();
  EXPECT_FALSE(is_gone(grandchild));
  child.reset();
  EXPECT_TRUE(is_gone(pid));
  EXPECT_TRUE(goes(grandchild));
}

TEST(BenchChild, DiesWithItsParent) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const auto child = shell("read -r x; echo hello; exec sleep 100");
    child->ask("?", "hello");
    const pid_t pid = child->pid();
    if (write(ends[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    raise(SIGKILL);
  }
  pid_t pid = 0;
  ASSERT_EQ(read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  EXPECT_TRUE(goes(parent));
  EXPECT_TRUE(goes(pid));
}

// A Python that connects to the address behind the script, in a process that it has started.
std::unique_ptr<Child> connecting(const std::string& script, double deadline_seconds = kLong) {
  const std::string connect =
      "import socket, subprocess, sys\n"
      "if len(sys.argv) == 2:\n"
      "  subprocess.run([sys.executable, '-c', sys.orig_argv[2], sys.argv[1], 'again'], "
      "check=True)\n"
      "  sys.exit()\n"
      "connection = socket.socket(socket.AF_UNIX)\n";
  return std::make_unique<Child>("the child",
                                 std::vector<std::string>{"python3", "-c", connect + script},
                                 deadline_seconds, Talk::kConnection);
}

constexpr const char* kConnectAndEcho =
    "connection.connect('\\0' + sys.argv[1])\n"
    "lines = connection.makefile('rw', buffering=1)\n"
    "print('this is no answer', flush=True)\n"
    "for line in lines:\n"
    "  lines.write(line)\n"
    "  if line == 'end\\n': sys.exit()\n"
    "  if line == 'fail\\n': sys.exit(3)\n";

TEST(ConnectingChild, AnswersLinesWithLines) {
  const auto child = connecting(kConnectAndEcho);
  EXPECT_EQ(child->ask("hello you", "hello"), "you");
  EXPECT_EQ(child->ask("end", "end"), "");
  child->wait_for_end();
}

TEST(ConnectingChild, WhatItPrintsIsKeptForMessages) {
  const auto child = connecting(kConnectAndEcho);
  EXPECT_THAT(problem_of(*child, "other"), HasSubstr("\n  this is no answer"));
}

TEST(ConnectingChild, ItsFailureAtTheEndIsTold) {
  const auto child = connecting(kConnectAndEcho);
  child->ask("fail", "fail");
  try {
    child->wait_for_end();
    FAIL() << "no exception";
  } catch (const ChildError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the child exited with code 1"));
  }
}

TEST(ConnectingChild, MustConnect) {
  for (const char* script : {"sys.exit(0)\n", "import time\ntime.sleep(60)\n"}) {
    try {
      connecting(script, kShort * 4);
      FAIL() << "no exception";
    } catch (const ChildError& error) {
      EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("exited with code 0"),
                                               HasSubstr("did not connect within")));
    }
  }
}

}  // namespace
}  // namespace kolo::bench
