#include "cli/run/launch_plan.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

std::vector<std::string> forwarded_names(const LaunchRequest& request, bool is_local) {
  std::vector<std::string> names;
  for (const auto& [name, value] : request.extra) names.push_back(name);
  if (is_local) return names;  // local ranks get the launcher's own environment
  for (const auto& [name, value] : request.environment) {
    const bool already = std::find(names.begin(), names.end(), name) != names.end();
    // Slurm sets each node's own devices.
    const bool is_of_node =
        request.allocation.system == BatchSystem::kSlurm && name == "CUDA_VISIBLE_DEVICES";
    if (is_forwarded(name) && !already && !is_of_node) names.push_back(name);
  }
  return names;
}

// Returns arguments for the srun by which a launcher starts its daemons. Inside a step of Slurm, it
// must share what the step has, or it would wait for ever. Newer versions of Slurm pass launchers
// more arguments in the variable.
std::string shared_srun_arguments(const LaunchRequest& request, const std::string& variable) {
  for (const auto& [name, value] : request.environment) {
    if (name == variable) return "--overlap " + value;
  }
  return "--overlap";
}

// kolo-rank binds the ranks, the same way under every launcher, unless the user asks for the
// launcher's way.
Words open_mpi_words(const LaunchRequest& request) {
  const bool is_local = is_local_job(request);
  Words words = {request.mpirun, "-np", std::to_string(request.size)};
  if (request.allow_root) words.emplace_back("--allow-run-as-root");
  // mpirun itself knows all hosts of a job of Slurm.
  const bool is_slurm = request.allocation.system == BatchSystem::kSlurm;
  const bool is_whole_job = is_slurm && request.hosts.size() == request.allocation.hosts.size();
  if (!request.hosts.empty() && !is_whole_job) append(words, {"--host", to_string(request.hosts)});
  append(words, {"--bind-to", request.bind_to.empty() ? "none" : request.bind_to});
  if (is_slurm && request.allocation.in_step) {
    const bool old = request.kind == LauncherKind::kOpenMpi4;
    // Open MPI 5 takes this only from the command line, and itself adds what a newer Slurm needs.
    append(words, {old ? "--mca" : "--prtemca", "plm_slurm_args",
                   old ? shared_srun_arguments(request, "OMPI_MCA_plm_slurm_args") : "--overlap"});
  }
  // Slurm sends SIGTERM to a job that it will preempt. The launcher's daemons would end at once,
  // and the ranks with them before they have saved anything, so --shield keeps the signal from the
  // daemons. The launcher splits these words at blanks.
  if (is_slurm && !is_local && request.rank_program.find(' ') == std::string::npos) {
    const std::string shield = request.rank_program + " --shield ";
    append(words, request.kind == LauncherKind::kOpenMpi4
                      ? Words{"--mca", "orte_launch_agent", shield + "orted"}
                      : Words{"--prtemca", "prte_launch_agent", shield + "prted"});
  }
  // Necessary even if --host gives enough slots: mpirun counts the cores again if it finds no ssh.
  if (is_local && request.size > request.own_cores) {
    const bool old = request.kind == LauncherKind::kOpenMpi4;
    append(words, old ? Words{"--oversubscribe"} : Words{"--map-by", "slot:OVERSUBSCRIBE"});
  }
  for (const std::string& name : forwarded_names(request, is_local)) append(words, {"-x", name});
  return words;
}

// Hydra passes the whole environment on to all ranks, and never objects to oversubscription.
Words hydra_words(const LaunchRequest& request) {
  Words words = {request.mpirun, "-np", std::to_string(request.size)};
  if (!request.hosts.empty()) append(words, {"-hosts", to_string(request.hosts)});
  append(words, {"-bind-to", request.bind_to.empty() ? "none" : request.bind_to});
  return words;
}

Words rank_words(const LaunchRequest& request) {
  Words words = {request.rank_program, "--threads", std::to_string(request.threads_per_rank)};
  if (request.bind_to.empty()) {
    words.emplace_back("--bind");
  } else if (request.bind_to != "none") {
    words.emplace_back("--bound");
  }
  if (request.allocation.cpus_per_host > 0)
    append(words, {"--cpus", std::to_string(request.allocation.cpus_per_host)});
  // After SIGTERM, Open MPI 5 kills after a quarter of a second, Open MPI 4 after a second.
  if (request.kind == LauncherKind::kOpenMpi5) append(words, {"--grace-ms", "150"});
  append(words,
         {"--master", request.rendezvous.address + ":" + std::to_string(request.rendezvous.port)});
  words.emplace_back("--");
  append(words, request.program);
  return words;
}

