#include "cli/run/launcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <system_error>

#include "cli/process/system.hpp"
#include "core/clock.hpp"

#ifndef KOLO_MPIEXEC
#define KOLO_MPIEXEC ""
#endif

namespace kolo::cli {
namespace {

// Reads until the command has closed its output. Returns false if the deadline passes first.
bool read_all(int fd, Clock::time_point deadline, std::string& output) {
  for (;;) {
    const double left = to_seconds(deadline - Clock::now());
    if (left <= 0) return false;
    pollfd poll_fd{fd, POLLIN, 0};
    const int ready = ::poll(&poll_fd, 1, static_cast<int>(left * 1000) + 1);
    if (ready == -1 && errno != EINTR) check(-1, "poll");
    if (ready <= 0) continue;
    const std::optional<std::string> bytes = read_some(fd);
    if (!bytes) return true;
    output += *bytes;
  }
}

// Waits for the end of a process that has closed its output, and returns its status. Returns
// nothing if the process is still there at the deadline.
std::optional<int> wait_until(pid_t pid, Clock::time_point deadline) {
  const Fd watch = watch_process(pid);
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended == -1 && errno != EINTR) check(-1, "waitpid");
    if (Clock::now() >= deadline) return std::nullopt;
    pollfd poll_fd{watch.get(), POLLIN, 0};
    if (::poll(&poll_fd, 1, 20) == -1 && errno != EINTR) check(-1, "poll");
  }
}

}  // namespace

CommandResult run_captured(const std::vector<std::string>& command, const Variables& set,
                           double timeout_seconds, const std::vector<std::string>& unset) {
  become_reaper();
  const Fd nothing(check(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open(/dev/null)"));
  Pipe output = make_pipe();
  ChildSpec spec;
  spec.command = command;
  spec.set = set;
  spec.unset = unset;
  spec.standard_input = nothing.get();
  spec.standard_output = output.write.get();
  spec.standard_error = output.write.get();
  spec.death_signal = SIGTERM;
  const pid_t pid = spawn(spec);
  output.write.reset();
  const Clock::time_point deadline = Clock::now() + seconds(timeout_seconds);
  CommandResult result;
  const bool closed = read_all(output.read.get(), deadline, result.output);
  const std::optional<int> status = wait_until(pid, closed ? deadline : Clock::now());
  if (!status) {
    kill_descendants();
    result.code = -1;
  } else {
    result.code = WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
  }
  return result;
}

std::string find_launcher(const std::string& given, const Lookup& environment) {
  const std::string search_path = environment("PATH").value_or("/usr/bin:/bin");
  const std::string from_environment = environment("KOLO_MPIRUN").value_or("");
  for (const auto& [path, whence] :
       {std::pair{given, "--mpirun"}, {from_environment, "KOLO_MPIRUN"}}) {
    if (path.empty()) continue;
    const FoundProgram found = find_program(path, search_path);
    if (found.error == 0) return found.path;
    throw UsageError("mpirun not found: " + std::string(whence) + "=" + path + ": " +
                     std::generic_category().message(found.error));
  }
  std::string built_with = KOLO_MPIEXEC;
  if (!built_with.empty() && find_program(built_with, search_path).error == 0) return built_with;
  const FoundProgram found = find_program("mpirun", search_path);
  if (found.error == 0) return found.path;
  throw UsageError("mpirun not found: neither " +
                   (built_with.empty() ? std::string()
                                       : "at " + built_with + ", with which kolo was built, nor ") +
                   "on PATH; load your cluster's MPI module, install Open MPI, or name it with "
                   "--mpirun or KOLO_MPIRUN");
}

Launcher identify_launcher(const std::string& path) {
  Launcher launcher{path, LauncherKind::kUnknown, {}};
  const CommandResult answer = run_captured({path, "--version"}, {}, 20.0);
  launcher.kind = launcher_kind(answer.output);
  launcher.version = answer.output.substr(0, answer.output.find('\n'));
  return launcher;
}

}  // namespace kolo::cli
