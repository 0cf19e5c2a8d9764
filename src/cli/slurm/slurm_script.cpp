#include "cli/slurm/slurm_script.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <sstream>

#include "cli/run/launch_plan.hpp"

namespace kolo::cli {
namespace {

constexpr std::int64_t kUsualNotice = 300;  // seconds before the time limit

using Texts = std::vector<std::string>;

std::string counted(long count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string names_of(const std::vector<SlurmPartition>& partitions) {
  std::string names;
  for (const SlurmPartition& partition : partitions) {
    names += (names.empty() ? "" : ", ") + partition.name;
  }
  return names;
}

long cpus_of(const SlurmRequest& request) {
  return tasks_per_node(request) * request.cpus_per_task.value_or(1);
}

std::int64_t mebibytes_of(const SlurmRequest& request) {
  if (!request.memory.empty()) return slurm_mebibytes(request.memory).value_or(0);
  return slurm_mebibytes(request.memory_per_cpu).value_or(0) * cpus_of(request);
}

// Compares one quantity of a node: the request, the most that a node of the partition has, and the
// most that the partition gives to jobs.
void compare(const char* what, std::int64_t wanted, std::int64_t most,
             const std::optional<long>& given, const std::string& partition, Texts& refusals) {
  if (given && *given < most && wanted > *given) {
    refusals.push_back(std::to_string(wanted) + " " + what + " a node, but partition " + partition +
                       " gives " + std::to_string(*given) + " at most");
  } else if (wanted > most) {
    refusals.push_back(std::to_string(wanted) + " " + what +
                       " a node, but the nodes of partition " + partition + " have " +
                       std::to_string(most) + " at most");
  }
}

void compare_nodes(const SlurmRequest& request, const SlurmPartition& limits,
                   const std::vector<SlurmNode>& all, Texts& refusals) {
  const std::string& partition = limits.name;
  std::vector<SlurmNode> nodes;
  for (const SlurmNode& node : all) {
    if (node.partition == partition) nodes.push_back(node);
  }
  const long cpus = cpus_of(request);
  const std::int64_t memory = mebibytes_of(request);
  const long gpus = request.gpus_per_node.value_or(0);
  SlurmNode best;
  long fitting = 0;
  for (const SlurmNode& node : nodes) {
    best.cpus = std::max(best.cpus, node.cpus);
    best.memory_mebibytes = std::max(best.memory_mebibytes, node.memory_mebibytes);
    best.gpus = std::max(best.gpus, node.gpus);
    if (node.cpus >= cpus && node.memory_mebibytes >= memory && node.gpus >= gpus) ++fitting;
  }
  const std::size_t before = refusals.size();
  compare("CPUs", cpus, best.cpus, limits.most_cpus_per_node, partition, refusals);
  compare("MiB of memory", memory, best.memory_mebibytes, limits.most_mebibytes_per_node, partition,
          refusals);
  compare("GPUs", gpus, best.gpus, std::nullopt, partition, refusals);
  if (refusals.size() == before && fitting < request.nodes) {
    refusals.push_back(
        counted(request.nodes, "node") + ", but partition " + partition + " has " +
        (fitting == static_cast<long>(nodes.size())
             ? std::to_string(fitting)
             : std::to_string(fitting) + " that have all that the job requests of a node"));
  }
}

Texts refusals_of_partition(const SlurmRequest& request, const SlurmPartition& partition,
                            const std::vector<SlurmNode>& nodes) {
  Texts refusals;
  if (!partition.is_up) refusals.push_back("partition " + partition.name + " is not up");
  const std::optional<std::int64_t> seconds = slurm_seconds(request.time);
  if (seconds && partition.most_seconds && *seconds > *partition.most_seconds) {
    refusals.push_back("--time " + request.time + ", but partition " + partition.name + " allows " +
                       std::to_string(*partition.most_seconds / 60) + " minutes at most");
  }
  if (partition.most_nodes && request.nodes > *partition.most_nodes) {
    refusals.push_back(counted(request.nodes, "node") + ", but a job of partition " +
                       partition.name + " has " + std::to_string(*partition.most_nodes) +
                       " at most");
  }
  if (request.nodes < partition.least_nodes) {
    refusals.push_back(counted(request.nodes, "node") + ", but a job of partition " +
                       partition.name + " has " + std::to_string(partition.least_nodes) +
                       " at least");
  }
  compare_nodes(request, partition, nodes, refusals);
  return refusals;
}

// Returns the component of the loader processes as a request of its own.
SlurmRequest request_of(const SlurmLoaders& loaders, const SlurmRequest& ranks) {
  SlurmRequest request;
  request.partition = loaders.partition.empty() ? ranks.partition : loaders.partition;
  request.nodes = loaders.nodes;
  request.tasks_per_node = (loaders.count + loaders.nodes - 1) / std::max(1L, loaders.nodes);
  request.cpus_per_task = loaders.cpus_per_task;
  request.time = ranks.time;
  // sbatch carries --mem over to the next component, where it excludes --mem-per-cpu. So with
  // --mem, the loaders' memory is given for each node as well.
  const std::string per_cpu =
      loaders.memory_per_cpu.empty() ? ranks.memory_per_cpu : loaders.memory_per_cpu;
  if (ranks.memory.empty()) {
    request.memory_per_cpu = per_cpu;
  } else {
    request.memory = std::to_string(slurm_mebibytes(per_cpu).value_or(0) * cpus_of(request));
  }
  return request;
}

Texts partitions_of(const SlurmRequest& request) {
  Texts names;
  std::istringstream words(request.partition);
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  if (names.empty()) names.emplace_back();  // the cluster's default
  return names;
}

// Returns null for an unknown name. "": the cluster's default.
const SlurmPartition* find_partition(const std::vector<SlurmPartition>& partitions,
                                     const std::string& name) {
  const auto is_it = [&](const SlurmPartition& partition) {
    return name.empty() ? partition.is_default : partition.name == name;
  };
  const auto found = std::find_if(partitions.begin(), partitions.end(), is_it);
  return found == partitions.end() ? nullptr : &*found;
}

// Returns how long the job may run; of several partitions, the shortest. Returns nothing if that is
// unknown.
std::optional<std::int64_t> seconds_of(const SlurmRequest& request,
                                       const std::vector<SlurmPartition>& partitions) {
  if (!request.time.empty()) return slurm_seconds(request.time);
  std::optional<std::int64_t> least;
  for (const std::string& name : partitions_of(request)) {
    const SlurmPartition* const found = find_partition(partitions, name);
    if (found == nullptr) continue;
    const std::int64_t most = found->most_seconds.value_or(kUnlimitedSeconds);
    const std::int64_t seconds = std::min(most, found->usual_seconds.value_or(most));
    least = std::min(seconds, least.value_or(seconds));
  }
  return least;
}

// Returns the seconds of notice: a job of four hours has five minutes to save its state, a job of
// ten minutes has two.
std::int64_t notice_of(const SlurmRequest& request, const std::vector<SlurmPartition>& partitions) {
  const std::optional<std::int64_t> seconds = seconds_of(request, partitions);
  return seconds ? std::min(kUsualNotice, *seconds / 5) : kUsualNotice;
}

// Returns why no nodes of a cluster can run a component.
Texts refusals_of_component(const SlurmRequest& request,
                            const std::vector<SlurmPartition>& partitions,
                            const std::vector<SlurmNode>& nodes) {
  Texts all;
  // If several partitions are given, Slurm takes one of them.
  for (const std::string& name : partitions_of(request)) {
    const SlurmPartition* const found = find_partition(partitions, name);
    if (found == nullptr) {
      return {(name.empty() ? "no --partition is given, and the cluster has no default; it has "
                            : "there is no partition " + name + "; the cluster has ") +
              names_of(partitions)};
    }
    const Texts refusals = refusals_of_partition(request, *found, nodes);
    if (refusals.empty()) return {};
    all.insert(all.end(), refusals.begin(), refusals.end());
  }
  return all;
}

// Quotes a word for a line of #SBATCH, where a # would begin a comment.
std::string sbatch_quoted(const std::string& word) {
  if (!word.empty() && shell_quoted(word) == word) return word;
  std::string quoted = "\"";
  for (const char c : word)
    quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "\"";
}

void add_range_fault(const char* option, std::optional<long> value, long least, Texts& faults) {
  if (!value || (*value >= least && *value <= 1'000'000)) return;
  faults.push_back(std::string(option) + " " + std::to_string(*value) + ": must be from " +
                   std::to_string(least) + " to 1000000");
}

// Whether --sbatch gives an option that begins with this text.
bool is_given(const SlurmRequest& request, const std::string& option) {
  return std::any_of(request.more.begin(), request.more.end(),
                     [&](const std::string& more) { return more.rfind(option, 0) == 0; });
}

void add_loader_faults(const SlurmRequest& request, const SlurmLoaders& loaders, Texts& faults) {
  add_range_fault("--cpus", loaders.count, 1, faults);
  add_range_fault("--loader-nodes", loaders.nodes, 1, faults);
  add_range_fault("--loader-cpus-per-task", loaders.cpus_per_task, 1, faults);
  const std::string& size = loaders.memory_per_cpu;
  if (!size.empty() && !slurm_mebibytes(size))
    faults.push_back("--loader-mem-per-cpu " + size +
                     ": is not a size; expected 2000 (MiB) or 2G, for example");
  if (!request.memory.empty() && size.empty()) {
    faults.emplace_back(
        "--mem is the memory of a node of ranks; add --loader-mem-per-cpu, or give --mem-per-cpu "
        "for both");
  }
  if (is_given(request, "--mem"))
    faults.emplace_back("--sbatch --mem: with --cpus give --mem or --mem-per-cpu without --sbatch");
  const bool has_time =
      !request.time.empty() || is_given(request, "--time") || is_given(request, "-t");
  if (!has_time && !loaders.partition.empty() && loaders.partition != request.partition) {
    faults.emplace_back(
        "--loader-partition needs --time, because the partitions may have different default "
        "limits and the whole job ends at the shorter one");
  }
  if (loaders.count < loaders.nodes) {
    faults.push_back("--loader-nodes " + std::to_string(loaders.nodes) + " is more than --cpus " +
                     std::to_string(loaders.count) + ": a loader process runs on one node");
  }
}

}  // namespace

long tasks_per_node(const SlurmRequest& request) {
  return request.tasks_per_node.value_or(std::max(1L, request.gpus_per_node.value_or(1)));
}

Texts faults_of(const SlurmRequest& request) {
  Texts faults;
  add_range_fault("--nodes", request.nodes, 1, faults);
  add_range_fault("--gpus-per-node", request.gpus_per_node, 0, faults);
  add_range_fault("--ntasks-per-node", request.tasks_per_node, 1, faults);
  add_range_fault("--cpus-per-task", request.cpus_per_task, 1, faults);
  if (!request.memory.empty() && !request.memory_per_cpu.empty()) {
    faults.emplace_back(
        "--mem and --mem-per-cpu exclude each other: give the memory of a node, or of a CPU");
  }
  for (const auto& [option, value] :
       {std::pair("--mem", request.memory), std::pair("--mem-per-cpu", request.memory_per_cpu)}) {
    if (value.empty() || slurm_mebibytes(value)) continue;
    faults.push_back(std::string(option) + " " + value +
                     ": is not a size; expected 250000 (MiB) or 16G, for example");
  }
  if (request.loaders) add_loader_faults(request, *request.loaders, faults);
  if (!request.time.empty() && !slurm_seconds(request.time)) {
    faults.push_back("--time " + request.time +
                     ": is not a time; expected 08:00:00, 2-00:00:00 or 30 (minutes), for example");
  }
  const auto has_line_end = [](const std::string& text) {
    return text.find('\n') != std::string::npos;
  };
  const auto begins_component = [](const std::string& option) {
    std::istringstream words(option);
    std::string word;
    return words >> word && (word == "hetjob" || word == "packjob" || word == ":");
  };
  if (std::any_of(request.more.begin(), request.more.end(), begins_component)) {
    faults.emplace_back(
        "--sbatch hetjob: job.sh starts ranks on the first component alone, and --cpus writes that "
        "of the loader processes; for ranks on several components write a script with srun "
        "--het-group=0-1 --mpi=pmix PROGRAM");
  }
  Texts lines = request.more;
  lines.insert(lines.end(), {request.partition, request.job_name, request.output});
  if (request.loaders) lines.push_back(request.loaders->partition);
  if (!request.program.empty())
    lines.push_back(request.program.front());  // may become the job's name
  if (std::any_of(lines.begin(), lines.end(), has_line_end)) {
    faults.emplace_back("an option contains a line break; give it on one line");
  }
  return faults;
}

Texts refusals_of(const SlurmRequest& request, const std::vector<SlurmPartition>& partitions,
                  const std::vector<SlurmNode>& nodes) {
  Texts all = refusals_of_component(request, partitions, nodes);
  if (!request.loaders) return all;
  for (const std::string& refusal :
       refusals_of_component(request_of(*request.loaders, request), partitions, nodes))
    all.push_back("loader processes: " + refusal);
  return all;
}

Texts overruling_variables(const std::string& script) {
  const std::string start = "#SBATCH --";
  const std::map<std::string, Texts> others = {
      {"ARRAY", {"ARRAY_INX"}},
      {"GRES", {"GPUS", "GPUS_PER_NODE", "GPUS_PER_TASK"}},
      {"MEM", {"MEM_PER_NODE", "MEM_PER_CPU", "MEM_PER_GPU"}},
      {"MEM_PER_CPU", {"MEM_PER_NODE", "MEM_PER_GPU"}},
      {"REQUEUE", {"NO_REQUEUE"}},
      {"TIME", {"TIMELIMIT"}}};
  Texts variables;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(start, 0) != 0) continue;
    std::string name = line.substr(start.size());
    name.resize(std::min(name.size(), name.find_first_of("= ")));
    for (char& c : name)
      c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    variables.push_back("SBATCH_" + name);
    const auto more = others.find(name);
    if (more == others.end()) continue;
    for (const std::string& other : more->second) variables.push_back("SBATCH_" + other);
  }
  return variables;
}

