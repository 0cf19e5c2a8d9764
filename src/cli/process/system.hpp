// The interface to the operating system: descriptors, child processes, signals. Every return code
// is checked. A failure that cannot be handled throws std::system_error that names the call.
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

// Returns `value`. Throws std::system_error with errno if it is -1.
int check(int value, const char* what);

struct Pipe {
  Fd read, write;
};
Pipe make_pipe();      // both ends close on exec
Pipe make_terminal();  // a pseudo terminal that changes no byte; write is the program's end.
                       // Falls back to a pipe if there is no terminal.

// Reads once. Returns nothing at the end of the stream (also if the other end of a terminal is
// gone), and an empty text if no bytes are available now.
std::optional<std::string> read_some(int fd);

// Queues bytes for a descriptor that may take them only slowly. write_some() is to be called when
// poll() reports that the descriptor is writable; it writes only what fits without blocking. After
// the reader has gone away, everything is dropped. After another error (a full disk) the packet is
// lost, and later ones are tried. The destructor drops pending bytes. Used by one thread.
class OutputQueue {
 public:
  explicit OutputQueue(int fd) : fd_(fd) {}
  // A packet of at most PIPE_BUF bytes is written by one write().
  void push(std::string packet);
  void write_some();
  bool is_empty() const { return packets_.empty(); }
  bool is_full() const { return bytes_ > kLimitBytes; }
  int fd() const { return fd_; }
  int error() const { return error_; }  // of the first packet that was lost; 0: none was

 private:
  void drop_first(std::size_t bytes);

  static constexpr std::size_t kLimitBytes = 1 << 20;
  const int fd_;
  std::deque<std::string> packets_;
  std::size_t bytes_ = 0;
  bool is_gone_ = false;
  int error_ = 0;
};

void change_signal_mask(int how, const sigset_t& set);  // like pthread_sigmask()

// Whether the signal was ignored when this process was started, as it is for SIGHUP under nohup.
bool is_ignored(int number);

// Stops this process as Ctrl-Z does, although SIGTSTP is blocked. Returns when the process is
// continued, or at once in an orphaned process group, which the kernel does not stop.
void stop_this_process();

// The signal by which kolo run has kolo-rank suspend its program; SIGCONT continues the program.
// Open MPI's launchers pass it on to all hosts. They pass SIGTSTP on as SIGSTOP, which would stop
// kolo-rank but not the program, because the program has a process group of its own.
inline constexpr int kSuspendSignal = SIGALRM;

struct ReceivedSignal {
  int number = 0;
  pid_t sender = 0;  // 0: the kernel, or a process that is not visible from here
};

// Signals as events: blocked for this process, and read from a descriptor.
class SignalQueue {
 public:
  explicit SignalQueue(const std::vector<int>& signals);
  int fd() const { return fd_.get(); }
  std::optional<ReceivedSignal> next();  // never waits

 private:
  Fd fd_;
};

struct ChildSpec {
  std::vector<std::string> command;  // the first word is searched on PATH
  Variables set;                     // added to the environment
  std::vector<std::string> unset;    // removed from it
  int standard_input = -1;           // -1: the parent's
  int standard_output = -1;
  int standard_error = -1;
  bool own_group = false;
  int death_signal = 0;  // sent to the child when this process dies
};

// Starts a child with all signals at their defaults. Throws std::system_error with exec's errno if
// the program cannot be started. The death signal is sent when the calling thread ends. No other
// thread may change the environment meanwhile.
pid_t spawn(const ChildSpec& spec);

// Returns a descriptor that becomes readable when the process ends. It is not open if the kernel
// does not support that.
Fd watch_process(pid_t pid);

// A program as a shell would find it: its path, or errno (ENOENT, EACCES, EISDIR).
struct FoundProgram {
  std::string path;
  int error = 0;
};
FoundProgram find_program(const std::string& name, const std::string& search_path);

// Returns the whole file, or nothing if it is empty or cannot be read.
std::optional<std::string> read_file(const std::string& name);

std::string own_directory();  // the folder of this executable
std::string host_name();
// The IPv4 addresses of a name (none: the name is unknown), and of this host's interfaces.
std::vector<std::string> addresses_of_name(const std::string& name);
std::vector<std::string> own_addresses();
int available_cores();  // physical cores that this process may run on; at least 1
int free_port();        // a TCP port below the range that outgoing connections use

// kill_descendants() kills every descendant of this process, within two seconds at most. After
// become_reaper(), these include processes whose parents have died.
void become_reaper();
void kill_descendants();

}  // namespace kolo::cli
