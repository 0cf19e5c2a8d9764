// `kolo run`: turns options into a launch plan, and runs it by supervise().
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <thread>

#include "cli/batch/allocation.hpp"
#include "cli/batch/step_tasks.hpp"
#include "cli/commands.hpp"
#include "cli/process/system.hpp"
#include "cli/run/job_size.hpp"
#include "cli/run/launcher.hpp"
#include "cli/run/loader_team.hpp"
#include "cli/run/run_options.hpp"
#include "cli/run/session_folder.hpp"
#include "cli/run/supervise.hpp"
#include "cli/usage_error.hpp"
#include "core/clock.hpp"
#include "core/loader_place.hpp"
#include "core/standard_streams.hpp"
#include "kolo/exit_code.h"

namespace kolo::cli {
namespace {

std::vector<Host> hosts_of(const RunOptions& options) {
  if (!options.host_list.empty()) return parse_host_list(options.host_list);
  if (options.hostfile.empty()) return {};
  const std::optional<std::string> text = read_file(options.hostfile);
  if (!text) {
    throw UsageError("--hostfile: cannot read '" + options.hostfile + "', or it is empty");
  }
  return parse_hostfile(*text, options.hostfile);
}

Variables extra_variables(const std::vector<std::string>& words, const Lookup& environment) {
  Variables all;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name.empty()) throw UsageError("-x '" + word + "': expected NAME or NAME=VALUE");
    if (equals != std::string::npos) {
      all.emplace_back(name, word.substr(equals + 1));
    } else if (const std::optional<std::string> value = environment(name)) {
      all.emplace_back(name, *value);
    } else {
      throw UsageError("-x " + word + ": this variable is not set; write -x NAME=VALUE");
    }
  }
  return all;
}

// Finds the batch system's own program for starting others on the hosts of a job, because ssh may
// be forbidden there.
std::string find_agent(BatchSystem system, const Lookup& environment) {
  for (const char* name : {"PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"}) {
    if (environment(name)) return {};
  }
  const char* const name = system == BatchSystem::kLsf   ? "blaunch"
                           : system == BatchSystem::kPbs ? "pbs_tmrsh"
                                                         : nullptr;
  if (name == nullptr) return {};
  const FoundProgram found = find_program(name, environment("PATH").value_or(""));
  return found.error == 0 ? found.path : std::string();
}

Rendezvous choose_rendezvous(const LaunchRequest& request, const Lookup& environment) {
  Rendezvous chosen;
  chosen.address = environment("MASTER_ADDR").value_or(rendezvous_address(request));
  const std::optional<std::string> port = environment("MASTER_PORT");
  if (!port) {
    chosen.port = free_port();
    return chosen;
  }
  const std::optional<long> number = parse_integer(*port);
  if (!number || *number < 1 || *number > 65535) {
    throw UsageError("the environment variable MASTER_PORT='" + *port +
                     "' is not a port; correct or unset it");
  }
  chosen.port = static_cast<int>(*number);
  return chosen;
}

// Reports why a program cannot be started. The exit codes are a shell's: 127 not found, 126 found
// but not executable.
int refuse_program(const std::string& name, const FoundProgram& found) {
  std::cerr << "kolo run: cannot start '" << name
            << "': " << std::generic_category().message(found.error);
  const bool has_slash = name.find('/') != std::string::npos;
  if (!has_slash && std::filesystem::is_regular_file(name)) {
    std::cerr << "; it is in this folder, so write ./" << name;
  } else if (!has_slash && found.error == ENOENT) {
    std::cerr << "; it is not on PATH";
  } else if (found.error == EACCES) {
    std::cerr << "; is it executable (chmod +x)?";
  }
  std::cerr << "\n";
  return found.error == ENOENT ? 127 : 126;
}

