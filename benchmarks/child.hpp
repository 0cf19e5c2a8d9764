// A child process that answers lines with lines.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/process/system.hpp"
#include "core/clock.hpp"

namespace kolo::bench {

// It could not be started, ended, or did not answer in time. what() names it and has the last lines
// of its standard error.
class ChildError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How lines go to the child and come back: by its standard input and output; or by a connection
// that it makes, for it is a launcher whose processes have neither.
enum class Talk : std::uint8_t { kStandardStreams, kConnection };

// What it writes to its standard error (and output, with a connection) is kept for messages. It is
// killed, with what it has started, by the destructor; and when the thread that made it ends, in
// whatever way. Used by one thread.
class Child {
 public:
  // `name` is for messages. No wait for an answer is longer than deadline_seconds. Inherits
  // descriptors that do not close on exec. With kConnection the command is given one more word: the
  // address of a Unix socket in Linux's abstract space, without its first 0. Throws ChildError.
  Child(std::string name, std::vector<std::string> command, double deadline_seconds,
        Talk talk = Talk::kStandardStreams);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sends a line, without its newline, and waits for the answer, which must begin with `word`.
  // Returns what follows the word. Throws ChildError, after which the child is of no use.
  std::string ask(const std::string& line, const std::string& word);

  pid_t pid() const { return pid_; }

  // Waits for the end that it has been asked for. Throws ChildError, also if it ends with a
  // failure.
  void wait_for_end();

 private:
  void start(const cli::ChildSpec& spec);
  void accept_from(const Fd& listener);
  std::string answer_to(const std::string& line);
  void send(const std::string& line);
  std::optional<std::string> take_line();
  void wait_for_bytes(Clock::time_point deadline, const std::string& line);
  std::string how_it_ended();
  int kill_all();
  std::string last_words() const;
  [[noreturn]] void fail(const std::string& what) const;

  const std::string name_;
  const Clock::duration deadline_;
  Fd socket_;
  Fd errors_;       // a file without a name
  Fd ended_;        // readable when the child has ended
  pid_t pid_ = -1;  // until it is known how it ended
  std::string received_;
};

}  // namespace kolo::bench
