#include "cli/rank/loader_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include "cli/process/line_splitter.hpp"
#include "cli/process/system.hpp"
#include "cli/rank/failure.hpp"
#include "cli/rank/packet.hpp"
#include "core/clock.hpp"
#include "core/control_group.hpp"
#include "core/file.hpp"
#include "core/host.hpp"
#include "core/listen.hpp"

namespace kolo::cli {
namespace {

// A program that dies this many times is not started again.
constexpr int kMostStarts = 20;
constexpr double kSecondsBetweenStarts = 0.5;
constexpr std::uint64_t kLeastMemory = std::uint64_t{64} << 20U;

// Returns this loader's share of half the free memory. All loader processes may be on this host.
std::uint64_t memory_for_prepared(int loaders) {
  return std::max(kLeastMemory, available_memory() / 2 / static_cast<std::uint64_t>(loaders));
}

// Returns the names of launchers' variables, which would make MPI_Init() look for ranks that do not
// exist.
std::vector<std::string> variables_of_launchers() {
  std::vector<std::string> names;
  for (const auto& [name, value] : system_variables()) {
    for (const char* start : {"OMPI_COMM_", "PMIX_", "PMI_", "SLURM_"}) {
      if (name.rfind(start, 0) == 0) names.push_back(name);
    }
  }
  return names;
}

class LoaderProcess {
 public:
  explicit LoaderProcess(const LoaderOptions& options)
      : options_(options), mark_("[loader " + std::to_string(options.place.number) + "] ") {
    listeners_.push_back(listen_on_network(options.is_one_host, port_));
    name_ = "kolo-loader-" + std::to_string(::getpid()) + "-" + std::to_string(port_);
    listeners_.push_back(listen_on_host(name_));
  }
  ~LoaderProcess() {
    if (pid_ > 0) ::kill(-pid_, SIGKILL);
  }
  LoaderProcess(const LoaderProcess&) = delete;
  LoaderProcess& operator=(const LoaderProcess&) = delete;

  int run();

 private:
  struct Stream {
    Fd fd;
    LineSplitter lines{kPayloadBytes};
  };

  void start();
  void step();
  int poll_timeout() const;
  void read(Stream& stream);
  void show(std::string_view text);
  void say(const std::string& text) { show("kolo: " + text); }
  static void report(const std::string& line);
  void on_child(int status);
  void end_program();
  void on_signal(const ReceivedSignal& signal);
  void reap();

