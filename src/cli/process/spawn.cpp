// fork and exec, and the search for programs.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sstream>
#include <system_error>

#include "cli/process/system.hpp"

namespace kolo::cli {
namespace {

// The arguments of execvpe, made before the fork: afterwards only simple system calls are safe.
struct Prepared {
  explicit Prepared(const ChildSpec& spec) : words(spec.command) {
    for (const auto& [name, value] : system_variables()) {
      bool dropped = std::find(spec.unset.begin(), spec.unset.end(), name) != spec.unset.end();
      for (const auto& [set_name, set_value] : spec.set) dropped = dropped || set_name == name;
      if (!dropped) add(name, value);
    }
    for (const auto& [name, value] : spec.set) add(name, value);
    for (std::string& word : words) arguments.push_back(word.data());
    for (std::string& setting : settings) environment.push_back(setting.data());
    arguments.push_back(nullptr);
    environment.push_back(nullptr);
  }
  void add(const std::string& name, const std::string& value) {
    settings.push_back(name);
    settings.back().append("=").append(value);
  }

  std::vector<std::string> words, settings;
  std::vector<char*> arguments, environment;  // point into the above
};

bool reset_signals() {
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) std::signal(number, SIG_DFL);  // fails for a few
  }
  sigset_t none;
  sigemptyset(&none);
  return ::pthread_sigmask(SIG_SETMASK, &none, nullptr) == 0;
}

bool redirect(int from, int to) {
  return from < 0 || ::dup2(from, to) >= 0;
}

// Runs in the child. Returns only if something failed, with errno set.
void become_program(const ChildSpec& spec, const Prepared& prepared, pid_t parent) {
  if (!reset_signals()) return;
  if (spec.own_group && ::setpgid(0, 0) != 0) return;
  if (!redirect(spec.standard_input, STDIN_FILENO)) return;
  if (!redirect(spec.standard_output, STDOUT_FILENO)) return;
  if (!redirect(spec.standard_error, STDERR_FILENO)) return;
  if (spec.death_signal != 0) {
    if (::prctl(PR_SET_PDEATHSIG, spec.death_signal) != 0) return;
    // The parent may have died before the line above.
    if (::getppid() != parent) ::_exit(1);
  }
  ::execvpe(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) == -1 && errno == EINTR) {
  }
}

}  // namespace

pid_t spawn(const ChildSpec& spec) {
  const Prepared prepared(spec);
  // Carries errno of a failed exec. A successful exec closes it.
  Pipe failure = make_pipe();
  const pid_t parent = ::getpid();
  const pid_t pid = check(::fork(), "fork");
  if (pid == 0) {
    become_program(spec, prepared, parent);
    const int error = errno;
    [[maybe_unused]] const ssize_t told = ::write(failure.write.get(), &error, sizeof error);
    ::_exit(127);
  }
  failure.write.reset();
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure.read.get(), &error, sizeof error);
  } while (count == -1 && errno == EINTR);
  if (count == static_cast<ssize_t>(sizeof error)) {
    reap(pid);
    throw std::system_error(error, std::generic_category(), spec.command.front());
  }
  return pid;
}

namespace {

int error_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

FoundProgram find_program(const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) return {name, error_of(name)};
  FoundProgram best{name, ENOENT};
  std::istringstream folders(search_path);
  std::string folder;
  while (!name.empty() && std::getline(folders, folder, ':')) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    const int error = error_of(path);
    if (error == 0) return {path, 0};
    if (error == EACCES) best = {path, error};
  }
  return best;
}

}  // namespace kolo::cli
