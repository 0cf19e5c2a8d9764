#include "cli/batch/step_tasks.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <memory>
#include <system_error>

#include "cli/batch/slurm_notation.hpp"
#include "cli/usage_error.hpp"
#include "core/clock.hpp"

namespace kolo::cli {
namespace {

// Number of ports at which tasks look for task 0. All tasks derive them from the step's ID, without
// communication. Another program may use one of them.
constexpr int kPorts = 8;
constexpr double kConnectSeconds = 5;
// Seconds that task 0 waits, after the whole job, for tasks that start late.
constexpr double kLateSeconds = 20;

int port_of(const std::string& id, int attempt) {
  unsigned hash = 2166136261U;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return 20000 + static_cast<int>((hash % 10000 + static_cast<unsigned>(attempt) * 1237) % 10000);
}

std::string greeting(const std::string& id) {
  return "kolo " + id + "\n";
}

bool has_time_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const double left = to_seconds(deadline - Clock::now());
    if (left <= 0) return false;
    pollfd poll_fd{fd, events, 0};
    const int ready = ::poll(&poll_fd, 1, static_cast<int>(std::min(left, 3600.0) * 1000) + 1);
    if (ready > 0) return true;
    if (ready == -1 && errno != EINTR) return false;
  }
}

// Enables keep-alive, so that the loss of a host's power is noticed within a minute.
void keep_alive(int fd) {
  const int yes = 1;
  const int idle = 30;
  const int interval = 10;
  const int probes = 3;
  check(::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes), "setsockopt");
  check(::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle), "setsockopt");
  check(::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval), "setsockopt");
  check(::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes), "setsockopt");
}

Fd connect_to(const addrinfo& address, Clock::time_point deadline) {
  Fd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return {};
  keep_alive(fd.get());
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS || !has_time_for(fd.get(), POLLOUT, deadline)) return {};
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return {};
  return fd;
}

Fd connect_to(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  const Clock::time_point deadline = Clock::now() + seconds(kConnectSeconds);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Fd fd = connect_to(*address, deadline);
    if (fd.is_open()) return fd;
  }
  return {};
}

// Binds even if connections of an earlier kolo run in this step linger at the port.
bool bind_to(const Fd& fd, const void* address, socklen_t length) {
  const int yes = 1;
  check(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), "setsockopt");
  return ::bind(fd.get(), static_cast<const sockaddr*>(address), length) == 0;
}

