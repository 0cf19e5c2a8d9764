// `kolo run`: from options to a launch plan, and on to supervise().
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>

#include "cli/commands.hpp"
#include "cli/launcher.hpp"
#include "cli/run_options.hpp"
#include "cli/supervise.hpp"
#include "cli/system.hpp"
#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

std::vector<Host> hosts_of(const RunOptions& options) {
  if (!options.host_list.empty()) return parse_host_list(options.host_list);
  if (options.hostfile.empty()) return {};
  std::ifstream file(options.hostfile);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    throw UsageError("--hostfile: cannot read '" + options.hostfile + "', or it is empty");
  }
  return parse_hostfile(text.str(), options.hostfile);
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

// The hosts of a batch job are the launcher's business; here it only matters that there may be
// others.
bool is_in_allocation(const Lookup& environment) {
  for (const char* name :
       {"SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_HOSTS", "LSB_DJOB_HOSTFILE"}) {
    if (environment(name)) return true;
  }
  return false;
}

Rendezvous choose_rendezvous(const LaunchRequest& request, const Lookup& environment) {
  Rendezvous chosen;
  chosen.address = environment("MASTER_ADDR").value_or(rendezvous_address(request, environment));
  const std::optional<std::string> port = environment("MASTER_PORT");
  if (!port) {
    chosen.port = free_port();
    return chosen;
  }
  const std::optional<long> number = parse_integer(*port);
  if (!number || *number < 1 || *number > 65535) {
    throw UsageError("the environment variable MASTER_PORT='" + *port +
                     "' is no port; correct or unset it");
  }
  chosen.port = static_cast<int>(*number);
  return chosen;
}

// Exit codes as a shell's: 127 not found, 126 found but not executable.
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

LaunchRequest make_request(const RunOptions& options, const Lookup& environment) {
  LaunchRequest request;
  request.hosts = hosts_of(options);
  request.size = choose_size(options.size_given, options.size, request.hosts);
  request.in_allocation = is_in_allocation(environment);
  request.own_host = host_name();
  request.own_cores = available_cores();
  request.threads_per_rank = options.threads_per_rank;
  request.bind_to = options.bind_to;
  request.allow_root = ::geteuid() == 0;
  request.environment = system_variables();
  request.extra = extra_variables(options.variables, environment);
  // Ranks see a pipe; where it ends a progress line can be drawn anew.
  if (::isatty(STDERR_FILENO) == 1) request.extra.emplace_back("KOLO_TERMINAL", "1");
  request.mpi_args = split_words(options.mpi_args);
  request.rank_program = own_directory() + "/kolo-rank";
  request.rendezvous = choose_rendezvous(request, environment);
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
}

void tell_plan(const LaunchRequest& request, const LaunchPlan& plan) {
  std::cerr << "kolo run: " << shell_line(plan) << "\n";
  if (plan.oversubscribed) {
    std::cerr << "kolo run: " << request.size << " ranks share " << request.own_cores
              << " cores; they are not bound\n";
  }
}

}  // namespace

int run_command(const Arguments& arguments) {
  const RunOptions options = parse_run(arguments);
  if (options.help) {
    std::cout << run_help();
    return 0;
  }
  const Lookup environment = system_environment();
  LaunchRequest request = make_request(options, environment);
  choose_launcher(options, environment, request);
  const LaunchPlan plan = plan_launch(request);
  if (options.dry_run) {
    std::cout << shell_line(plan) << "\n";
    return 0;
  }
  if (!may_run(options, environment)) {
    throw UsageError(
        "you are root: a mistake could destroy this system, so run as another user, or add "
        "--allow-run-as-root (in a container, say), or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  if (plan.is_local) {
    const std::string search_path = environment("PATH").value_or("/usr/bin:/bin");
    const FoundProgram found = find_program(options.program.front(), search_path);
    if (found.error != 0) return refuse_program(options.program.front(), found);
  }
  if (options.verbose) tell_plan(request, plan);
  return supervise(plan, {{!options.no_prefix, options.timestamp, options.verbose},
                          options.timeout_seconds,
                          options.stop_seconds});
}

}  // namespace kolo::cli
