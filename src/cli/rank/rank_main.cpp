// kolo-rank: the program that the launcher starts for each rank, around the user's program.
//
//   kolo-rank [--threads N] [--bind | --bound] [--cpus N] [--grace-ms MS] --master HOST:PORT --
//   PROGRAM ARGS...
//
//   kolo-rank --shield PROGRAM ARGS...     becomes the program, which does not get SIGTERM
//
// The first form exports RANK and the like, starts the program, passes signals on to it, sends its
// output line by line, and reports how it ended (packet.hpp). Then it ends in the same way, so that
// the launcher ends the job. It has one thread and one poll loop.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iostream>
#include <stdexcept>
#include <system_error>

#include "cli/process/system.hpp"
#include "cli/rank/rank_process.hpp"
#include "core/standard_streams.hpp"

namespace {

using kolo::cli::RankOptions;

long parse_number(const std::string& text) {
  const std::optional<long> value = kolo::cli::parse_integer(text);
  if (!value || *value < 0) throw std::invalid_argument("'" + text + "' is not a number");
  return *value;
}

RankOptions parse(const std::vector<std::string>& words) {
  RankOptions options;
  std::size_t i = 0;
  const auto next = [&]() -> const std::string& { return words.at(++i); };
  for (; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == "--threads") {
      options.threads = static_cast<int>(parse_number(next()));
    } else if (words[i] == "--bind") {
      options.bind = true;
    } else if (words[i] == "--cpus") {
      options.cpus = static_cast<int>(parse_number(next()));
    } else if (words[i] == "--bound") {
      options.bound = true;
    } else if (words[i] == "--grace-ms") {
      options.grace_seconds = static_cast<double>(parse_number(next())) / 1000;
    } else if (words[i] == "--master") {
      const std::string& master = next();
      const std::size_t colon = master.rfind(':');
      if (colon == std::string::npos) throw std::invalid_argument("--master wants HOST:PORT");
      options.rendezvous = {master.substr(0, colon),
                            static_cast<int>(parse_number(master.substr(colon + 1)))};
    } else {
      throw std::invalid_argument("unknown option '" + words[i] + "'");
    }
  }
  if (i + 1 >= words.size()) throw std::invalid_argument("no program given");
  options.program.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
  return options;
}

int become_shielded(char** command) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  kolo::cli::change_signal_mask(SIG_BLOCK, set);
  if (*command == nullptr) throw std::invalid_argument("--shield: no program given");
  ::execvp(*command, command);
  throw std::system_error(errno, std::generic_category(), *command);
}

}  // namespace

int main(int argc, char** argv) {
  kolo::open_standard_streams();
  try {
    if (argc > 1 && std::string(argv[1]) == "--shield") return become_shielded(argv + 2);
    return kolo::cli::run_rank(parse({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::cerr << "kolo-rank: " << error.what() << "\n";
    return 125;
  }
}