// Listens at all addresses of this host. The result is not open if another program has the port.
Fd listen_at(int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  six.sin6_port = number;
  sockaddr_in four{};  // for a kernel without IPv6
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  four.sin_port = number;
  const int no = 0;
  Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  bool is_bound = false;
  if (fd.is_open() && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0) {
    is_bound = bind_to(fd, &six, sizeof six);
  } else {
    fd = Fd(check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket"));
    is_bound = bind_to(fd, &four, sizeof four);
  }
  // Two processes may be bound to a port at the same moment, but only one can listen.
  if (!is_bound || ::listen(fd.get(), SOMAXCONN) != 0) return {};
  return fd;
}

// Reads a line and drops its end. Returns nothing if the stream ends, the deadline passes, or the
// line is too long.
std::optional<std::string> read_line(int fd, std::optional<Clock::time_point> deadline) {
  std::string line;
  while (has_time_for(fd, POLLIN, deadline.value_or(Clock::now() + seconds(3600))) || !deadline) {
    char c = 0;
    const ssize_t count = ::read(fd, &c, 1);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return std::nullopt;
    if (c == '\n') return line;
    if (line.size() > 100) return std::nullopt;
    line += c;
  }
  return std::nullopt;
}

// Connects to task 0, and returns after its greeting. The result is not open if there was none
// within `patience` seconds.
Fd find_leader(const StepTask& task, double patience) {
  const Clock::time_point deadline = Clock::now() + seconds(patience);
  while (Clock::now() < deadline) {
    for (int attempt = 0; attempt < kPorts; ++attempt) {
      Fd fd = connect_to(task.first_host, port_of(task.id, attempt));
      if (!fd.is_open()) continue;
      const auto line = read_line(fd.get(), Clock::now() + seconds(kConnectSeconds));
      if (line && *line + "\n" == greeting(task.id)) return fd;
    }
    ::usleep(200'000);
  }
  return {};
}

// Whether this is a step of srun --pty, or was started from its shell, which passes the variable
// on.
bool has_terminal(const Lookup& environment) {
  return environment("SLURM_PTY_PORT").has_value();
}

}  // namespace

bool is_beside_a_terminal(const Lookup& environment) {
  return has_terminal(environment) && parse_integer(environment("SLURM_PROCID").value_or("")) > 0;
}

std::optional<StepTask> find_step_task(const Lookup& environment) {
  const auto number = [&](const char* name) {
    return parse_integer(environment(name).value_or(""));
  };
  const std::optional<std::string> nodes = environment("SLURM_STEP_NODELIST");
  const std::optional<std::string> step = environment("SLURM_STEP_ID");
  const std::optional<long> count = number("SLURM_STEP_NUM_TASKS");
  const std::optional<long> task = number("SLURM_PROCID");
  if (!nodes || !step || !count || !task || *count < 2) return std::nullopt;
  if (has_terminal(environment)) return std::nullopt;
  const std::vector<int> tasks =
      slurm_counts(environment("SLURM_STEP_TASKS_PER_NODE").value_or(""));
  if (std::any_of(tasks.begin(), tasks.end(), [](int on_node) { return on_node > 1; })) {
    throw UsageError(
        "srun has started kolo run several times on a node, and each would start all ranks; start "
        "the "
        "program itself by srun, or kolo run with --ntasks-per-node=1");
  }
  return StepTask{static_cast<int>(*task), static_cast<int>(*count),
                  environment("SLURM_JOB_ID").value_or("0") + "." + *step,
                  slurm_hosts(*nodes).front()};
}

StepLeader::StepLeader(const StepTask& task) : id_(task.id), count_(task.count) {
  for (int attempt = 0; attempt < kPorts; ++attempt) {
    listener_ = listen_at(port_of(task.id, attempt));
    if (listener_.is_open()) return;
  }
  throw std::system_error(EADDRINUSE, std::generic_category(),
                          "no TCP port for the other tasks of the step");
}

void StepLeader::greet() {
  for (;;) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open()) return;
    // A few bytes always fit into a new connection. Strangers get only this greeting, and only a
    // limited number of connections stays open.
    const std::string text = greeting(id_);
    if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) continue;
    if (static_cast<int>(others_.size()) < 4 * count_) others_.push_back(std::move(fd));
  }
}

void StepLeader::finish(int code) {
  // A task that starts late must still find this one.
  const Clock::time_point deadline = Clock::now() + seconds(kLateSeconds);
  while (static_cast<int>(others_.size()) < count_ - 1 && has_time_for(fd(), POLLIN, deadline))
    greet();
  const std::string text = std::to_string(code) + "\n";
  for (const Fd& other : others_) {
    (void)::send(other.get(), text.data(), text.size(), MSG_NOSIGNAL);  // a lost task needs no code
  }
  others_.clear();
}

int follow_leader(const StepTask& task, double patience) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    std::signal(number, SIG_IGN);
  const Fd leader = find_leader(task, patience);
  const std::string where = "task 0 of this step, on host " + task.first_host;
  if (!leader.is_open()) {
    std::cerr << "kolo run: " << where << ", cannot be reached (TCP ports " << port_of(task.id, 0)
              << " and others); check that this task runs kolo run as well, and that no firewall "
                 "separates the nodes\n";
    return 1;
  }
  const std::optional<std::string> line = read_line(leader.get(), std::nullopt);
  const std::optional<long> code = parse_integer(line.value_or(""));
  if (!code) {
    std::cerr << "kolo run: " << where << ", has died\n";
    return 1;
  }
  return static_cast<int>(*code);
}

}  // namespace kolo::cli
