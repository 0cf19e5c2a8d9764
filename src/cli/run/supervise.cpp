#include "cli/run/supervise.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "cli/commands.hpp"
#include "cli/process/system.hpp"
#include "cli/run/blame.hpp"
#include "core/ranks.hpp"
#include "kolo/exit_code.h"

namespace kolo::cli {
namespace {

constexpr double kEndSeconds = 8.0;    // from the first signal until everything is killed
constexpr double kDrainSeconds = 0.5;  // for the output of a launcher that has ended
// Seconds that the launcher has to end the job by itself after a rank has failed. MPICH's launcher
// lets the other ranks go on.
constexpr double kLauncherSeconds = 3.0;
// Seconds that Ctrl-Z waits for ranks that are being started.
constexpr double kStartSeconds = 5.0;

std::vector<int> signals_to_take() {
  std::vector<int> all = {SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD};
  if (!is_ignored(SIGHUP)) all.push_back(SIGHUP);    // nohup keeps its effect
  if (!is_ignored(SIGTSTP)) all.push_back(SIGTSTP);  // a shell without job control ignores it
  return all;
}

class Supervisor {
 public:
  Supervisor(const LaunchPlan& plan, const JobOptions& options)
      : plan_(plan), options_(options), output_(options.output, plan.size) {}
  // Kills what is left of the job.
  ~Supervisor() {
    if (started_ && !clean_end_) kill_descendants();
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  JobEnd run();

 private:
  void start();
  void step();
  int poll_timeout() const;
  bool wants_terminal_input() const;
  void read_terminal();
  void read_launcher();
  void on_signal(int number);
  void reap();
  void check_host_names();
  void check_deadlines();
  void end_job();
  void ask_to_stop();
  bool all_have_started() const;
  void suspend();
  void resume();
  void finish_output();
  bool is_over() const;
  int conclude();

  const LaunchPlan& plan_;
  const JobOptions options_;
  SignalQueue signals_{signals_to_take()};
  JobOutput output_;
  Pipe input_;  // the terminal's input on its way to the launcher
  std::optional<OutputQueue> input_queue_;
  Fd launcher_error_;
  pid_t launcher_ = -1;
  bool started_ = false;
  bool clean_end_ = false;
  std::optional<int> status_;   // of the launcher, once it has ended
  int stopped_by_ = 0;          // the signal that kolo run has received; 0: none
  bool failed_before_ = false;  // a rank had failed by itself before that signal
  bool timed_out_ = false;
  bool names_are_checked_ = false;
  std::string refusal_;         // why such a job cannot work; empty: it can
  bool asked_to_save_ = false;  // by SIGUSR1, which ends ranks that do not catch it yet
  bool ending_ = false;         // the launcher was asked to end the job
  std::optional<Clock::time_point> suspend_by_;    // Ctrl-Z came while the ranks were being started
  std::optional<Clock::time_point> suspended_at_;  // the ranks have been stopped since then
  std::optional<Clock::time_point> failed_at_, timeout_at_, end_at_, stop_at_, kill_at_;
  Clock::time_point drain_until_;
};

void Supervisor::start() {
  std::signal(SIGPIPE, SIG_IGN);
  become_reaper();
  Pipe error = make_pipe();
  ChildSpec spec;
  spec.command = plan_.command;
  spec.set = plan_.set;
  spec.unset = plan_.unset;
  spec.standard_error = error.write.get();
  // Ranks write only to standard error, so this is the launcher's own output: banners, for some.
  spec.standard_output = error.write.get();
  // Ctrl-C must reach the launcher once, through kolo run, and not through the terminal as well:
  // after a second SIGINT it leaves its ranks behind. In a group of its own it cannot read the
  // terminal.
  spec.own_group = true;
  spec.death_signal = SIGTERM;
  if (::isatty(STDIN_FILENO) == 1) {
    input_ = make_pipe();
    input_queue_.emplace(input_.write.get());
    spec.standard_input = input_.read.get();
  }
  launcher_ = spawn(spec);
  started_ = true;
  input_.read.reset();
  launcher_error_ = std::move(error.read);
  if (options_.timeout_seconds > 0) timeout_at_ = Clock::now() + seconds(options_.timeout_seconds);
}

// Reading a terminal from the background would stop this process.
bool Supervisor::wants_terminal_input() const {
  return input_.write.is_open() && input_queue_->is_empty() &&
         ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

void Supervisor::read_terminal() {
  const std::optional<std::string> bytes = read_some(STDIN_FILENO);
  if (bytes) {
    input_queue_->push(*bytes);
  } else {
    input_.write.reset();
  }
}

void Supervisor::read_launcher() {
  const std::optional<std::string> bytes = read_some(launcher_error_.get());
  if (!bytes) {
    launcher_error_.reset();
    return;
  }
  if (status_) drain_until_ = Clock::now() + seconds(kDrainSeconds);
  output_.feed(*bytes);
  check_host_names();
  // The launcher should end the job now. If it does not, it is asked to, and finally killed.
  if (output_.has_failure() && !failed_at_) {
    failed_at_ = Clock::now();
    end_at_ = *failed_at_ + seconds(kLauncherSeconds);
  }
}

// Refuses hosts of one name as soon as all ranks have reported their hosts: in MPI_Init they would
// hang.
void Supervisor::check_host_names() {
  if (names_are_checked_ || !all_have_started()) return;
  names_are_checked_ = true;
  refusal_ = hosts_of_one_name(output_.record().started);
  if (!refusal_.empty() && !ending_) end_job();
}

void Supervisor::end_job() {
  ending_ = true;
  if (!status_) ::kill(launcher_, SIGTERM);
  kill_at_ = Clock::now() + seconds(kEndSeconds);
}

// Asks the ranks to save and end. After SIGTERM, a launcher kills its ranks within a moment. It
// passes SIGUSR1 on: programs that catch it save their state and end, others end by it.
void Supervisor::ask_to_stop() {
  if (!status_) ::kill(launcher_, SIGUSR1);
  stop_at_ = Clock::now() + seconds(options_.stop_seconds);
}

bool Supervisor::all_have_started() const {
  return output_.record().started.size() >= static_cast<std::size_t>(plan_.size);
}

// Suspends the job and this process. The terminal's Ctrl-Z reaches only this process, because
// launcher and ranks are in groups of their own. A job that is being ended goes on ending. Ranks
// that are not ready for the signal yet would die by it.
void Supervisor::suspend() {
  suspend_by_.reset();
  if (plan_.can_suspend && all_have_started() && !status_ && !ending_ && !suspended_at_) {
    ::kill(launcher_, kSuspendSignal);
    suspended_at_ = Clock::now();
  }
  stop_this_process();
}

// Continues the job. The time during which the ranks were stopped does not count.
void Supervisor::resume() {
  if (!suspended_at_) return;
  if (!status_) ::kill(launcher_, SIGCONT);
  const Clock::duration pause = Clock::now() - *suspended_at_;
  suspended_at_.reset();
  for (auto* deadline : {&timeout_at_, &end_at_, &stop_at_}) {
    if (*deadline) **deadline += pause;
  }
}

void Supervisor::on_signal(int number) {
  if (number == SIGCHLD) {
    reap();
  } else if (number == SIGUSR1 || number == SIGUSR2) {
    if (number == SIGUSR1) asked_to_save_ = true;
    if (!status_) ::kill(launcher_, number);
  } else if (number == SIGTSTP) {
    suspend_by_ = Clock::now() + seconds(kStartSeconds);
  } else if (number == SIGCONT) {
    resume();  // also wakes the loop: a terminal may be readable again
  } else if (stopped_by_ == 0) {
    resume();  // so that the ranks can end
    stopped_by_ = number;
    failed_before_ = output_.has_failure();
    if (ending_) return;
    if (number == SIGTERM && options_.stop_seconds > 0) {
      ask_to_stop();
    } else {
      end_job();
    }
  } else {
    kill_at_ = Clock::now();  // second request
  }
}

void Supervisor::reap() {
  // Orphans of the job are this process's children, too.
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    if (pid != launcher_) continue;
    status_ = status;
    drain_until_ = Clock::now() + seconds(kDrainSeconds);
  }
}

void Supervisor::check_deadlines() {
  const Clock::time_point now = Clock::now();
  const auto passed = [&](std::optional<Clock::time_point>& deadline) {
    const bool is_passed = deadline && now >= *deadline;
    if (is_passed) deadline.reset();
    return is_passed;
  };
  if (!suspended_at_) {
    if (passed(timeout_at_) && !ending_ && !status_) {
      timed_out_ = true;
      end_job();
    }
    if (passed(end_at_) && !ending_ && !status_) end_job();
    if (passed(stop_at_) && !ending_ && !status_) {
      output_.say("the job did not stop by itself; it is ended");
      end_job();
    }
  }
  if (passed(kill_at_)) {
    output_.say("the job did not end when asked to; it is killed");
    kill_descendants();
    reap();
    if (!status_) status_ = SIGKILL;  // kill_descendants() has reaped the launcher
    drain_until_ = now;
  }
  if (suspend_by_ && (all_have_started() || status_ || now >= *suspend_by_)) suspend();
  output_.show_launcher_text(false);
}

int Supervisor::poll_timeout() const {
  std::optional<Clock::time_point> first = output_.next_deadline();
  const auto consider = [&](const std::optional<Clock::time_point>& deadline) {
    if (deadline && (!first || *deadline < *first)) first = deadline;
  };
  consider(kill_at_);
  consider(suspend_by_);
  if (!suspended_at_) {
    for (const auto& deadline : {timeout_at_, end_at_, stop_at_}) consider(deadline);
  }
  if (status_ && (!first || drain_until_ < *first)) first = drain_until_;
  if (!first) return -1;
  const double left = std::min(to_seconds(*first - Clock::now()), 86400.0);
  return std::max(0, static_cast<int>(left * 1000) + 1);
}

void Supervisor::step() {
  const bool has_input = input_.write.is_open() && !input_queue_->is_empty();
  OutputQueue& out = output_.out;
  OutputQueue& err = output_.err;
  pollfd fds[] = {{signals_.fd(), POLLIN, 0},
                  {output_.is_full() ? -1 : launcher_error_.get(), POLLIN, 0},
                  {out.is_empty() ? -1 : out.fd(), POLLOUT, 0},
                  {err.is_empty() ? -1 : err.fd(), POLLOUT, 0},
                  {wants_terminal_input() ? STDIN_FILENO : -1, POLLIN, 0},
                  {has_input ? input_queue_->fd() : -1, POLLOUT, 0},
                  {options_.leader != nullptr ? options_.leader->fd() : -1, POLLIN, 0}};
  if (::poll(fds, std::size(fds), poll_timeout()) == -1 && errno != EINTR) check(-1, "poll");
  if (fds[0].revents != 0) {
    while (const auto signal = signals_.next()) on_signal(signal->number);
  }
  if (fds[1].revents != 0) read_launcher();
  if (fds[2].revents != 0) {
    out.write_some();
    output_.tell_of_lost_output();
  }
  if (fds[3].revents != 0) err.write_some();
  if (fds[4].revents != 0) read_terminal();
  if (fds[5].revents != 0) input_queue_->write_some();
  if (fds[6].revents != 0) options_.leader->greet();
  check_deadlines();
}

// Waits until all is shown, its reader has gone away, or another signal comes.
void Supervisor::finish_output() {
  for (OutputQueue* queue : {&output_.out, &output_.err}) {
    while (!queue->is_empty()) {
      pollfd fds[] = {{queue->fd(), POLLOUT, 0}, {signals_.fd(), POLLIN, 0}};
      if (::poll(fds, 2, -1) == -1 && errno != EINTR) check(-1, "poll");
      if (fds[0].revents != 0) {
        queue->write_some();
        output_.tell_of_lost_output();  // on standard error, which comes second
      }
      const std::optional<ReceivedSignal> signal = signals_.next();
      if (signal && signal->number == SIGTSTP) {
        stop_this_process();
      } else if (signal && signal->number != SIGCHLD && signal->number != SIGCONT) {
        return;
      }
    }
  }
}

int Supervisor::conclude() {
  output_.finish();
  const int launcher_code =
      WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_) : WEXITSTATUS(*status_);
  if (!refusal_.empty() && stopped_by_ == 0) {
    output_.say(refusal_ +
                "; MPI distinguishes hosts by this name, and would wait forever. Give each " +
                "host a name of its own (hostnamectl set-hostname NAME)");
    return kUsageExitCode;
  }
  const std::optional<Verdict> cause = verdict(output_.record());
  if (!timed_out_ && cause && cause->exit_code == kRequeueExitCode) {
    output_.say("the job has saved its state and asks to be started again (exit code " +
                std::to_string(kRequeueExitCode) + ")");
    return kRequeueExitCode;
  }
  if (timed_out_ || (stopped_by_ != 0 && !(failed_before_ && cause))) {
    const std::string why = timed_out_ ? "the time limit of --timeout has passed"
                                       : "received " + signal_name(stopped_by_);
    output_.say(why + "; the job was ended");
    return timed_out_ ? kTimeoutExitCode : 128 + stopped_by_;
  }
  if (cause) {
    output_.say(cause->sentence + "; the job was ended");
    return cause->exit_code.value_or(launcher_code == 0 ? 1 : launcher_code);
  }
  if (launcher_code != 0) {
    const bool is_started = !output_.record().started.empty();
    output_.show_withheld();
    output_.say(plan_.command.front() + " ended with exit code " + std::to_string(launcher_code) +
                (is_started ? "; no rank reported a failure" : " before any rank started"));
    if (!is_started) return kNotStartedExitCode;
  }
  const std::vector<int> missing = ranks_unheard_of(output_.record(), plan_.size);
  clean_end_ = launcher_code == 0 && missing.empty();
  if (launcher_code != 0 || missing.empty()) return launcher_code;
  // Open MPI 5 ends like this if the daemon of another host was killed.
  output_.show_withheld();
  output_.say(plan_.command.front() + " ended with exit code 0, but " + rank_list(missing) +
              " did not report an end: a host, or the launcher's daemon there, was lost");
  return kLostExitCode;
}

bool Supervisor::is_over() const {
  if (!status_) return false;
  if (!launcher_error_.is_open()) return true;
  if (stopped_by_ != 0 && Clock::now() >= drain_until_) return true;
  // While nothing is read because nothing can be shown, the contents of the pipe are not lost.
  return Clock::now() >= drain_until_ && !output_.is_full();
}

JobEnd Supervisor::run() {
  start();
  while (!is_over()) step();
  const int code = conclude();
  finish_output();
  const bool was_stopped = stopped_by_ != 0 || timed_out_ || asked_to_save_ || !refusal_.empty();
  return {code, was_stopped, output_.lost_output()};
}

}  // namespace

JobEnd supervise(const LaunchPlan& plan, const JobOptions& options) {
  return Supervisor(plan, options).run();
}

bool is_asked_to_stop() {
  sigset_t pending;
  check(::sigpending(&pending), "sigpending");
  for (const int number : {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1}) {
    if (::sigismember(&pending, number) == 1) return true;
  }
  return false;
}

}  // namespace kolo::cli