// Sets the variables from which Open MPI takes the hosts of a job of Slurm and their slots. It
// takes no more slots by --host.
void tell_slurm_hosts(const LaunchRequest& request, LaunchPlan& plan) {
  std::string names;
  std::string slots;
  for (const Host& of_job : request.allocation.hosts) {
    const auto same = [&](const Host& host) { return host.name == of_job.name; };
    const auto chosen = std::find_if(request.hosts.begin(), request.hosts.end(), same);
    const int count = chosen == request.hosts.end() ? of_job.slots : chosen->slots;
    names += (names.empty() ? "" : ",") + of_job.name;
    slots += (slots.empty() ? "" : ",") + std::to_string(count);
  }
  plan.set.emplace_back("SLURM_NODELIST", names);
  plan.set.emplace_back("SLURM_TASKS_PER_NODE", slots);
}

void tell_agent(const LaunchRequest& request, LaunchPlan& plan) {
  if (request.remote_agent.empty()) return;
  plan.set.emplace_back("PRTE_MCA_plm_ssh_agent", request.remote_agent);
  plan.set.emplace_back("OMPI_MCA_plm_rsh_agent", request.remote_agent);
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

// Whether the launcher passes on all signals. Open MPI does, unless it is given a list; a signal
// that it does not pass on would end it.
bool passes_all_signals(const LaunchRequest& request) {
  if (request.kind == LauncherKind::kHydra) return false;
  const auto names_signals = [](const std::string& text) {
    return text.find("forward_signals") != std::string::npos ||
           text.find("forward-signals") != std::string::npos;
  };
  return std::none_of(request.mpi_args.begin(), request.mpi_args.end(), names_signals) &&
         std::none_of(request.environment.begin(), request.environment.end(),
                      [&](const auto& variable) { return names_signals(variable.first); });
}

Words bindings(LauncherKind kind) {
  Words known = {"none", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "socket"};
  if (kind == LauncherKind::kOpenMpi5) known.emplace_back("package");
  if (kind == LauncherKind::kOpenMpi4) known.emplace_back("board");
  if (kind == LauncherKind::kHydra) append(known, {"machine", "user"});
  return known;
}

Words qualifiers(LauncherKind kind) {
  if (kind == LauncherKind::kOpenMpi5) return {"overload-allowed", "no-overload", "if-supported"};
  return {"overload-allowed", "if-supported", "ordered", "report"};
}

void check_word(const char* what, const std::string& word, const Words& known, LauncherKind kind) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  std::string all;
  for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
  throw UsageError("--bind-to: '" + word + "' is not a " + what + " of " + name_of(kind) +
                   "; use one of " + all);
}

}  // namespace

LauncherKind launcher_kind(const std::string& version_text) {
  const auto has = [&](const char* text) { return version_text.find(text) != std::string::npos; };
  for (const char* name : {"(Open MPI) ", "(OpenRTE) "}) {
    const std::size_t at = version_text.find(name);
    if (at == std::string::npos) continue;
    const std::optional<long> major = parse_integer(version_text.substr(
        at + std::string(name).size(), version_text.find('.', at) - at - std::string(name).size()));
    if (!major) return LauncherKind::kUnknown;
    return *major >= 5 ? LauncherKind::kOpenMpi5 : LauncherKind::kOpenMpi4;
  }
  if (has("(PRRTE)")) return LauncherKind::kOpenMpi5;
  if (has("HYDRA") || has("Intel(R) MPI")) return LauncherKind::kHydra;
  return LauncherKind::kUnknown;
}