bool may_run(const RunOptions& options, const Lookup& environment) {
  if (::geteuid() != 0 || options.allow_run_as_root) return true;
  return environment("OMPI_ALLOW_RUN_AS_ROOT") == "1" &&
         environment("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == "1";
}

// Refuses a text that OpenMP would not accept: OpenMP would complain on every rank, and each rank
// would take all cores. Empty means unset.
void check_threads(const LaunchRequest& request) {
  Variables all = request.environment;
  all.insert(all.end(), request.extra.begin(), request.extra.end());
  for (const auto& [name, value] : all) {
    if (name != "OMP_NUM_THREADS" || value.empty() || parse_threads(value)) continue;
    throw UsageError("the environment variable OMP_NUM_THREADS='" + value +
                     "' is not a number of threads; correct or unset it");
  }
}

LaunchRequest make_request(const RunOptions& options, const Lookup& environment) {
  Allocation allocation = find_allocation(environment, read_file);
  JobSize size = choose_job_size({options.size, options.gpus, options.gpus_per_host,
                                  hosts_of(options), host_name(), options.cpus.has_value()},
                                 allocation);
  LaunchRequest request;
  request.size = size.size;
  request.hosts = std::move(size.hosts);
  request.remote_agent = find_agent(allocation.system, environment);
  request.own_host = host_name();
  request.own_cores = available_cores();
  request.threads_per_rank =
      options.threads_per_rank > 0 ? options.threads_per_rank : size.threads_per_rank;
  request.bind_to = options.bind_to;
  request.allow_root = ::geteuid() == 0;
  request.environment = system_variables();
  request.extra = extra_variables(options.variables, environment);
  check_threads(request);
  // Ranks see a pipe. This tells them that it ends at a terminal, where they can redraw a progress
  // line.
  if (::isatty(STDERR_FILENO) == 1) request.extra.emplace_back("KOLO_TERMINAL", "1");
  request.allocation = std::move(allocation);
  request.mpi_args = split_words(options.mpi_args);
  request.rank_program = own_directory() + "/kolo-rank";
  request.program = options.program;
  return request;
}

void choose_launcher(const RunOptions& options, const Lookup& environment, LaunchRequest& request) {
  const Launcher launcher = identify_launcher(find_launcher(options.mpirun, environment));
  if (launcher.kind == LauncherKind::kUnknown) {
    throw UsageError(launcher.path + " is neither Open MPI's mpirun nor MPICH's; it says '" +
                     launcher.version + "'. Name another with --mpirun or KOLO_MPIRUN");
  }
  request.mpirun = launcher.path;
  request.kind = launcher.kind;
  check_binding(request.kind, request.bind_to);
}

// Sites may have configured Open MPI to compare whole names.
void check_hosts(const RunOptions& options, const Lookup& environment,
                 const LaunchRequest& request) {
  const bool whole_names = request.kind == LauncherKind::kHydra ||
                           request.allocation.system == BatchSystem::kSlurm ||
                           environment("PRTE_MCA_prte_keep_fqdn_hostnames") ||
                           environment("OMPI_MCA_orte_keep_fqdn_hostnames") ||
                           options.mpi_args.find("keep_fqdn_hostnames") != std::string::npos;
  check_that_hosts_differ(request.hosts, request.own_host, whole_names,
                          {addresses_of_name, own_addresses});
}

void tell_plan(const LaunchRequest& request, const LaunchPlan& plan) {
  LaunchPlan shown = plan;
  for (auto& variable : shown.set) {
    if (variable.first == kLoaderTokenVariable) variable.second = "...";  // anybody may read logs
  }
  std::cerr << "kolo run: " << shell_line(shown) << "\n";
  if (plan.oversubscribed) {
    std::cerr << "kolo run: " << request.size << " ranks share " << request.own_cores
              << " cores; they are not bound\n";
  }
}

// Plans one start of the job. Every start has its own port, and knows the number of restarts before
// it.
LaunchPlan plan_start(const RunOptions& options, const Lookup& environment, LaunchRequest request,
                      long restarts) {
  request.rendezvous = choose_rendezvous(request, environment);
  if (options.max_restarts > 0)
    request.extra.emplace_back("KOLO_RESTART_COUNT", std::to_string(restarts));
  return plan_launch(request);
}

// Whether another start makes sense. A program that could not be started would fail again. A
// program that has saved its state ends kolo run, because its time is over: whoever started kolo
// run may start it again.
bool can_be_restarted(const JobEnd& end) {
  const bool has_failed = end.code != 0 && end.code != kRequeueExitCode;
  return has_failed && end.code != 126 && end.code != 127 && !end.was_stopped;
}

// Returns the exit code. A job that has succeeded fails if some of its output is missing.
int code_after(const JobEnd& end, const std::string& lost_output) {
  if (lost_output.empty()) return end.code;
  std::cerr << "kolo run: some of the output is lost, because it could not be written to "
            << lost_output << "\n";
  return end.code == 0 ? kOutputLostExitCode : end.code;
}

LoaderRequest loader_request(const RunOptions& options) {
  return {static_cast<int>(options.cpus.value_or(0)),
          static_cast<std::uint64_t>(options.units.value_or(0)), options.spool};
}

void append(Variables& variables, const Variables& more) {
  variables.insert(variables.end(), more.begin(), more.end());
}

int run_job(const RunOptions& options, const Lookup& environment, StepLeader* leader) {
  LaunchRequest request = make_request(options, environment);
  choose_launcher(options, environment, request);
  check_hosts(options, environment, request);
  if (options.dry_run) {
    std::cout << shell_line(plan_start(options, environment, request, 0)) << "\n";
    return 0;
  }
  if (!may_run(options, environment)) {
    throw UsageError(
        "you are root: a mistake could destroy this system, so run as another user, or add "
        "--allow-run-as-root (in a container, say), or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  if (is_local_job(request)) {
    const std::string search_path = environment("PATH").value_or("/usr/bin:/bin");
    const FoundProgram found = find_program(options.program.front(), search_path);
    if (found.error != 0) return refuse_program(options.program.front(), found);
  }
  const OutputOptions output = {!options.no_prefix, options.tag_output, options.timestamp,
                                options.verbose, options.output_dir};
  const Clock::time_point begin = Clock::now();
  std::string lost_output;  // the first of all starts
  for (long restarts = 0;; ++restarts) {
    LaunchRequest with_loaders = request;
    std::optional<LoaderTeam> loaders;  // outlives supervise()
    if (options.cpus) loaders.emplace(loader_request(options), request);
    if (loaders) {
      std::optional<Clock::time_point> deadline;
      if (options.timeout_seconds > 0) deadline = begin + seconds(options.timeout_seconds);
      try {
        if (const std::optional<int> code = loaders->wait_until_ready({deadline, leader}))
          return code_after({*code, true, ""}, lost_output);
      } catch (const LoaderNotStarted& failure) {
        std::cerr << "kolo run: " << failure.what() << '\n';
        return code_after({kNotStartedExitCode, true, ""}, lost_output);
      }
      append(with_loaders.extra, loaders->variables());
      with_loaders.hosts = hosts_of_ranks(request.hosts, request.size);
    }
    LaunchPlan plan = plan_start(options, environment, with_loaders, restarts);
    if (options.verbose) tell_plan(request, plan);
    std::optional<SessionFolder> session;
    if (request.kind == LauncherKind::kOpenMpi5) session.emplace().tell(plan);
    double timeout = options.timeout_seconds;  // for all starts together
    if (timeout > 0) timeout = std::max(0.001, timeout - to_seconds(Clock::now() - begin));
    const JobEnd end = supervise(plan, {output, timeout, options.stop_seconds, leader});
    if (lost_output.empty()) lost_output = end.lost_output;
    if (!can_be_restarted(end) || restarts == options.max_restarts)
      return code_after(end, lost_output);
    std::this_thread::sleep_for(
        std::chrono::seconds(1));  // a job that fails at once should not keep the machine busy
    if (is_asked_to_stop()) return code_after(end, lost_output);
    std::cerr << "kolo run: starts the job again, " << restarts + 1 << " of "
              << options.max_restarts << " times\n";
  }
}

}  // namespace

int run_command(const Arguments& arguments) {
  const RunOptions options = parse_run(arguments);
  if (options.help) {
    std::cout << help_of("run");
    return 0;
  }
  const Lookup environment = system_environment();
  if (is_beside_a_terminal(environment)) return 0;
  const std::optional<StepTask> task = find_step_task(environment);
  if (!task) return run_job(options, environment, nullptr);
  if (options.dry_run) return task->task == 0 ? run_job(options, environment, nullptr) : 0;
  if (task->task > 0) return follow_leader(*task, 60);
  StepLeader leader(*task);
  int code = 1;
  try {
    code = run_job(options, environment, &leader);
  } catch (const UsageError&) {
    leader.finish(kUsageExitCode);
    throw;
  } catch (...) {
    leader.finish(code);
    throw;
  }
  leader.finish(code);
  return code;
}

}  // namespace kolo::cli
