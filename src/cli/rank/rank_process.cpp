#include "cli/rank/rank_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <system_error>

#include "cli/process/binding.hpp"
#include "cli/process/system.hpp"
#include "cli/rank/failure.hpp"
#include "cli/rank/leftovers.hpp"
#include "cli/rank/packet.hpp"
#include "core/clock.hpp"
#include "core/control_group.hpp"
#include "core/host.hpp"
#include "core/launched.hpp"

namespace kolo::cli {
namespace {

// After the program has ended, its output is read until its streams close. Children that it left
// behind may hold them open. Then reading stops when nothing has come for kQuietSeconds, and after
// kDrainSeconds at the latest.
constexpr double kQuietSeconds = 0.2;
constexpr double kDrainSeconds = 10.0;
// Seconds that kolo-rank stays after its program was killed, crashed, or ended (with any exit code)
// after losing a peer. The launcher ends the job as soon as kolo-rank ends. Until then the other
// ranks can notice the loss, which takes a waiting engine about a second, and report what they
// waited for. Also, the end of the lost peer, which may still be leaving exit(), reaches kolo run
// before the end of this rank.
constexpr double kStayLongSeconds = 3.0;
// The same for a program that ended with an error of its own. Often another rank's failure is the
// cause, and the other ranks are about to report it.
constexpr double kStayFailedSeconds = 0.5;
// Seconds that a rank that was asked to end waits for a launcher that takes no more bytes.
constexpr double kFlushSeconds = 0.1;

std::int64_t microseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// Makes each write() to the launcher's pipe one packet for its reader. If the kernel cannot do
// that, lines of two ranks may mix at the launcher's buffer ends; nothing else is lost.
void use_packet_mode(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode)) return;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) (void)::fcntl(fd, F_SETFL, flags | O_DIRECT);
}

class RankProcess {
 public:
  RankProcess(const RankOptions& options, const Placement& placement)
      : options_(options), placement_(placement), host_(host_name()) {
    choose_cores();
  }

  // Runs the program and returns how it ended.
  Ended run();

 private:
  struct Stream {
    PacketKind kind;
    Fd fd;
    LineSplitter lines{kPayloadBytes};
  };

  void choose_cores();
  bool start(Ended& ended);
  void step();
  int poll_timeout() const;
  void read(Stream& stream);
  void pass(PacketKind kind, std::string_view text, LineEnd end);
  void on_signal(const ReceivedSignal& signal);
  void on_child();
  void tell_to_end(int signal);
  void send(int signal);
  bool is_finished() const;
  void flush();
  void stay(double seconds_at_most);

  const RankOptions& options_;
  const Placement placement_;
  const std::string host_;
  int threads_ = 1;
  SignalQueue signals_{{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD,
                        kSuspendSignal, kLostPeerSignal}};
  Fd launcher_;
  pid_t pid_ = -1;
  Stream streams_[2] = {{PacketKind::kOutput, {}}, {PacketKind::kError, {}}};
  OutputQueue out_{STDERR_FILENO};
  std::string batch_;  // packets that go out with one write()
  bool told_ = false;
  bool lost_peer_ = false;  // as the program has reported
  bool is_suspended_ = false;
  bool has_ended_ = false;
  bool ended_told_ = false;  // had been asked to end before it ended
  int status_ = 0;
  std::int64_t ended_at_ = 0;
  std::optional<Clock::time_point> kill_at_;
  Clock::time_point quiet_at_;  // after the program's end
  Clock::time_point drain_until_;
};

// Returns the number of cores that the ranks of this node share if the launcher has bound them. It
// binds several ranks to the same cores if it binds to more than one core, such as a socket. The
// launcher itself may use all of these cores, unless it is bound as well. Returns 0 if this rank
// has cores that the launcher has not.
int cores_of_launcher(const std::vector<int>& own) {
  const std::vector<int> all = usable_cores(::getppid());
  if (!std::includes(all.begin(), all.end(), own.begin(), own.end())) return 0;
  return static_cast<int>(cores_in_order(all).size());
}

// Chooses the number of threads, and binds to cores if that is asked for. A batch system that has
// not confined its job to the CPUs that it gave does not say which CPUs they are.
void RankProcess::choose_cores() {
  const std::vector<Core> cores = usable_cores_in_order();
  long cpus = 0;
  for (const Core& core : cores) cpus += static_cast<long>(core.cpus.size());
  const bool is_confined =
      options_.cpus == 0 || cpus <= options_.cpus || cpus < ::sysconf(_SC_NPROCESSORS_ONLN);
  int in_reach = available_cores();
  int shared = options_.bound ? cores_of_launcher(usable_cores()) : in_reach;
  if (!is_confined) {
    in_reach = std::min(in_reach, options_.cpus);
    shared = std::min(shared, options_.cpus);
  }
  std::vector<int> own;
  if (options_.bind && is_confined) {
    own = share_of_cores(cores, placement_.local_rank, placement_.local_size, options_.threads);
  }
  if (!own.empty()) {
    bind_to_cpus(own);
    in_reach = available_cores();
    shared = 0;
  }
  // The launcher's daemon and its ranks are in one control group.
  threads_ = threads_per_rank({options_.threads, in_reach, shared, least_cores(cpu_quotas())},
                              placement_.local_size);
}

