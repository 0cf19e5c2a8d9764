// kolo-loader: the program that kolo run starts for each loader process, around the user's program.
//
//   kolo-loader [--one-host] --parent kolo-run|mpirun|srun --number I --count C --ranks G --units N
//   --spool DIR -- PROGRAM ARGS...
//
// See loader_process.hpp. --spool "" disables the spool.
#include <csignal>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/process/system.hpp"
#include "cli/rank/loader_process.hpp"
#include "core/standard_streams.hpp"

namespace {

using kolo::cli::LoaderOptions;
using kolo::cli::LoaderParent;

long parse_number(const std::string& text) {
  const std::optional<long> value = kolo::cli::parse_integer(text);
  if (!value || *value < 0) throw std::invalid_argument("'" + text + "' is not a number");
  return *value;
}

LoaderParent parse_parent(const std::string& text) {
  for (const LoaderParent parent :
       {LoaderParent::kKoloRun, LoaderParent::kMpirun, LoaderParent::kSrun}) {
    if (text == kolo::cli::name_of(parent)) return parent;
  }
  throw std::invalid_argument("--parent '" + text + "' is not known");
}

LoaderOptions parse(const std::vector<std::string>& words) {
  LoaderOptions options;
  std::size_t i = 0;
  const auto next = [&]() -> const std::string& { return words.at(++i); };
  for (; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == "--one-host") {
      options.is_one_host = true;
    } else if (words[i] == "--parent") {
      options.parent = parse_parent(next());
    } else if (words[i] == "--number") {
      options.place.number = static_cast<int>(parse_number(next()));
    } else if (words[i] == "--count") {
      options.place.count = static_cast<int>(parse_number(next()));
    } else if (words[i] == "--ranks") {
      options.place.ranks = static_cast<int>(parse_number(next()));
    } else if (words[i] == "--units") {
      options.place.units = static_cast<std::uint64_t>(parse_number(next()));
    } else if (words[i] == "--spool") {
      options.place.spool = next();
    } else {
      throw std::invalid_argument("unknown option '" + words[i] + "'");
    }
  }
  if (i + 1 >= words.size()) throw std::invalid_argument("no program given");
  options.program.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  kolo::open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return kolo::cli::run_loader(parse({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::cerr << "kolo-loader: " << error.what() << "\n";
    return 125;
  }
}
