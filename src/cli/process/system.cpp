#include "cli/process/system.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>

namespace kolo::cli {

int check(int value, const char* what) {
  if (value == -1) throw std::system_error(errno, std::generic_category(), what);
  return value;
}

bool is_ignored(int number) {
  struct sigaction now {};
  check(::sigaction(number, nullptr, &now), "sigaction");
  return now.sa_handler == SIG_IGN;
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC), "pipe2");
  return {Fd(ends[0]), Fd(ends[1])};
}

Pipe make_terminal() {
  int master = -1;
  int slave = -1;
  if (::openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) return make_pipe();
  Pipe terminal{Fd(master), Fd(slave)};
  termios settings{};
  check(::tcgetattr(slave, &settings), "tcgetattr");
  ::cfmakeraw(&settings);
  check(::tcsetattr(slave, TCSANOW, &settings), "tcsetattr");
  for (const int fd : {master, slave}) check(::fcntl(fd, F_SETFD, FD_CLOEXEC), "fcntl(FD_CLOEXEC)");
  return terminal;
}

std::optional<std::string> read_some(int fd) {
  std::string bytes(16384, '\0');
  const ssize_t count = ::read(fd, bytes.data(), bytes.size());
  if (count > 0) {
    bytes.resize(static_cast<std::size_t>(count));
    return bytes;
  }
  if (count == 0) return std::nullopt;
  if (errno == EINTR || errno == EAGAIN) return std::string();
  if (errno == EIO) return std::nullopt;  // the program's end of a terminal was closed
  throw std::system_error(errno, std::generic_category(), "read");
}

namespace {

// Whether this is a terminal, say, which returns EIO for ever once it is closed.
bool is_character_device(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISCHR(info.st_mode);
}

}  // namespace

void OutputQueue::push(std::string packet) {
  if (is_gone_ || packet.empty()) return;
  bytes_ += packet.size();
  packets_.push_back(std::move(packet));
}

void OutputQueue::write_some() {
  if (packets_.empty()) return;
  std::string& packet = packets_.front();
  // A pipe that poll() reports as writable takes PIPE_BUF bytes without blocking.
  const std::size_t part = std::min<std::size_t>(packet.size(), PIPE_BUF);
  const ssize_t count = ::write(fd_, packet.data(), part);
  if (count < 0) {
    if (errno == EINTR || errno == EAGAIN) return;
    if (errno == EPIPE || (errno == EIO && is_character_device(fd_))) {
      is_gone_ = true;
      packets_.clear();
      bytes_ = 0;
      return;
    }
    if (error_ == 0) error_ = errno;
    return drop_first(packet.size());
  }
  drop_first(static_cast<std::size_t>(count));
}

void OutputQueue::drop_first(std::size_t bytes) {
  std::string& packet = packets_.front();
  bytes_ -= bytes;
  packet.erase(0, bytes);
  if (packet.empty()) packets_.pop_front();
}

void change_signal_mask(int how, const sigset_t& set) {
  const int error = ::pthread_sigmask(how, &set, nullptr);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_sigmask");
}

void stop_this_process() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  check(::kill(::getpid(), SIGTSTP), "kill");
  change_signal_mask(SIG_UNBLOCK, set);
  change_signal_mask(SIG_BLOCK, set);
}

SignalQueue::SignalQueue(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals) sigaddset(&set, number);
  change_signal_mask(SIG_BLOCK, set);
  fd_ = Fd(check(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd"));
}

std::optional<ReceivedSignal> SignalQueue::next() {
  signalfd_siginfo info{};
  const ssize_t count = ::read(fd_.get(), &info, sizeof info);
  if (count == static_cast<ssize_t>(sizeof info)) {
    return ReceivedSignal{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid)};
  }
  if (count < 0 && errno != EAGAIN && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "read(signalfd)");
  }
  return std::nullopt;
}

Fd watch_process(pid_t pid) {
#ifdef SYS_pidfd_open
  return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#else
  (void)pid;
  return Fd();
#endif
}

}  // namespace kolo::cli