bool RankProcess::start(Ended& ended) {
  Pipe output = make_terminal();  // so that the program writes line by line, as under mpirun itself
  Pipe error = make_pipe();
  ChildSpec spec;
  spec.command = options_.program;
  spec.set = exported_variables(placement_, options_.rendezvous, threads_, system_environment());
  spec.set.emplace_back(kRankProcessVariable, std::to_string(::getpid()));
  // Only rank 0 has standard input. Some launchers leave the other ranks' open, where reading never
  // ends.
  const Fd nothing(check(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open(/dev/null)"));
  if (placement_.rank != 0) spec.standard_input = nothing.get();
  spec.standard_output = output.write.get();
  spec.standard_error = error.write.get();
  spec.own_group = true;
  spec.death_signal = SIGKILL;
  try {
    pid_ = spawn(spec);
  } catch (const std::system_error& failure) {
    ended.how = Ending::kNotStarted;
    ended.code = failure.code().value();
    return false;
  }
  streams_[0].fd = std::move(output.read);
  streams_[1].fd = std::move(error.read);
  const Packet packet{placement_.rank, PacketKind::kStarted, LineEnd::kNewline,
                      encode(Started{host_, pid_, microseconds_now(), machine_id()})};
  out_.push(encode(packet));
  return true;
}

void RankProcess::pass(PacketKind kind, std::string_view text, LineEnd end) {
  const std::string packet = encode(Packet{placement_.rank, kind, end, std::string(text)});
  if (batch_.size() + packet.size() > kPacketBytes) {
    out_.push(std::move(batch_));
    batch_.clear();
  }
  batch_ += packet;
}

void RankProcess::read(Stream& stream) {
  const auto sink = [&](std::string_view text, LineEnd end) { pass(stream.kind, text, end); };
  const std::optional<std::string> bytes = read_some(stream.fd.get());
  quiet_at_ = Clock::now() + seconds(kQuietSeconds);
  if (bytes) {
    stream.lines.feed(*bytes, sink);
  } else {
    stream.lines.finish(sink);
    stream.fd.reset();
  }
  out_.push(std::move(batch_));
  batch_.clear();
}

void RankProcess::tell_to_end(int signal) {
  told_ = true;
  if (has_ended_) return;
  send(signal);
  if (is_suspended_) send(SIGCONT);  // otherwise it would notice the signal too late
  if (!kill_at_) kill_at_ = Clock::now() + seconds(options_.grace_seconds);
}

// Signals the whole group, which exists until the program has been reaped.
void RankProcess::send(int signal) {
  if (has_ended_) return;
  ::kill(-pid_, signal);
  is_suspended_ = signal == SIGSTOP || (is_suspended_ && signal != SIGCONT);
}

void RankProcess::on_child() {
  int status = 0;
  const pid_t pid = ::waitpid(pid_, &status, WNOHANG);
  if (pid != pid_ || has_ended_) return;
  has_ended_ = true;
  status_ = status;
  ended_at_ = microseconds_now();
  ended_told_ = told_;
  quiet_at_ = Clock::now() + seconds(kQuietSeconds);
  drain_until_ = Clock::now() + seconds(kDrainSeconds);
  // Processes that remain after a failure or a request to end would hold devices and files.
  if (told_ || status != 0) ::kill(-pid_, SIGKILL);
}

// SIGTERM from the launcher is a request to end. A batch system also sends it, to all processes of
// a job that it will preempt. Then it means the same as to kolo run: programs that catch SIGUSR1
// save their state, others end by it.
void RankProcess::on_signal(const ReceivedSignal& signal) {
  int number = signal.number;
  if (number == SIGCHLD) {
    on_child();
    return;
  }
  if (number == kLostPeerSignal) {
    lost_peer_ = true;
    return;
  }
  if (number == SIGTERM && signal.sender != ::getppid()) number = SIGUSR1;
  if (number == kSuspendSignal) number = SIGSTOP;
  if (number == SIGUSR1 || number == SIGUSR2 || number == SIGCONT || number == SIGSTOP) {
    send(number);
    return;
  }
  tell_to_end(number);
}

int RankProcess::poll_timeout() const {
  std::optional<Clock::time_point> deadline = kill_at_;
  if (has_ended_) deadline = std::min(quiet_at_, drain_until_);
  if (!deadline) return -1;
  const double left = to_seconds(*deadline - Clock::now());
  return std::max(0, static_cast<int>(left * 1000) + 1);
}

void RankProcess::step() {
  // poll() skips a negative descriptor. While the launcher takes nothing, nothing is read.
  const auto reading = [&](const Stream& s) { return out_.is_full() ? -1 : s.fd.get(); };
  pollfd fds[] = {{signals_.fd(), POLLIN, 0},
                  {launcher_.get(), POLLIN, 0},
                  {reading(streams_[0]), POLLIN, 0},
                  {reading(streams_[1]), POLLIN, 0},
                  {out_.is_empty() ? -1 : out_.fd(), POLLOUT, 0}};
  if (::poll(fds, std::size(fds), poll_timeout()) == -1 && errno != EINTR) check(-1, "poll");
  // Looks for the program's end before other signals: a program that died by itself before its rank
  // was asked to end is the one to blame.
  if (fds[0].revents != 0) {
    on_child();
    while (const auto signal = signals_.next()) on_signal(*signal);
  }
  if (fds[1].revents != 0) {
    launcher_.reset();
    tell_to_end(SIGTERM);
  }
  if (fds[2].revents != 0) read(streams_[0]);
  if (fds[3].revents != 0) read(streams_[1]);
  if (fds[4].revents != 0) out_.write_some();
  if (kill_at_ && Clock::now() >= *kill_at_) {
    if (!has_ended_) ::kill(-pid_, SIGKILL);
    kill_at_.reset();
  }
}

bool RankProcess::is_finished() const {
  if (!has_ended_) return false;
  if (!streams_[0].fd.is_open() && !streams_[1].fd.is_open()) return true;
  if (out_.is_full()) return false;  // nothing is read meanwhile: somebody has paused the terminal
  return Clock::now() >= std::min(quiet_at_, drain_until_);
}

void RankProcess::flush() {
  for (Stream& stream : streams_) {
    stream.lines.finish([&](std::string_view text, LineEnd end) { pass(stream.kind, text, end); });
  }
  out_.push(std::move(batch_));
  std::optional<Clock::time_point> deadline;
  while (!out_.is_empty() && !(deadline && Clock::now() >= *deadline)) {
    pollfd fds[] = {{out_.fd(), POLLOUT, 0}, {signals_.fd(), POLLIN, 0}};
    if (::poll(fds, 2, deadline ? 10 : -1) == -1 && errno != EINTR) check(-1, "poll");
    if (fds[0].revents != 0) out_.write_some();
    while (const auto signal = signals_.next()) on_signal(*signal);
    if (told_ && !deadline) deadline = Clock::now() + seconds(kFlushSeconds);
  }
}

void RankProcess::stay(double seconds_at_most) {
  const Clock::time_point end = Clock::now() + seconds(seconds_at_most);
  while (!told_ && Clock::now() < end) {
    pollfd fds[] = {{signals_.fd(), POLLIN, 0}, {launcher_.get(), POLLIN, 0}};
    const double left = to_seconds(end - Clock::now());
    if (::poll(fds, 2, std::max(0, static_cast<int>(left * 1000) + 1)) == -1 && errno != EINTR)
      check(-1, "poll");
    if (fds[1].revents != 0) return;
    while (const auto signal = signals_.next()) on_signal(*signal);
  }
}

Ended RankProcess::run() {
  Ended ended;
  ended.program = options_.program.front();
  use_packet_mode(STDERR_FILENO);
  if (::getppid() != 1) launcher_ = watch_process(::getppid());
  if (start(ended)) {
    if (placement_.local_rank == 0) remove_old_flight_records(flight_records_folder());
    while (!is_finished()) step();
    const bool by_signal = WIFSIGNALED(status_);
    ended.how = by_signal ? Ending::kSignal : Ending::kExit;
    ended.code = by_signal ? WTERMSIG(status_) : WEXITSTATUS(status_);
    ended.was_told = ended_told_;
    ended.lost_peer = lost_peer_;
  } else {
    ended_at_ = microseconds_now();
  }
  ended.from = {host_, pid_, ended_at_, {}};
  pass(PacketKind::kEnded, encode(ended), LineEnd::kNewline);
  flush();
  if (ended.was_told || placement_.size == 1 || ended.how == Ending::kNotStarted) return ended;
  if (is_success(ended) && !ended.lost_peer) return ended;
  stay(ended.how == Ending::kSignal || ended.lost_peer ? kStayLongSeconds : kStayFailedSeconds);
  return ended;
}

// Ends this process by a signal, without a core file of its own.
void die_by(int number) {
  const rlimit none{0, 0};
  check(::setrlimit(RLIMIT_CORE, &none), "setrlimit");
  std::signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  ::kill(::getpid(), number);
  change_signal_mask(SIG_UNBLOCK, set);
}

}  // namespace

int run_rank(const RankOptions& options) {
  const std::optional<Placement> placement = placement_from(system_environment());
  if (!placement) {
    throw std::runtime_error(
        "no rank found in the environment (OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK, "
        "SLURM_PROCID); "
        "kolo-rank is started by 'kolo run' through mpirun");
  }
  std::signal(SIGPIPE, SIG_IGN);
  const Ended ended = RankProcess(options, *placement).run();
  if (ended.how == Ending::kSignal) die_by(ended.code);
  return exit_code(ended);
}

}  // namespace kolo::cli