LauncherKind launcher_kind_of_library(const std::string& version_text) {
  const std::string open_mpi = "Open MPI v";
  if (version_text.rfind(open_mpi, 0) == 0) {
    const std::size_t dot = version_text.find('.', open_mpi.size());
    const std::optional<long> major =
        parse_integer(version_text.substr(open_mpi.size(), dot - open_mpi.size()));
    if (!major) return LauncherKind::kUnknown;
    return *major >= 5 ? LauncherKind::kOpenMpi5 : LauncherKind::kOpenMpi4;
  }
  const bool is_of_mpich =
      version_text.rfind("MPICH", 0) == 0 || version_text.rfind("Intel(R) MPI", 0) == 0;
  return is_of_mpich ? LauncherKind::kHydra : LauncherKind::kUnknown;
}

const char* name_of(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::kOpenMpi4:
      return "Open MPI 4";
    case LauncherKind::kOpenMpi5:
      return "Open MPI 5";
    case LauncherKind::kHydra:
      return "MPICH's hydra";
    case LauncherKind::kUnknown:
      break;
  }
  return "an unknown launcher";
}

void check_binding(LauncherKind kind, const std::string& bind_to) {
  if (bind_to.empty()) return;
  std::string word = bind_to;
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::size_t colon = word.find(':');
  check_word("binding", word.substr(0, colon), bindings(kind), kind);
  // Hydra takes a number of objects ("core:2"), or a list of the user's.
  if (colon != std::string::npos && kind != LauncherKind::kHydra)
    check_word("qualifier", word.substr(colon + 1), qualifiers(kind), kind);
}

bool is_local_job(const LaunchRequest& request) {
  return std::all_of(request.hosts.begin(), request.hosts.end(),
                     [&](const Host& host) { return is_this_host(host.name, request.own_host); });
}

bool is_forwarded(const std::string& name) {
  // Open MPI itself passes its own variables (OMPI_*, PMIX_*, PRTE_*) on.
  for (const char* start : {"KOLO_", "HOROVOD_", "OMP_", "MKL_", "NCCL_", "TORCH_"}) {
    if (starts_with(name, start)) return true;
  }
  for (const char* whole : {"CUDA_VISIBLE_DEVICES", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}) {
    if (name == whole) return true;
  }
  return false;
}

std::string rendezvous_address(const LaunchRequest& request) {
  if (is_local_job(request)) return "127.0.0.1";
  const std::string& first = request.hosts.front().name;
  // With "localhost", every host would connect to itself.
  return first == "localhost" || first == "127.0.0.1" ? request.own_host : first;
}

LaunchPlan plan_launcher(const LaunchRequest& request) {
  LaunchPlan plan;
  plan.set = request.extra;
  // Launchers start their daemons by srun. It must not give the daemons the CPUs of only one task,
  // nor, after sbatch --export, less than this process's environment.
  if (request.allocation.system == BatchSystem::kSlurm) {
    plan.unset = {"SRUN_CPUS_PER_TASK", "SLURM_EXACT", "SRUN_EXPORT_ENV"};
    plan.set.emplace_back("SLURM_EXPORT_ENV", "ALL");
  }
  if (request.kind == LauncherKind::kHydra) {
    const std::string extra = "HYDRA_LAUNCHER_EXTRA_ARGS";
    if (request.allocation.in_step)
      plan.set.emplace_back(extra, shared_srun_arguments(request, extra));
    plan.command = hydra_words(request);
  } else {
    if (request.allocation.system == BatchSystem::kSlurm) tell_slurm_hosts(request, plan);
    tell_agent(request, plan);
    plan.command = open_mpi_words(request);
  }
  plan.size = request.size;
  plan.is_local = is_local_job(request);
  plan.oversubscribed = plan.is_local && request.size > request.own_cores;
  plan.can_suspend = passes_all_signals(request);
  return plan;
}

LaunchPlan plan_launch(const LaunchRequest& request) {
  LaunchPlan plan = plan_launcher(request);
  append(plan.command, request.mpi_args);
  append(plan.command, rank_words(request));
  return plan;
}

std::string shell_quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(const LaunchPlan& plan) {
  std::string line;
  for (const std::string& name : plan.unset) line += "-u " + name + " ";
  if (!line.empty()) line.insert(0, "env ");
  for (const auto& [name, value] : plan.set) line += name + "=" + shell_quoted(value) + " ";
  for (const std::string& word : plan.command) line += shell_quoted(word) + " ";
  if (!line.empty()) line.pop_back();
  return line;
}

}  // namespace kolo::cli
