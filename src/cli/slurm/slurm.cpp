// `kolo slurm script|submit`: makes a batch script for a program, and checks it against the
// cluster.
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/process/system.hpp"
#include "cli/run/launcher.hpp"
#include "cli/run/run_options.hpp"
#include "cli/slurm/slurm.hpp"
#include "cli/slurm/slurm_script.hpp"
#include "cli/usage_error.hpp"

namespace po = boost::program_options;

namespace kolo::cli {
namespace {

constexpr double kPatience = 60;  // seconds that Slurm's controller may take to answer

std::string text_of(const po::variables_map& values, const char* name) {
  return values.count(name) != 0 ? values[name].as<std::string>() : std::string();
}

std::optional<long> number_of(const po::variables_map& values, const char* name) {
  return values.count(name) != 0 ? std::optional(values[name].as<long>()) : std::nullopt;
}

// Reads the options for loader processes, which are accepted only with --cpus.
std::optional<SlurmLoaders> loaders_from(const po::variables_map& values) {
  if (values.count("cpus") == 0) {
    for (const char* name : {"units", "spool", "loader-nodes", "loader-partition",
                             "loader-cpus-per-task", "loader-mem-per-cpu"}) {
      if (values.count(name) != 0) {
        throw UsageError("--" + std::string(name) +
                         " needs --cpus C, a number of loader processes");
      }
    }
    return std::nullopt;
  }
  SlurmLoaders loaders;
  loaders.count = values["cpus"].as<long>();
  loaders.partition = text_of(values, "loader-partition");
  loaders.nodes = number_of(values, "loader-nodes").value_or(1);
  loaders.cpus_per_task = number_of(values, "loader-cpus-per-task");
  loaders.memory_per_cpu = text_of(values, "loader-mem-per-cpu");
  loaders.options = {"--cpus", std::to_string(loaders.count)};
  if (const auto units = number_of(values, "units"))
    loaders.options.insert(loaders.options.end(), {"--units", std::to_string(*units)});
  if (values.count("spool") != 0)
    loaders.options.insert(loaders.options.end(), {"--spool", text_of(values, "spool")});
  Arguments run = loaders.options;
  run.emplace_back("program");
  (void)parse_run(run);  // checks them now, and not when the job has waited for its nodes
  return loaders;
}

SlurmRequest request_from(const po::variables_map& values) {
  const auto text = [&](const char* name) { return text_of(values, name); };
  const auto number = [&](const char* name) { return number_of(values, name); };
  SlurmRequest request;
  request.partition = text("partition");
  request.nodes = values["nodes"].as<long>();
  request.gpus_per_node = number("gpus-per-node");
  request.tasks_per_node = number("ntasks-per-node");
  request.cpus_per_task = number("cpus-per-task");
  request.memory = text("mem");
  request.memory_per_cpu = text("mem-per-cpu");
  request.time = text("time");
  request.job_name = text("job-name");
  request.output = text("output");
  if (values.count("sbatch") != 0) request.more = values["sbatch"].as<std::vector<std::string>>();
  request.loaders = loaders_from(values);
  return request;
}

// Finds the scripts' common part, beside this program's folder, as installed, or as built.
std::string scripts_folder(const Lookup& environment) {
  const std::string folder =
      environment("KOLO_SLURM").value_or(own_directory() + "/../share/kolo/slurm");
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(folder, error);
  if (error || !std::filesystem::exists(whole / "job.sh", error)) {
    throw UsageError("kolo's batch scripts are not in " + folder +
                     "; set KOLO_SLURM to the folder of job.sh");
  }
  return whole;
}

std::string output_of(const std::vector<std::string>& command,
                      const std::vector<std::string>& unset = {}) {
  const CommandResult result = run_captured(command, {}, kPatience, unset);
  if (result.code == 0) return result.output;
  throw std::runtime_error(command.front() + " " + command[1] +
                           (result.code == -1 ? " does not answer. "
                                              : " failed: " + std::to_string(result.code) + ". ") +
                           result.output);
}

[[noreturn]] void refuse(const std::vector<std::string>& reasons) {
  std::string text = "this cannot run:";
  for (const std::string& reason : reasons) text += "\n  " + reason;
  throw UsageError(text);
}

std::vector<SlurmPartition> check_against_cluster(const SlurmRequest& request) {
  // --all: hidden partitions can be used as well.
  auto partitions =
      slurm_partitions(output_of({"scontrol", "show", "partition", "--all", "--oneliner"}));
  const auto nodes = slurm_nodes(output_of(
      {"sinfo", "--noheader", "--all", "--Node", std::string("--format=") + kSlurmNodeFormat}));
  const std::vector<std::string> refusals = refusals_of(request, partitions, nodes);
  if (!refusals.empty()) refuse(refusals);
  return partitions;
}

// A file that the destructor removes.
class TemporaryScript {
 public:
  explicit TemporaryScript(const std::string& text) {
    const std::string folder = std::filesystem::temp_directory_path();
    name_ = folder + "/kolo-slurm-XXXXXX";
    const Fd file(::mkstemp(name_.data()));
    if (!file.is_open()) throw std::system_error(errno, std::generic_category(), name_);
    std::ofstream out(name_);
    if (!(out << text << std::flush)) throw std::runtime_error("cannot write " + name_);
  }
  ~TemporaryScript() { ::unlink(name_.c_str()); }
  TemporaryScript(const TemporaryScript&) = delete;
  TemporaryScript& operator=(const TemporaryScript&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

int run_slurm(bool submits, const SlurmRequest& request, const Lookup& environment) {
  if (request.program.empty()) throw UsageError("kolo slurm: no program given; see --help");
  const std::string folder = scripts_folder(environment);
  const std::string path = environment("PATH").value_or("/usr/bin:/bin");
  std::vector<SlurmPartition> partitions;
  try {
    partitions = check_against_cluster(request);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {  // there is no Slurm, or it does not answer
    if (submits) throw;
    std::cerr << "kolo: the script is not checked against a cluster: " << error.what() << "\n";
  }
  if (find_program(request.program.front(), path).error != 0) {
    std::cerr << "kolo: " << request.program.front()
              << " is not here; it must be on the nodes, on PATH or at that place\n";
  }
  const std::string script = slurm_script(request, folder, partitions);
  if (!submits) {
    std::cout << script;
    return 0;
  }
  const TemporaryScript file(script);  // sbatch takes a copy
  std::cout << output_of({"sbatch", file.name()}, overruling_variables(script));
  return 0;
}

}  // namespace

std::string slurm_intro() {
  return "Usage: kolo slurm script [options] program [arguments] > FILE\n"
         "       kolo slurm submit [options] program [arguments]\n\n"
         "Writes or submits a batch script that starts the program on all its ranks, and requeues "
         "it when it\nis interrupted. A job that the cluster cannot run is refused, with the "
         "reasons.\n\n";
}

po::options_description slurm_option_table() {
  po::options_description table("Options, most of them named as sbatch's");
  auto add = table.add_options();
  add("help,h", po::bool_switch(), "show this help");
  add("partition,p", po::value<std::string>()->value_name("NAME"), "default: the cluster's");
  add("nodes,N", po::value<long>()->default_value(1)->value_name("N"), "nodes");
  add("gpus-per-node", po::value<long>()->value_name("G"), "GPUs of each node");
  add("ntasks-per-node", po::value<long>()->value_name("R"),
      "ranks on each node (default: one for each GPU, otherwise 1)");
  add("cpus-per-task,c", po::value<long>()->value_name("C"), "CPUs of each rank (default: 1)");
  add("mem", po::value<std::string>()->value_name("SIZE"),
      "memory of each node: 250000 (MiB), 240G");
  add("mem-per-cpu", po::value<std::string>()->value_name("SIZE"),
      "memory of each CPU, instead of --mem");
  add("time,t", po::value<std::string>()->value_name("TIME"),
      "08:00:00, 2-00:00:00, 30 (minutes); default: the partition's");
  add("job-name,J", po::value<std::string>()->value_name("NAME"), "default: the program's");
  add("output,o", po::value<std::string>()->default_value("%x-%j.log")->value_name("FILE"),
      "the log");
  add("cpus", po::value<long>()->value_name("C"),
      "start C loader processes (see kolo run --help) in a second component of the job, which then "
      "is heterogeneous; kolo run starts the ranks");
  add("loader-nodes", po::value<long>()->value_name("N"),
      "nodes for the loader processes (default: 1)");
  add("loader-partition", po::value<std::string>()->value_name("NAME"),
      "partition for the loader processes (default: that of the ranks)");
  add("loader-cpus-per-task", po::value<long>()->value_name("T"),
      "CPUs requested per loader process; those on a node share them (default: 1)");
  add("loader-mem-per-cpu", po::value<std::string>()->value_name("SIZE"),
      "memory of each CPU of the loader processes");
  add("units", po::value<long>()->value_name("N"),
      "samples that loader processes prepare before the ranks start");
  add("spool", po::value<std::string>()->value_name("DIR"),
      "folder for prepared samples that memory does not hold");
  add("sbatch", po::value<std::vector<std::string>>()->composing()->value_name("\"OPTION\""),
      "any other option of sbatch, such as --sbatch --account=physics; may be repeated");
  return table;
}

int slurm_command(const Arguments& arguments) {
  const std::string what = arguments.empty() ? "--help" : arguments.front();
  if (what == "--help" || what == "-h") {
    std::cout << help_of("slurm");
    return arguments.empty() ? kUsageExitCode : 0;
  }
  if (what != "script" && what != "submit") {
    throw UsageError("kolo slurm " + what + ": expected script or submit; see kolo slurm --help");
  }
  CommandLine line = parse_command_line("kolo slurm", slurm_option_table(),
                                        {arguments.begin() + 1, arguments.end()});
  if (line.values["help"].as<bool>()) {
    std::cout << help_of("slurm");
    return 0;
  }
  SlurmRequest request = request_from(line.values);
  request.program = std::move(line.program);
  const std::vector<std::string> faults = faults_of(request);
  if (!faults.empty()) refuse(faults);
  return run_slurm(what == "submit", request, system_environment());
}

}  // namespace kolo::cli
