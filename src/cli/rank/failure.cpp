#include "cli/rank/failure.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace kolo::cli {
namespace {

struct SignalName {
  int number;
  const char* name;
};

constexpr SignalName kSignals[] = {
    {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
    {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"},
    {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
};

// Returns the earliest end on the host that reported first; null if there are no ends.
const RankEnd* earliest(const std::vector<const RankEnd*>& ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd* end : ends) {
    const bool is_earlier = first != nullptr && end->ended.from.host == first->ended.from.host &&
                            end->ended.from.microseconds < first->ended.from.microseconds;
    if (first == nullptr || is_earlier) first = end;
  }
  return first;
}

}  // namespace

std::string signal_name(int number) {
  for (const SignalName& signal : kSignals) {
    if (signal.number == number) return signal.name;
  }
  return "signal " + std::to_string(number);
}

bool is_success(const Ended& ended) {
  return ended.how == Ending::kExit && ended.code == 0;
}

const RankEnd* first_failure(const std::vector<RankEnd>& ends, int also_failed) {
  std::vector<const RankEnd*> causes;
  std::vector<const RankEnd*> consequences;
  for (const RankEnd& end : ends) {
    if (end.ended.was_told || (is_success(end.ended) && end.rank != also_failed)) continue;
    (end.ended.lost_peer ? consequences : causes).push_back(&end);
  }
  return earliest(causes.empty() ? consequences : causes);
}

std::string how_it_ended(const Ended& ended) {
  switch (ended.how) {
    case Ending::kExit:
      return "exited with code " + std::to_string(ended.code);
    case Ending::kSignal:
      return "was killed by signal " + std::to_string(ended.code) + " (" + signal_name(ended.code) +
             ")";
    case Ending::kNotStarted:
      break;
  }
  return "could not start '" + ended.program + "': " + std::generic_category().message(ended.code);
}

std::string sentence(const RankEnd& failure) {
  return "rank " + std::to_string(failure.rank) + " on host " + failure.ended.from.host + " " +
         how_it_ended(failure.ended);
}

int exit_code(const Ended& ended) {
  switch (ended.how) {
    case Ending::kExit:
      return ended.code;
    case Ending::kSignal:
      return 128 + ended.code;
    case Ending::kNotStarted:
      break;
  }
  return ended.code == ENOENT ? 127 : 126;
}

}  // namespace kolo::cli
