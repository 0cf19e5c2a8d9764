// What kolo doctor thinks of what it found: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/machine.hpp"

namespace kolo::cli {

struct Finding {
  bool is_problem = false;  // else it is good to know, and nothing is wrong
  std::string what;
  std::string why;
  std::string mend;
};

// What a probe printed ("key=value" lines), or how it failed.
struct Probe {
  bool has_run = false;
  std::string failure;  // "it did not end within 30 s"
  std::map<std::string, std::string> values;
};
// Takes the lines that begin with "kolo-doctor: ".
std::map<std::string, std::string> parse_probe(const std::string& output);

std::vector<Finding> judge_machine(const Machine& machine, const Lookup& environment);
std::vector<Finding> judge_mpi(const Probe& probe);
std::vector<Finding> judge_torch(const Probe& probe);
// The GPUs that CUDA_VISIBLE_DEVICES names, as CUDA takes it: up to a -1, or Slurm's NoDevFiles.
std::vector<std::string> listed_devices(const std::string& visible);
std::vector<Finding> judge_cuda(const Probe& probe, const Lookup& environment);

bool has_problem(const std::vector<Finding>& findings);

// For people: each finding, why it matters and what to do, and a last line.
std::string to_text(const std::vector<Finding>& findings);
// The whole report as one JSON object.
std::string to_json(const std::vector<std::pair<std::string, Rows>>& sections,
                    const std::vector<Finding>& findings);

}  // namespace kolo::cli
