// The findings of kolo doctor, derived from the facts that it has gathered: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/doctor/machine.hpp"
#include "cli/run/launch_plan.hpp"

namespace kolo::cli {

struct Finding {
  bool is_problem = false;  // otherwise it is information, and nothing is wrong
  std::string what;
  std::string why;
  std::string mend;
};

// The output of a probe ("key=value" lines), or the reason of its failure.
struct Probe {
  bool has_run = false;
  std::string failure;  // "it did not end within 30 s"
  std::map<std::string, std::string> values;
};
// Parses the lines that begin with "kolo-doctor: ".
std::map<std::string, std::string> parse_probe(const std::string& output);

std::vector<Finding> judge_machine(const Machine& machine, const Lookup& environment);
// `names`: the names of all environment variables.
std::vector<Finding> judge_variables(const std::vector<std::string>& names);

// The libraries that kolo's programs load, as the dynamic linker finds them.
struct Loaded {
  std::string failure;  // why they cannot be loaded; empty: they can be
  std::string mpi;      // path of MPI's library, if known
};
// Parses what the dynamic linker prints for a program with LD_TRACE_LOADED_OBJECTS.
Loaded parse_loaded(const std::string& output);
// `built_with`: the path of MPI's library when kolo was built. `search_path`: LD_LIBRARY_PATH.
std::vector<Finding> judge_loaded(const Loaded& loaded, const std::string& built_with,
                                  const std::string& search_path);

// `fault`: why files cannot be written to the folder for temporary files; "" if they can.
std::vector<Finding> judge_temporary_folder(const std::string& folder, const std::string& fault);

// The launcher that started the two ranks of the trial, and the library that they use.
struct MpiParts {
  LauncherKind launcher = LauncherKind::kUnknown;
  std::string launcher_name;      // "/usr/bin/mpirun: mpirun (Open MPI) 4.1.4"
  std::string library;            // "Open MPI v5.0.11"; empty: unknown
  bool is_other_library = false;  // not the library of the build, see judge_loaded()
};
std::vector<Finding> judge_mpi(const Probe& probe, const MpiParts& parts);
// `other`: the same for the mpirun that a user's shell finds.
std::vector<Finding> judge_other_launcher(const MpiParts& other);
std::vector<Finding> judge_torch(const Probe& probe);
// Returns the GPUs in CUDA_VISIBLE_DEVICES as CUDA reads it: up to a -1, or Slurm's NoDevFiles.
std::vector<std::string> listed_devices(const std::string& visible);
// In a build without CUDA, nothing about GPUs is a problem.
std::vector<Finding> judge_cuda(const Probe& probe, const Lookup& environment, bool has_cuda);

bool has_problem(const std::vector<Finding>& findings);

// Formats the findings for people: each finding, why it matters and what to do, and a last line.
std::string to_text(const std::vector<Finding>& findings);
// Formats the whole report as one JSON object.
std::string to_json(const std::vector<std::pair<std::string, Rows>>& sections,
                    const std::vector<Finding>& findings);

}  // namespace kolo::cli