  const LoaderOptions& options_;
  const std::string mark_;
  std::vector<Fd> listeners_;
  int port_ = 0;
  std::string name_;
  // SIGUSR1 and SIGUSR2 are meant for the ranks, which save their state. kolo run suspends ranks by
  // kSuspendSignal.
  SignalQueue signals_{
      {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, kSuspendSignal, SIGCHLD}};
  Fd ready_;
  Stream output_;
  Stream error_;
  pid_t pid_ = -1;
  int starts_ = 0;
  bool is_told_ = false;
  bool is_ready_ = false;
  std::optional<Clock::time_point> start_at_;
  std::optional<int> code_;  // of this process, once it is to end
};

void LoaderProcess::report(const std::string& line) {
  // If kolo run has gone, nobody reads this, and standard input ends as well.
  (void)write_all(STDOUT_FILENO, "kolo-loader " + line + "\n");
}

void LoaderProcess::show(std::string_view text) {
  (void)write_all(STDERR_FILENO, mark_ + std::string(text) + "\n");
}

// Starts the program. It inherits the sockets, and the pipe by which it reports that it is ready.
void LoaderProcess::start() {
  start_at_.reset();
  ++starts_;
  Pipe output = make_pipe();
  Pipe error = make_pipe();
  Pipe ready = make_pipe();
  LoaderPlace place = options_.place;
  place.memory_bytes = memory_for_prepared(place.count);
  // A restarted program does not know where the ranks are, so it prepares nothing.
  if (starts_ > 1) place.units = 0;
  std::vector<Fd> inherited;
  const auto inherit = [&](int fd) {
    inherited.emplace_back(check(::fcntl(fd, F_DUPFD, 10), "fcntl"));
    return inherited.back().get();
  };
  place.ready = inherit(ready.write.get());
  for (const Fd& listener : listeners_) place.listeners.push_back(inherit(listener.get()));
  const Fd nothing(check(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open(/dev/null)"));
  ChildSpec spec;
  spec.command = options_.program;
  // If mpirun started this process, its variables describe a job of one rank.
  if (options_.parent != LoaderParent::kMpirun) spec.unset = variables_of_launchers();
  spec.unset.insert(spec.unset.end(), {"KOLO_TIMELINE", "KOLO_METRICS_PORT"});  // meant for ranks
  spec.set = {{kLoaderVariable, to_text(place)},
              {"RANK", std::to_string(place.ranks + place.number)},
              {"WORLD_SIZE", std::to_string(place.ranks)}};
  // Each worker computes alone.
  if (!system_environment()("OMP_NUM_THREADS")) spec.set.emplace_back("OMP_NUM_THREADS", "1");
  spec.standard_input = nothing.get();
  spec.standard_output = output.write.get();
  spec.standard_error = error.write.get();
  spec.own_group = true;
  spec.death_signal = SIGKILL;
  pid_ = spawn(spec);
  ready_ = std::move(ready.read);
  output_.fd = std::move(output.read);
  error_.fd = std::move(error.read);
}

void LoaderProcess::read(Stream& stream) {
  const auto sink = [&](std::string_view text, LineEnd end) {
    if (end != LineEnd::kBareNewline) show(text);
  };
  const std::optional<std::string> bytes = read_some(stream.fd.get());
  if (bytes) {
    stream.lines.feed(*bytes, sink);
  } else {
    stream.lines.finish(sink);
    stream.fd.reset();
  }
}

// Kills the program, which has no state to lose.
void LoaderProcess::end_program() {
  is_told_ = true;
  start_at_.reset();
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
  } else {
    code_ = 0;
  }
}

// Ends the program if the parent process asks for it. A batch system signals all processes of a job
// so that the ranks save their state, and the ranks need data until then. So other senders are
// ignored, and srun as well, because Slurm sends its signals through srun: the parent is then
// Slurm's daemon of the step.
void LoaderProcess::on_signal(const ReceivedSignal& signal) {
  const bool is_end = signal.number == SIGTERM || signal.number == SIGINT ||
                      signal.number == SIGHUP || signal.number == SIGQUIT;
  const bool is_from_parent = signal.sender == ::getppid();
  if (is_end && is_from_parent && options_.parent != LoaderParent::kSrun) end_program();
}

void LoaderProcess::reap() {
  int status = 0;
  if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) on_child(status);
}

void LoaderProcess::on_child(int status) {
  for (Stream* stream : {&output_, &error_}) {
    while (stream->fd.is_open()) {
      pollfd polled{stream->fd.get(), POLLIN, 0};
      if (::poll(&polled, 1, 0) <= 0) break;
      read(*stream);
    }
  }
  ::kill(-pid_, SIGKILL);  // kills what the program has left behind
  const std::string who = options_.program.front() + " (pid " + std::to_string(pid_) + ") ";
  pid_ = -1;
  if (is_told_) {
    code_ = 0;
    return;
  }
  const bool is_exit = WIFEXITED(status);
  Ended ended;
  ended.how = is_exit ? Ending::kExit : Ending::kSignal;
  ended.code = is_exit ? WEXITSTATUS(status) : WTERMSIG(status);
  if (is_exit && ended.code == 0) {
    say(who + "has ended and serves no training rank: it did not call kolo::delivery::open()");
    code_ = 1;
  } else if (!is_ready_) {
    say(who + how_it_ended(ended) + " before its samples were prepared");
    code_ = 1;
  } else if (starts_ == kMostStarts) {
    say(who + how_it_ended(ended) + "; it was started " + std::to_string(starts_) +
        " times and is given up");
    code_ = 1;
  } else {
    say(who + how_it_ended(ended) + "; it is started again");
    start_at_ = Clock::now() + seconds(kSecondsBetweenStarts);
  }
}

int LoaderProcess::poll_timeout() const {
  if (!start_at_) return -1;
  return std::max(0, static_cast<int>(to_seconds(*start_at_ - Clock::now()) * 1000) + 1);
}

void LoaderProcess::step() {
  pollfd fds[] = {{signals_.fd(), POLLIN, 0},
                  {is_told_ ? -1 : STDIN_FILENO, POLLIN, 0},
                  {ready_.get(), POLLIN, 0},
                  {output_.fd.get(), POLLIN, 0},
                  {error_.fd.get(), POLLIN, 0}};
  if (::poll(fds, std::size(fds), poll_timeout()) == -1 && errno != EINTR) check(-1, "poll");
  if (fds[2].revents != 0) {
    if (const auto bytes = read_some(ready_.get()); bytes && !bytes->empty() && !is_ready_) {
      is_ready_ = true;
      report("ready");
    }
    ready_.reset();
  }
  if (fds[3].revents != 0) read(output_);
  if (fds[4].revents != 0) read(error_);
  if (fds[0].revents != 0) {
    while (const auto signal = signals_.next()) on_signal(*signal);
    reap();
  }
  // kolo run holds the other end open until the job has ended.
  if (fds[1].revents != 0 && !read_some(STDIN_FILENO)) end_program();
  if (start_at_ && Clock::now() >= *start_at_) start();
}

int LoaderProcess::run() {
  const std::string machine = machine_id();
  report("address " + std::to_string(port_) + " " + (machine.empty() ? "-" : machine) + " " +
         name_);
  start();
  while (!code_) step();
  return *code_;
}

}  // namespace

const char* name_of(LoaderParent parent) {
  switch (parent) {
    case LoaderParent::kMpirun:
      return "mpirun";
    case LoaderParent::kSrun:
      return "srun";
    case LoaderParent::kKoloRun:
      break;
  }
  return "kolo-run";
}

int run_loader(const LoaderOptions& options) {
  return LoaderProcess(options).run();
}

}  // namespace kolo::cli
