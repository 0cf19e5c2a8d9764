#include "benchmarks/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <system_error>
#include <utility>

#include "cli/rank/failure.hpp"

namespace kolo::bench {
namespace {

constexpr off_t kLastBytes = 4096;
constexpr std::size_t kLastLines = 8;
// For a child that has closed its output and is about to end.
constexpr int kEndMilliseconds = 1000;

struct Sockets {
  Fd ours, childs;
};

Sockets make_sockets() {
  std::array<int, 2> ends{};
  cli::check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), "socketpair");
  return {Fd(ends[0]), Fd(ends[1])};
}

struct Listener {
  Fd socket;
  std::string address;  // in Linux's abstract space: no file, and gone with the socket
};

// An address that nobody can guess.
Listener listen_somewhere() {
  std::array<std::uint64_t, 2> random{};
  const ssize_t count = ::getrandom(random.data(), sizeof random, 0);
  if (count != static_cast<ssize_t>(sizeof random)) cli::check(-1, "getrandom");
  std::ostringstream address;
  address << "kolo-bench-" << std::hex << random[0] << random[1];
  Listener listener{Fd(cli::check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")),
                    address.str()};
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  listener.address.copy(at.sun_path + 1, sizeof at.sun_path - 1);
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + listener.address.size());
  cli::check(::bind(listener.socket.get(), reinterpret_cast<const sockaddr*>(&at), length), "bind");
  cli::check(::listen(listener.socket.get(), 1), "listen");
  return listener;
}

std::string describe(int status) {
  cli::Ended ended;
  const bool by_signal = WIFSIGNALED(status);
  ended.how = by_signal ? cli::Ending::kSignal : cli::Ending::kExit;
  ended.code = by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
  return cli::how_it_ended(ended);
}

}  // namespace

Child::Child(std::string name, std::vector<std::string> command, double deadline_seconds, Talk talk)
    : name_(std::move(name)),
      deadline_(seconds(deadline_seconds)),
      errors_(cli::check(::memfd_create("errors", MFD_CLOEXEC), "memfd_create")) {
  cli::ChildSpec spec;
  spec.command = std::move(command);
  spec.standard_error = errors_.get();
  spec.own_group = true;
  spec.death_signal = SIGKILL;
  if (talk == Talk::kStandardStreams) {
    Sockets sockets = make_sockets();
    spec.standard_input = spec.standard_output = sockets.childs.get();
    start(spec);
    socket_ = std::move(sockets.ours);
    return;
  }
  const Fd nothing(cli::check(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null"));
  const Listener listener = listen_somewhere();
  spec.command.push_back(listener.address);
  spec.standard_input = nothing.get();
  spec.standard_output = errors_.get();
  start(spec);
  try {
    accept_from(listener.socket);
  } catch (...) {
    if (pid_ >= 0) kill_all();  // no destructor will
    throw;
  }
}

void Child::start(const cli::ChildSpec& spec) {
  try {
    pid_ = cli::spawn(spec);
  } catch (const std::system_error& error) {
    throw ChildError(name_ + " cannot be started: " + error.code().message());
  }
  ended_ = cli::watch_process(pid_);
}

void Child::accept_from(const Fd& listener) {
  const Clock::time_point deadline = Clock::now() + deadline_;
  while (!socket_.is_open()) {
    const double left = to_seconds(deadline - Clock::now());
    if (left <= 0) fail("did not connect within " + to_text(deadline_));
    std::array<pollfd, 2> fds = {{{listener.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(left * 1000) + 1);
    if (ready < 0 && errno != EINTR) cli::check(-1, "poll");
    if (fds[1].revents != 0) fail(how_it_ended());
    if (fds[0].revents == 0) continue;
    Fd peer(cli::check(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept"));
    ucred who{};
    socklen_t length = sizeof who;
    cli::check(::getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &length), "SO_PEERCRED");
    if (who.uid == ::geteuid()) socket_ = std::move(peer);
  }
}

void Child::wait_for_end() {
  pollfd ended = {ended_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&ended, 1, static_cast<int>(to_seconds(deadline_) * 1000) + 1);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) fail("did not end within " + to_text(deadline_));
  const int status = kill_all();
  if (status != 0) fail(describe(status));
}

Child::~Child() {
  if (pid_ >= 0) kill_all();
}

std::string Child::ask(const std::string& line, const std::string& word) {
  const std::string answer = answer_to(line);
  if (answer == word) return "";
  if (answer.rfind(word + " ", 0) == 0) return answer.substr(word.size() + 1);
  fail("answered '" + answer + "' to '" + line + "'");
}

std::string Child::answer_to(const std::string& line) {
  if (pid_ < 0) fail("has ended");
  const Clock::time_point deadline = Clock::now() + deadline_;
  send(line + "\n");
  std::optional<std::string> answer = take_line();
  while (!answer) {
    wait_for_bytes(deadline, line);
    std::array<char, 4096> bytes{};
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(how_it_ended());
    received_.append(bytes.data(), static_cast<std::size_t>(count));
    answer = take_line();
  }
  return *answer;
}

void Child::send(const std::string& line) {
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t sent =
        ::send(socket_.get(), line.data() + at, line.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) fail("takes no more lines");
    if (sent < 0) fail(how_it_ended());
    at += static_cast<std::size_t>(sent);
  }
}

std::optional<std::string> Child::take_line() {
  const std::size_t length = received_.find('\n');
  if (length == std::string::npos) return std::nullopt;
  std::string line = received_.substr(0, length);
  received_.erase(0, length + 1);
  return line;
}

// Returns when there is something to read, or the end of it.
void Child::wait_for_bytes(Clock::time_point deadline, const std::string& line) {
  for (;;) {
    const double left = to_seconds(deadline - Clock::now());
    if (left <= 0) fail("did not answer '" + line + "' within " + to_text(deadline_));
    std::array<pollfd, 2> fds = {{{socket_.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(left * 1000) + 1);
    if (ready < 0 && errno != EINTR) cli::check(-1, "poll");
    if (fds[0].revents != 0) return;
    // What it has started may hold the socket open.
    if (fds[1].revents != 0) fail(how_it_ended());
  }
}

// For one that has closed the socket: it may be about to end.
std::string Child::how_it_ended() {
  pollfd ended = {ended_.get(), POLLIN, 0};
  ::poll(&ended, 1, kEndMilliseconds);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  const bool by_itself = info.si_pid == pid_;
  const int status = kill_all();
  return by_itself ? describe(status) : "closed its output";
}

// Ends it and what it has started, and gives the status with which it ended.
int Child::kill_all() {
  ::kill(-pid_, SIGKILL);  // its group, which is there until it has been reaped
  int status = 0;
  while (::waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

std::string Child::last_words() const {
  struct stat info {};
  cli::check(::fstat(errors_.get(), &info), "fstat");
  std::string text(kLastBytes, '\0');
  const ssize_t count = ::pread(errors_.get(), text.data(), text.size(),
                                std::max<off_t>(0, info.st_size - kLastBytes));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::string words;
  for (std::size_t i = lines.size() - std::min(lines.size(), kLastLines); i < lines.size(); ++i) {
    words += "\n  " + lines[i];
  }
  return words.empty() ? "" : "; its last words:" + words;
}

void Child::fail(const std::string& what) const {
  throw ChildError(name_ + " " + what + last_words());
}

}  // namespace kolo::bench
