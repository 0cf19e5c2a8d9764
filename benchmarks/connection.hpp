// The connection of a job's rank 0 to the process that measures: see Job.
#pragma once

#include <string>

#include "core/fd.hpp"

namespace kolo::bench {

class Connection {
 public:
  // To a Unix socket in Linux's abstract space, whose address lacks its first 0. Throws
  // std::system_error.
  explicit Connection(const std::string& address);

  // Waits for a line; "end" when the other end has gone.
  std::string read_line();

  // Throws std::runtime_error if it cannot be sent.
  void answer(const std::string& line) const;

 private:
  const Fd socket_;
};

}  // namespace kolo::bench
