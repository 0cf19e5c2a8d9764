// The operating system at the edge: descriptors, child processes, signals. Every return code is
// looked at; what cannot go on is a std::system_error that says what was tried.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/process/environment.hpp"
#include "core/fd.hpp"

namespace kolo::cli {

// Returns the value, or throws std::system_error with errno when it is -1.
int check(int value, const char* what);

struct Pipe {
  Fd read, write;
};
Pipe make_pipe();      // both ends close on exec
Pipe make_terminal();  // a pseudo terminal that changes no byte; write is the program's end.
                       // Falls back to a pipe where there is none.

// Reads once. Nothing at the end of the stream (also when the other end of a terminal is gone); an
// empty text when there is nothing now.
std::optional<std::string> read_some(int fd);

// Bytes on their way to a descriptor that may take them only slowly. write_some() is called when
// poll() says so and writes no more than then fits without blocking. A reader that has gone away is
// noticed: from then on all is dropped. After another error (a full disk) the packet is lost, and
// later ones are tried. Pending bytes are dropped by the destructor. Used by one thread.
class OutputQueue {
 public:
  explicit OutputQueue(int fd) : fd_(fd) {}
  // Packets are written by one write() each.
  void push(std::string packet);
  void write_some();
  bool is_empty() const { return packets_.empty(); }
  bool is_full() const { return bytes_ > kLimitBytes; }
  int fd() const { return fd_; }
  int error() const { return error_; }  // by which the first packet was lost; 0: none was

 private:
  void drop_first(std::size_t bytes);

  static constexpr std::size_t kLimitBytes = 1 << 20;
  const int fd_;
  std::deque<std::string> packets_;
  std::size_t bytes_ = 0;
  bool is_gone_ = false;
  int error_ = 0;
};

void change_signal_mask(int how, const sigset_t& set);  // as pthread_sigmask()

// Whether the signal was ignored when this process was started, as nohup does it with SIGHUP.
bool is_ignored(int number);

// Stops this process as Ctrl-Z does, though SIGTSTP is blocked. Returns when it is continued; at
// once in an orphaned process group, which the kernel does not stop.
void stop_this_process();

// The signal by which kolo run has kolo-rank suspend its program; SIGCONT continues it. Open MPI's
// launchers pass it on to all hosts. SIGTSTP they pass on as SIGSTOP, which would stop kolo-rank
// and not the program, which is in a process group of its own.
inline constexpr int kSuspendSignal = SIGALRM;

struct ReceivedSignal {
  int number = 0;
  pid_t sender = 0;  // 0: the kernel, or a process that cannot be seen from here
};

// Signals as events: blocked for this process, read from a descriptor.
class SignalQueue {
 public:
  explicit SignalQueue(const std::vector<int>& signals);
  int fd() const { return fd_.get(); }
  std::optional<ReceivedSignal> next();  // never waits

 private:
  Fd fd_;
};

struct ChildSpec {
  std::vector<std::string> command;  // the first is looked for on PATH
  Variables set;                     // added to the environment
  std::vector<std::string> unset;    // taken from it
  int standard_input = -1;           // -1: the parent's
  int standard_output = -1;
  int standard_error = -1;
  bool own_group = false;
  int death_signal = 0;  // sent to the child when this process dies
};

// Starts a child with all signals at their defaults. Throws std::system_error with exec's errno
// when the program cannot be started. The death signal comes when the calling thread ends. No other
// thread may change the environment meanwhile.
pid_t spawn(const ChildSpec& spec);

// A descriptor that becomes readable when the process ends; not open where the kernel has none.
Fd watch_process(pid_t pid);

// Where a shell would find a program: its path, or errno (ENOENT, EACCES, EISDIR).
struct FoundProgram {
  std::string path;
  int error = 0;
};
FoundProgram find_program(const std::string& name, const std::string& search_path);

// The whole file, or nothing where it cannot be read, or is empty.
std::optional<std::string> read_file(const std::string& name);

std::string own_directory();  // the folder of this executable
std::string host_name();
// IPv4 addresses: those that a name stands for (none: it is not known), and those of this host's
// interfaces.
std::vector<std::string> addresses_of_name(const std::string& name);
std::vector<std::string> own_addresses();
int available_cores();  // physical cores that this process may run on; at least 1
int free_port();        // a TCP port below the range that outgoing connections use

// Kills every descendant of this process, also those whose parents have died, if it is their
// reaper. Ends after two seconds at most.
void become_reaper();
void kill_descendants();

}  // namespace kolo::cli
