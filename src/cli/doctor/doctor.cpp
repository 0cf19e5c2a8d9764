// `kolo doctor`: reports what is built in, what it finds on this machine, and what is wrong.
#include <fcntl.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "cli/batch/allocation.hpp"
#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/doctor/doctor.hpp"
#include "cli/doctor/findings.hpp"
#include "cli/process/system.hpp"
#include "cli/run/launcher.hpp"
#include "cli/run/session_folder.hpp"
#include "cli/usage_error.hpp"
#include "core/variables.hpp"

namespace po = boost::program_options;

namespace kolo::cli {
namespace {

struct DoctorOptions {
  bool job = false;
  std::string mpirun;
  std::string json;
  double timeout_seconds = 30;
};

using Sections = std::vector<std::pair<std::string, Rows>>;

std::string last_lines(const std::string& text) {
  constexpr std::size_t kMost = 600;
  std::string tail = text.size() > kMost ? "..." + text.substr(text.size() - kMost) : text;
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  return tail;
}

Probe run_probe(const std::vector<std::string>& command, double timeout_seconds,
                const Variables& set = {}, const std::vector<std::string>& unset = {}) {
  Probe probe;
  try {
    const CommandResult result = run_captured(command, set, timeout_seconds, unset);
    probe.values = parse_probe(result.output);
    probe.has_run = result.code == 0;
    if (result.code == -1) {
      probe.failure = "it did not end within " + std::to_string(static_cast<int>(timeout_seconds)) +
                      " s. " + last_lines(result.output);
    } else if (result.code != 0) {
      probe.failure = "exit code " + std::to_string(result.code) + ". " + last_lines(result.output);
    }
  } catch (const std::system_error& error) {
    probe.failure = error.what();
  }
  return probe;
}

// Returns the rows of a probe whose keys begin with a prefix, without the prefix.
Rows rows_of(const Probe& probe, const std::string& prefix) {
  Rows rows;
  for (const auto& [key, value] : probe.values) {
    if (key.rfind(prefix, 0) == 0) rows.emplace_back(key.substr(prefix.size()), value);
  }
  return rows;
}

Rows machine_rows(const Machine& machine, const Lookup& environment) {
  return {
      {"host", machine.host},
      {"cores", std::to_string(machine.cores) + " (CPUs " + machine.affinity + " of " +
                    std::to_string(machine.online_cpus) + ")" +
                    (machine.cpu_quota ? ", CPU quota " + show_cores(*machine.cpu_quota) : "")},
      {"memory", show_bytes(machine.memory_bytes) + ", " +
                     show_bytes(machine.memory_available_bytes) + " free, limit " +
                     show_bytes(machine.memory_limit_bytes)},
      {"/dev/shm", machine.shm_bytes < 0 ? "missing"
                                         : show_bytes(machine.shm_bytes) + ", " +
                                               show_bytes(machine.shm_free_bytes) + " free"},
      {"huge pages", std::to_string(machine.huge_pages) +
                         " reserved, transparent: " + machine.transparent_huge_pages +
                         ", of shared memory: " + machine.shared_huge_pages},
      {"lockable memory", show_bytes(machine.locked_memory_bytes)},
      {"OMP_NUM_THREADS", environment("OMP_NUM_THREADS").value_or("not set")},
      {"CUDA_VISIBLE_DEVICES", environment("CUDA_VISIBLE_DEVICES").value_or("not set")},
  };
}

void append(std::vector<Finding>& all, const std::vector<Finding>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Returns what the dynamic linker finds for kolo-doctor, which needs the same libraries as kolo.
Loaded trace_libraries(const DoctorOptions& options) {
  try {
    const CommandResult traced =
        run_captured({own_directory() + "/kolo-doctor"}, {{"LD_TRACE_LOADED_OBJECTS", "1"}},
                     options.timeout_seconds);
    if (traced.code != -1) return parse_loaded(traced.output);
    return {"the dynamic linker did not find them in time", ""};
  } catch (const std::system_error& error) {
    return {error.what(), ""};
  }
}

std::string library_version(const DoctorOptions& options) {
  const Probe probe =
      run_probe({own_directory() + "/kolo-doctor", "library"}, options.timeout_seconds);
  const auto found = probe.values.find("mpi.library");
  return found == probe.values.end() ? "" : found->second;
}

MpiParts parts_of(const Launcher& launcher, const std::string& library) {
  return {launcher.kind, launcher.path + " (" + launcher.version + ")", library, false};
}

// Judges the mpirun that users would start by that name, if it differs from the one used.
void examine_path(const Launcher& used, const std::string& library, const Lookup& environment,
                  std::vector<Finding>& findings) {
  const FoundProgram found = find_program("mpirun", environment("PATH").value_or(""));
  std::error_code error;
  if (found.error != 0 || std::filesystem::equivalent(found.path, used.path, error)) return;
  append(findings, judge_other_launcher(parts_of(identify_launcher(found.path), library)));
}

LaunchPlan plan_trial(const Launcher& launcher, const Lookup& environment) {
  LaunchRequest request;
  request.mpirun = launcher.path;
  request.kind = launcher.kind;
  request.size = 2;
  request.own_cores = available_cores();
  request.bind_to = "none";
  request.allow_root = examine_machine().is_root;  // this program is harmless
  request.rank_program = own_directory() + "/kolo-doctor";
  // In a job of Slurm, mpirun would otherwise look for the job's hosts and tasks.
  if (environment("SLURM_JOB_NODELIST")) {
    request.allocation.system = BatchSystem::kSlurm;
    request.hosts = {{host_name(), request.size}};
    request.allocation.hosts = request.hosts;
  }
  LaunchPlan plan = plan_launcher(request);
  plan.command.insert(plan.command.end(), {own_directory() + "/kolo-doctor", "mpi"});
  return plan;
}

void examine_mpi(const DoctorOptions& options, const Lookup& environment, bool is_other_library,
                 Sections& sections, std::vector<Finding>& findings) {
  Launcher launcher;
  LaunchPlan plan;
  std::optional<SessionFolder> session;
  try {
    launcher = identify_launcher(find_launcher(options.mpirun, environment));
    plan = plan_trial(launcher, environment);
    if (launcher.kind == LauncherKind::kOpenMpi5) session.emplace();
  } catch (const std::exception& error) {
    findings.push_back({true, error.what(), "kolo run cannot start ranks",
                        "run scripts/setup, load your cluster's MPI module, or set KOLO_MPIRUN"});
    return;
  }
  Rows rows = {{"launcher", launcher.path + ": " + launcher.version}, {"tried", shell_line(plan)}};
  if (session) session->tell(plan);
  const Probe probe = run_probe(plan.command, options.timeout_seconds, plan.set, plan.unset);
  for (auto& row : rows_of(probe, "mpi.")) rows.push_back(std::move(row));
  sections.emplace_back("MPI", rows);
  const std::string library = library_version(options);
  MpiParts parts = parts_of(launcher, library);
  parts.is_other_library = is_other_library;
  append(findings, judge_mpi(probe, parts));
  examine_path(launcher, library, environment, findings);
}

void examine_torch_and_cuda(const DoctorOptions& options, const Lookup& environment,
                            Sections& sections, std::vector<Finding>& findings) {
  const std::string program = own_directory() + "/kolo-doctor";
  const Probe torch = run_probe({program, "torch"}, options.timeout_seconds);
  sections.emplace_back("LibTorch", rows_of(torch, "torch."));
  append(findings, judge_torch(torch));
  const Probe cuda = run_probe({program, "cuda"}, options.timeout_seconds);
  sections.emplace_back("CUDA", rows_of(cuda, "cuda."));
  append(findings, judge_cuda(cuda, environment, has_cuda()));
}

void print(const Sections& sections, const std::vector<Finding>& findings) {
  for (const auto& [title, rows] : sections) {
    std::cout << title << "\n";
    for (const auto& [name, value] : rows) {
      std::cout << "  " << name
                << std::string(std::max<std::size_t>(22, name.size() + 1) - name.size(), ' ')
                << value << "\n";
    }
  }
  std::cout << "\n" << to_text(findings);
}

int examine(const DoctorOptions& options) {
  const Lookup environment = system_environment();
  const Machine machine = examine_machine();
  Sections sections = {{"Built in", built_in()}, {"Machine", machine_rows(machine, environment)}};
  std::vector<Finding> findings = judge_machine(machine, environment);
  append(findings, judge_variables(environment_names()));
  const std::string folder = environment("TMPDIR").value_or("/tmp");
  append(findings, judge_temporary_folder(folder, fault_of_folder(folder)));
  const Loaded loaded = trace_libraries(options);
  const std::vector<Finding> about_libraries =
      judge_loaded(loaded, mpi_built_with(), environment("LD_LIBRARY_PATH").value_or(""));
  append(findings, about_libraries);
  // Otherwise each trial would fail for this one reason, and report a different one.
  if (loaded.failure.empty()) {
    examine_mpi(options, environment, !about_libraries.empty(), sections, findings);
    examine_torch_and_cuda(options, environment, sections, findings);
  }
  print(sections, findings);
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    if (!(file << to_json(sections, findings) << std::flush)) {
      throw UsageError("--json: cannot write '" + options.json + "'");
    }
  }
  return has_problem(findings) ? 1 : 0;
}

// Whether this process is a rank. Where PMIx is the cluster's default, the shell of srun --pty has
// PMIx's variables as well. Processes that the shell starts inherit SLURM_PTY_PORT, but only the
// shell has a terminal.
bool is_rank(const Lookup& environment) {
  const auto has = [&](const char* name) { return environment(name).has_value(); };
  if (has("OMPI_COMM_WORLD_RANK") || has("PMI_RANK")) return true;
  const auto has_terminal = [] { return Fd(::open("/dev/tty", O_RDWR | O_CLOEXEC)).is_open(); };
  return has("PMIX_RANK") && !(has("SLURM_PTY_PORT") && has_terminal());
}

// Returns options for kolo run. The ranks and the launcher each have the time of a trial.
Arguments launch_options(const DoctorOptions& options) {
  Arguments words = {"--no-prefix", "--timeout", std::to_string(2 * options.timeout_seconds)};
  if (!options.mpirun.empty()) words.insert(words.end(), {"--mpirun", options.mpirun});
  words.emplace_back("--");
  return words;
}

// Examines a job. As a rank, this process becomes the program that all ranks run. Otherwise it has
// the ranks started as kolo run starts any program.
int examine_job(const DoctorOptions& options) {
  const Lookup environment = system_environment();
  Arguments command = {own_directory() + "/kolo-doctor", "job",
                       std::to_string(options.timeout_seconds), options.json};
  if (is_rank(environment)) {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    ::execv(words.front(), words.data());
    throw std::system_error(errno, std::generic_category(), command.front());
  }
  if (find_allocation(environment, read_file).system == BatchSystem::kNone) {
    throw UsageError(
        "kolo doctor --job examines the ranks of a job: start it as you start them, kolo run -np N "
        "kolo doctor --job");
  }
  const Arguments start = launch_options(options);
  command.insert(command.begin(), start.begin(), start.end());
  return run_command(command);
}

}  // namespace

std::string doctor_intro() {
  return "Usage: kolo doctor [options]\n\n"
         "Reports what was built in, what this machine has, and what is wrong with it. The\n"
         "exit code is 0 if nothing is wrong, otherwise 1.\n\n"
         "With --job it reports on each rank of a job. Start it as you start the ranks (kolo\n"
         "run -np 8 kolo doctor --job, srun kolo doctor --job). In a batch job it starts the\n"
         "ranks itself if no launcher has started it. The exit code is 0 if all ranks have\n"
         "reported.\n\n";
}

po::options_description doctor_option_table() {
  po::options_description table("Options");
  auto add = table.add_options();
  add("help,h", po::bool_switch(), "show this help");
  add("job", po::bool_switch(),
      "report what each rank of a job has (node, cores, device, memory), and what is wrong");
  add("mpirun", po::value<std::string>()->default_value("", "")->value_name("PATH"),
      "the launcher to try");
  add("timeout", po::value<double>()->default_value(30)->value_name("SECONDS"),
      "how long each trial may take");
  add("json", po::value<std::string>()->default_value("", "")->value_name("FILE"),
      "also write the report as JSON");
  return table;
}

int doctor_command(const Arguments& arguments) {
  const CommandLine line = parse_command_line("kolo doctor", doctor_option_table(), arguments);
  const po::variables_map& values = line.values;
  if (values["help"].as<bool>()) {
    std::cout << help_of("doctor");
    return 0;
  }
  if (!line.program.empty()) {
    throw UsageError("kolo doctor: unexpected '" + line.program.front() +
                     "'; see kolo doctor --help");
  }
  const DoctorOptions options = {values["job"].as<bool>(), values["mpirun"].as<std::string>(),
                                 values["json"].as<std::string>(), values["timeout"].as<double>()};
  constexpr double kDay = 86400;
  if (!(options.timeout_seconds > 0 && options.timeout_seconds <= kDay)) {
    throw UsageError("kolo doctor: --timeout must be above 0 s, and a day at most");
  }
  return options.job ? examine_job(options) : examine(options);
}

}  // namespace kolo::cli
