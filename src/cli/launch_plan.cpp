#include "cli/launch_plan.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace kolo::cli {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// How many cores each rank can call its own; 0 when ranks must not be bound: when there are fewer
// cores than ranks or threads, or other hosts, whose cores are not known here.
int own_cores_per_rank(const LaunchRequest& request, bool is_local) {
  if (!is_local) return 0;
  const int cores = request.own_cores / request.size;
  return request.threads_per_rank > cores ? 0 : cores;
}

struct Binding {
  Words words;
  bool exclusive = false;  // every rank has its own cores
};

Binding bind_open_mpi(const LaunchRequest& request, bool is_local) {
  if (!request.bind_to.empty()) {
    return {{"--bind-to", request.bind_to}, request.bind_to != "none"};
  }
  const int cores = own_cores_per_rank(request, is_local);
  if (cores == 0) return {{"--bind-to", "none"}, false};
  return {{"--bind-to", "core", "--map-by", "slot:PE=" + std::to_string(cores)}, true};
}

Binding bind_hydra(const LaunchRequest& request, bool is_local) {
  if (!request.bind_to.empty()) {
    return {{"-bind-to", request.bind_to}, request.bind_to != "none"};
  }
  const int cores = own_cores_per_rank(request, is_local);
  if (cores == 0) return {{"-bind-to", "none"}, false};
  return {{"-bind-to", "core:" + std::to_string(cores)}, true};
}

std::vector<std::string> forwarded_names(const LaunchRequest& request, bool is_local) {
  std::vector<std::string> names;
  for (const auto& [name, value] : request.extra) names.push_back(name);
  if (is_local) return names;  // the launcher's own environment is what local ranks get
  for (const auto& [name, value] : request.environment) {
    const bool already = std::find(names.begin(), names.end(), name) != names.end();
    if (is_forwarded(name) && !already) names.push_back(name);
  }
  return names;
}

Words open_mpi_words(const LaunchRequest& request, const Words& binding) {
  const bool is_local = is_local_job(request);
  Words words = {request.mpirun, "-np", std::to_string(request.size)};
  if (request.allow_root) words.emplace_back("--allow-run-as-root");
  if (!request.hosts.empty()) append(words, {"--host", to_string(request.hosts)});
  append(words, binding);
  // Also where --host gives slots enough: mpirun counts the cores again where it finds no ssh.
  if (is_local && request.size > request.own_cores) {
    const bool old = request.kind == LauncherKind::kOpenMpi4;
    append(words, old ? Words{"--oversubscribe"} : Words{"--map-by", "slot:OVERSUBSCRIBE"});
  }
  for (const std::string& name : forwarded_names(request, is_local)) append(words, {"-x", name});
  return words;
}

// Hydra hands the whole environment to all ranks, and never minds oversubscription.
Words hydra_words(const LaunchRequest& request, const Words& binding) {
  Words words = {request.mpirun, "-np", std::to_string(request.size)};
  if (!request.hosts.empty()) append(words, {"-hosts", to_string(request.hosts)});
  append(words, binding);
  return words;
}

Words rank_words(const LaunchRequest& request, bool exclusive) {
  Words words = {request.rank_program, "--threads", std::to_string(request.threads_per_rank)};
  if (exclusive) words.emplace_back("--bound");
  // Open MPI 5 kills a quarter of a second after SIGTERM, Open MPI 4 a second after it.
  if (request.kind == LauncherKind::kOpenMpi5) append(words, {"--grace-ms", "150"});
  append(words,
         {"--master", request.rendezvous.address + ":" + std::to_string(request.rendezvous.port)});
  words.emplace_back("--");
  append(words, request.program);
  return words;
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
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

bool is_local_job(const LaunchRequest& request) {
  if (request.hosts.empty()) return !request.in_allocation;
  return std::all_of(request.hosts.begin(), request.hosts.end(),
                     [&](const Host& host) { return is_this_host(host.name, request.own_host); });
}

bool is_forwarded(const std::string& name) {
  // Open MPI hands its own variables (OMPI_*, PMIX_*, PRTE_*) on by itself.
  for (const char* start : {"KOLO_", "HOROVOD_", "OMP_", "MKL_", "NCCL_", "TORCH_"}) {
    if (starts_with(name, start)) return true;
  }
  for (const char* whole : {"CUDA_VISIBLE_DEVICES", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}) {
    if (name == whole) return true;
  }
  return false;
}

std::string rendezvous_address(const LaunchRequest& request, const Lookup& environment) {
  if (is_local_job(request)) return "127.0.0.1";
  if (request.hosts.empty()) {
    const std::optional<std::string> nodes = environment("SLURM_JOB_NODELIST");
    return nodes ? first_slurm_host(*nodes) : request.own_host;
  }
  const std::string& first = request.hosts.front().name;
  // "localhost" would send every host to itself.
  return first == "localhost" || first == "127.0.0.1" ? request.own_host : first;
}

namespace {

bool is_oversubscribed(const LaunchRequest& request) {
  return is_local_job(request) && request.size > request.own_cores;
}

Binding bind(const LaunchRequest& request) {
  const bool is_local = is_local_job(request);
  return request.kind == LauncherKind::kHydra ? bind_hydra(request, is_local)
                                              : bind_open_mpi(request, is_local);
}

}  // namespace

std::vector<std::string> launcher_words(const LaunchRequest& request) {
  const Words binding = bind(request).words;
  return request.kind == LauncherKind::kHydra ? hydra_words(request, binding)
                                              : open_mpi_words(request, binding);
}

LaunchPlan plan_launch(const LaunchRequest& request) {
  LaunchPlan plan;
  plan.set = request.extra;
  plan.command = launcher_words(request);
  append(plan.command, request.mpi_args);
  append(plan.command, rank_words(request, bind(request).exclusive));
  plan.is_local = is_local_job(request);
  plan.oversubscribed = is_oversubscribed(request);
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
  for (const auto& [name, value] : plan.set) line += name + "=" + shell_quoted(value) + " ";
  for (const std::string& word : plan.command) line += shell_quoted(word) + " ";
  if (!line.empty()) line.pop_back();
  return line;
}

}  // namespace kolo::cli
