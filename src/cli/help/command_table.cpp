#include <sstream>
#include <stdexcept>

#include "cli/commands.hpp"
#include "cli/doctor/doctor.hpp"
#include "cli/process/system.hpp"
#include "cli/run/bench.hpp"
#include "cli/run/dump.hpp"
#include "cli/run/launcher.hpp"
#include "cli/run/run_options.hpp"
#include "cli/slurm/slurm.hpp"

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
      {"run",
       "start a program on several ranks (kolorun is the same)",
       run_command,
       run_intro,
       run_option_table,
       {{"0", "every rank ended with 0"},
        {"the rank's", "a rank ended with another code"},
        {"128 + signal", "a rank was killed by a signal, or kolo run received one"},
        {"75", "the job has saved its state and asks to be started again"},
        {"124", "--timeout has passed"},
        {"126, 127", "the program is not executable, not found"},
        {"2", "a wrong option, too few slots, no launcher, root"},
        {"74", "the job succeeded, but some of its output could not be written"},
        {"1", "ranks did not report an end: a host was lost"},
        {"209", "the launcher failed before any rank or loader process started"}},
       {{"kolo run -np 4 ./train --epochs 9", "four ranks on this computer"},
        {"kolo run -np 8 -H node1:4,node2:4 ./train", "four on each of two hosts"},
        {"kolo run -np 4 --timeline trace ./train",
         "with a timeline, for kolo trace report trace"}},
       true},
      {"doctor",
       "what was built in, what a machine or a job has, and what is wrong with it",
       doctor_command,
       doctor_intro,
       doctor_option_table,
       {{"0", "nothing is wrong"}, {"1", "something is wrong"}, {"2", "a wrong option"}},
       {{"kolo doctor", "this computer"},
        {"kolo run -np 4 kolo doctor --job", "each rank's host, cores and GPU, as in a job"}}},
      {"slurm",
       "write or submit a batch script, checked against the cluster",
       slurm_command,
       slurm_intro,
       slurm_option_table,
       {{"0", "the script is written, or submitted"},
        {"2", "a wrong option, or the cluster cannot run it"},
        {"1", "Slurm failed or does not answer"}},
       {{"kolo slurm script -N 2 --ntasks-per-node 4 ./train > job.sh", "a script for two nodes"},
        {"kolo slurm submit -N 2 --gpus-per-node 8 ./train",
         "submits one with a rank for each GPU"}},
       true},
      {"bench",
       "measure kolo beside plain MPI, LibTorch and PyTorch",
       bench_command,
       bench_intro,
       bench_option_table,
       {{"0", "success: every result was correct"},
        {"2", "a wrong option, or no such benchmark"},
        {"other codes", "those of kolo run"}},
       {{"kolo bench allreduce -np 4", "beside MPI_Allreduce"},
        {"kolo bench allreduce -np 4 --json speed.json",
         "also into a file, for kolo trace report --bandwidth"}}},
      {"checkpoint",
       "list, show, verify, compare and convert checkpoints",
       checkpoint_command,
       [] { return help_of_program("kolo-checkpoint"); },
       {},
       {{"0", "success; verify: undamaged; diff: no differences"},
        {"1", "verify: something is damaged, or of a newer version; diff: something differs"},
        {"2", "a wrong command line, or a file that cannot be read or written"}},
       {{"kolo checkpoint verify runs/mnist", "all checkpoints in a folder"},
        {"kolo checkpoint convert runs/mnist/checkpoint-000000009.h5 model.pt",
         "the model as a state_dict, for Python's torch.load"}}},
      {"data",
       "show, verify and convert files with samples",
       data_command,
       [] { return help_of_program("kolo-data"); },
       {},
       {{"0", "success; verify: undamaged"},
        {"1", "verify: something is damaged"},
        {"2", "a wrong command line, or a file that cannot be read or written"}},
       {{"kolo data convert images.npy labels.npy train.h5 --gzip 4", "two arrays of NumPy's"},
        {"kolo data convert photos photos.h5", "a folder with a subfolder for each class"}}},
      {"trace",
       "report where the time goes, merge timelines, show why a job hangs",
       trace_command,
       [] { return help_of_program("kolo-trace"); },
       {},
       {{"0", "success; diagnose: no problem was found"},
        {"1", "diagnose: ranks wait for each other, were stopped, or left no record"},
        {"2", "a wrong command line, or a file that cannot be read or written"}},
       {{"kolo trace report trace", "writes trace/report.html from what kolo run --timeline wrote"},
        {"kolo trace diagnose flights", "shows where ranks diverged"}}},
      {"dump",
       "ask the ranks of a running job what they did last",
       dump_command,
       dump_intro,
       {},
       {{"0", "all ranks have written their operations"},
        {"1", "a rank does not answer, or no rank was found"},
        {"2", "a wrong command line"}},
       {{"kolo dump 4711", "the ranks of the kolo run whose process ID is 4711"}}},
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
