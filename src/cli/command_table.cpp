#include <sstream>
#include <stdexcept>

#include "cli/bench.hpp"
#include "cli/commands.hpp"
#include "cli/doctor.hpp"
#include "cli/dump.hpp"
#include "cli/launcher.hpp"
#include "cli/run_options.hpp"
#include "cli/slurm.hpp"
#include "cli/system.hpp"

namespace kolo::cli {
namespace {

std::string help_of_program(const std::string& name) {
  const CommandResult result = run_captured({own_directory() + "/" + name, "--help"}, {}, 30);
  if (result.code != 0) throw std::runtime_error(name + " --help failed: " + result.output);
  return result.output;
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"run", "start a program on several ranks (kolorun is the same)", run_command, run_intro,
       run_option_table},
      {"doctor", "what was built in, what a machine or a job has, and what is wrong with it",
       doctor_command, doctor_intro, doctor_option_table},
      {"slurm", "write or submit a batch script, checked against the cluster", slurm_command,
       slurm_intro, slurm_option_table},
      {"bench", "measure collectives against plain MPI", bench_command, bench_intro,
       bench_option_table},
      {"checkpoint",
       "list, show, verify, compare and convert checkpoints",
       checkpoint_command,
       [] { return help_of_program("kolo-checkpoint"); },
       {}},
      {"trace",
       "merge the timelines of all ranks; tell why a job hangs",
       trace_command,
       [] { return help_of_program("kolo-trace"); },
       {}},
      {"dump", "ask the ranks of a running job what they did last", dump_command, dump_intro, {}},
  };
  return kCommands;
}

std::string help_of(const std::string& command) {
  for (const Command& known : commands()) {
    if (known.name != command) continue;
    std::ostringstream text;
    text << known.intro();
    if (known.options) text << known.options();
    return text.str();
  }
  throw std::logic_error("there is no command " + command);
}

}  // namespace kolo::cli
