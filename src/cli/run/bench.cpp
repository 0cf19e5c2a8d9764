// `kolo bench NAME`: runs kolo-bench, which lies beside this program, under `kolo run`.
#include <boost/program_options.hpp>
#include <iostream>
#include <utility>

#include "cli/commands.hpp"
#include "cli/process/system.hpp"
#include "cli/run/bench.hpp"
#include "cli/run/run_options.hpp"
#include "cli/usage_error.hpp"

namespace po = boost::program_options;

namespace kolo::cli {
namespace {

// Returns the words for kolo run, followed by the benchmark's own.
Arguments run_arguments(const std::string& name, const Arguments& rest) {
  const po::options_description table = bench_option_table();
  Arguments words;
  for (const std::string& word : rest) words.push_back(word == "-np" ? "--np" : word);
  // Leaves the benchmark's short options alone: kolo run's are only long ones, -n and -H.
  constexpr int kStyle =
      po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  const auto parsed =
      po::command_line_parser(words).options(table).style(kStyle).allow_unregistered().run();
  po::variables_map values;
  po::store(parsed, values);
  Arguments all = {"--no-prefix"};
  for (const char* option : {"np", "host", "hostfile", "bind-to", "threads-per-rank", "mpirun"}) {
    if (values.count(option) == 0) continue;
    all.push_back("--" + std::string(option));
    all.push_back(values[option].as<std::string>());
  }
  for (const char* option : {"allow-run-as-root", "dry-run"}) {
    if (values[option].as<bool>()) all.push_back("--" + std::string(option));
  }
  all.push_back(own_directory() + "/kolo-bench");
  all.push_back(name);
  for (std::string& word : po::collect_unrecognized(parsed.options, po::include_positional)) {
    all.push_back(std::move(word));
  }
  return all;
}

}  // namespace

std::string bench_intro() {
  return "Usage: kolo bench NAME [-np N] [options] [options of the benchmark] [--json FILE]\n\n"
         "Benchmarks:\n"
         "  allocate    memory for tensors, by size and threads, beside LibTorch's own allocator\n"
         "  allreduce   allreduce of 4 B to 256 MB, beside MPI_Allreduce\n"
         "  checkpoint  saving and restoring a state, beside write(), torch::save() and\n"
         "              torch.distributed.checkpoint\n"
         "  device      on a GPU: packing a model's gradients, and the host's time for a step\n"
         "  gradients   reducing a model's gradients (--model resnet50), beside plain MPI and\n"
         "              LibTorch's own reducer\n"
         "  idle        the CPU time of a job that does nothing, in a second\n"
         "  loading     samples from files, beside LibTorch's own loader\n"
         "  negotiate   the cost of agreeing on tensors, by their number\n"
         "  operations  each operation, 4 B to 64 MB, beside plain MPI\n"
         "  optimizer   a step of a model's parameters, beside LibTorch's own optimizers\n"
         "  small       a step of a small network, beside one MPI_Allreduce of its gradients\n"
         "  train       the MNIST network, beside processes that do not communicate\n"
         "  tune        the algorithms for an allreduce over messages; writes a table\n"
         "With --python PATH allreduce, gradients and operations measure torch.distributed over\n"
         "gloo, checkpoint torch.distributed.checkpoint, loading Python's DataLoader over h5py, "
         "and\n"
         "allreduce, gradients and negotiate Horovod, if that Python has it.\n\n"
         "'kolo bench NAME --help' lists the options of a benchmark; every one has --json "
         "FILE.\n\n";
}

po::options_description bench_option_table() {
  po::options_description table("Options of kolo run that may be given here");
  auto add = table.add_options();
  add("np,n", po::value<std::string>()->default_value("2")->value_name("N"),
      "number of ranks; also -np N");
  add("host,H", po::value<std::string>()->value_name("HOST:SLOTS,..."), "hosts");
  add("hostfile", po::value<std::string>()->value_name("FILE"), "hosts from a file");
  add("bind-to", po::value<std::string>()->value_name("core|socket|numa|none"), "as of kolo run");
  add("threads-per-rank", po::value<std::string>()->value_name("T"), "threads of each rank");
  add("mpirun", po::value<std::string>()->value_name("PATH"), "the launcher");
  add("allow-run-as-root", po::bool_switch(), "allow root to start a job");
  add("dry-run", po::bool_switch(), "print the command and do nothing");
  return table;
}

int bench_command(const Arguments& arguments) {
  if (arguments.empty()) throw UsageError("no benchmark given; see kolo bench --help");
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    std::cout << help_of("bench");
    return 0;
  }
  if (arguments[0].rfind('-', 0) == 0) {
    throw UsageError(
        "kolo bench: the benchmark's name comes first, then options; see kolo bench --help");
  }
  const std::string program = own_directory() + "/kolo-bench";
  if (find_program(program, "").error != 0) {
    throw UsageError("kolo-bench is not beside kolo (" + program +
                     "); build kolo with KOLO_BUILD_BENCHMARKS=ON");
  }
  try {
    return run_command(run_arguments(arguments[0], {arguments.begin() + 1, arguments.end()}));
  } catch (const po::error& error) {
    throw UsageError(std::string("kolo bench: ") + error.what());
  }
}

}  // namespace kolo::cli