std::string slurm_script(const SlurmRequest& request, const std::string& folder,
                         const std::vector<SlurmPartition>& partitions) {
  std::ostringstream text;
  text << "#!/bin/bash\n# Written by kolo slurm. It can be changed, and is submitted by sbatch.\n";
  const auto line = [&](const char* option, const std::string& value) {
    if (!value.empty()) text << "#SBATCH --" << option << "=" << sbatch_quoted(value) << "\n";
  };
  const auto number = [](std::optional<long> value) {
    return value && *value > 0 ? std::to_string(*value) : std::string();
  };
  const std::string program = std::filesystem::path(request.program.front()).filename();
  line("job-name", request.job_name.empty() ? program : request.job_name);
  line("partition", request.partition);
  line("nodes", std::to_string(request.nodes));
  line("ntasks-per-node", std::to_string(tasks_per_node(request)));
  line("cpus-per-task", number(request.cpus_per_task));
  if (const std::string gpus = number(request.gpus_per_node); !gpus.empty()) {
    line("gres", "gpu:" + gpus);
  }
  line("mem", request.memory);
  line("mem-per-cpu", request.memory_per_cpu);
  line("time", request.time);
  line("output", request.output);
  text << "#SBATCH --open-mode=append\n#SBATCH --requeue\n";
  line("signal", "B:USR1@" + std::to_string(notice_of(request, partitions)));
  for (const std::string& more : request.more) text << "#SBATCH " << more << "\n";
  if (request.loaders) {
    const SlurmRequest loaders = request_of(*request.loaders, request);
    text << "#SBATCH hetjob\n";
    line("partition", loaders.partition);
    line("nodes", std::to_string(loaders.nodes));
    line("ntasks", std::to_string(request.loaders->count));
    line("ntasks-per-node", std::to_string(tasks_per_node(loaders)));
    line("cpus-per-task", number(loaders.cpus_per_task));
    line("mem", loaders.memory);
    line("mem-per-cpu", loaders.memory_per_cpu);
    line("time", loaders.time);
  }
  text << ". " << shell_quoted(folder + "/job.sh") << " || exit 2\njob";
  if (request.loaders) {
    for (const std::string& word : request.loaders->options) text << " " << shell_quoted(word);
  }
  for (const std::string& word : request.program) text << " " << shell_quoted(word);
  text << "\n";
  return text.str();
}

}  // namespace kolo::cli
