#include "core/launched.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <map>

namespace kolo {
namespace {

std::string told(const std::map<std::string, std::string>& variables) {
  const auto found = launched_size([&](const char* name) -> const char* {
    const auto variable = variables.find(name);
    return variable == variables.end() ? nullptr : variable->second.c_str();
  });
  return found ? found->variable + " " + std::to_string(found->size) : "nothing";
}

TEST(LaunchedSize, IsTheLaunchersWord) {
  EXPECT_EQ(told({}), "nothing");
  EXPECT_EQ(told({{"OMPI_COMM_WORLD_SIZE", "4"}}), "OMPI_COMM_WORLD_SIZE 4");
  EXPECT_EQ(told({{"PMI_SIZE", "12"}}), "PMI_SIZE 12");
  EXPECT_EQ(told({{"SLURM_STEP_NUM_TASKS", "2"}}), "SLURM_STEP_NUM_TASKS 2");
}

TEST(LaunchedSize, IsMpirunsBeforeSruns) {
  EXPECT_EQ(told({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "6"}}),
            "OMPI_COMM_WORLD_SIZE 1");
}

TEST(LaunchedSize, IsNotThatOfAShellsStep) {
  EXPECT_EQ(told({{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_PTY_PORT", "33"}}), "nothing");
}

TEST(LaunchedSize, PassesOverNonsense) {
  for (const char* text : {"", "x", "4x", "0", "-1", "999999999999"}) {
    EXPECT_EQ(told({{"PMI_SIZE", text}}), "nothing") << text;
  }
}

// Whether tell_of_lost_peer() signals this process, which KOLO_RANK_PROCESS then names.
bool is_told(const char* variable) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, kLostPeerSignal);
  EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  EXPECT_EQ(::setenv(kRankProcessVariable, variable, 1), 0);
  tell_of_lost_peer();
  EXPECT_EQ(::unsetenv(kRankProcessVariable), 0);
  const timespec no_time{};
  return ::sigtimedwait(&set, nullptr, &no_time) == kLostPeerSignal;
}

TEST(LostPeer, IsToldToKoloRank) {
  const std::string own = std::to_string(::getpid());
  EXPECT_TRUE(is_told(own.c_str()));
  for (const char* bad : {"", "x", "0", "-1", "1", "99999999999999999999"})
    EXPECT_FALSE(is_told(bad)) << bad;
}

}  // namespace
}  // namespace kolo
