#include "cli/failure.hpp"

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

}  // namespace

std::string signal_name(int number) {
  for (const SignalName& signal : kSignals) {
    if (signal.number == number) return signal.name;
  }
  return "signal " + std::to_string(number);
}

const Failure* first_failure(const std::vector<Failure>& failures) {
  // The earliest of each host, in the order in which the hosts were first heard of.
  std::vector<const Failure*> earliest;
  for (const Failure& failure : failures) {
    if (failure.ended.was_told) continue;
    const auto same_host = [&](const Failure* other) {
      return other->ended.from.host == failure.ended.from.host;
    };
    const auto known = std::find_if(earliest.begin(), earliest.end(), same_host);
    if (known == earliest.end()) {
      earliest.push_back(&failure);
    } else if (failure.ended.from.microseconds < (*known)->ended.from.microseconds) {
      *known = &failure;
    }
  }
  return earliest.empty() ? nullptr : earliest.front();
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

std::string sentence(const Failure& failure) {
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
