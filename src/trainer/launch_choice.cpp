#include "trainer/launch_choice.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/file.hpp"
#include "core/launched.hpp"
#include "kolo/error.h"

namespace kolo::trainer {
namespace {

constexpr const char* kSize = "--np";

int size_of(const std::string& text) {
  int size = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, size);
  if (error != std::errc() || rest != end || size < 1)
    throw InvalidArgumentError("launch: --np is \"" + text + "\"; it must be a number of ranks");
  return size;
}

// Removes --np N or --np=N from the arguments, and returns N.
std::optional<int> take_size(std::vector<std::string>& arguments) {
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    if (*argument == "--") return std::nullopt;
    const std::string with_value = std::string(kSize) + "=";
    if (argument->compare(0, with_value.size(), with_value) == 0) {
      const int size = size_of(argument->substr(with_value.size()));
      arguments.erase(argument);
      return size;
    }
    if (*argument != kSize) continue;
    if (argument + 1 == arguments.end())
      throw InvalidArgumentError("launch: --np needs a number of ranks");
    const int size = size_of(*(argument + 1));
    arguments.erase(argument, argument + 2);
    return size;
  }
  return std::nullopt;
}

std::string text_of(const char* variable) {
  return variable == nullptr ? "" : variable;
}

// Whether srun has started one task on each node.
bool is_one_task_a_node(const LaunchedSize& launched,
                        const std::function<const char*(const char*)>& get) {
  return launched.variable == "SLURM_STEP_NUM_TASKS" &&
         text_of(get("SLURM_STEP_NUM_NODES")) == std::to_string(launched.size);
}

bool is_in_batch_job(const std::function<const char*(const char*)>& get) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"}) {
    if (get(name) != nullptr) return true;
  }
  return false;
}

// Whether a Linux list such as "0-3,8" contains one of the cores.
bool has_core(const std::string& list, const std::vector<int>& cores) {
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc()) return false;
    int last = first;
    if (parsed.ptr < end && *parsed.ptr == '-') parsed = std::from_chars(parsed.ptr + 1, end, last);
    for (const int core : cores) {
      if (core >= first && core <= last) return true;
    }
    at = parsed.ptr + 1;
  }
  return false;
}

}  // namespace

LaunchChoice choose_launch(const std::vector<std::string>& arguments,
                           const std::function<const char*(const char*)>& get,
                           const std::function<Machine()>& machine) {
  LaunchChoice choice;
  choice.arguments = arguments;
  const std::optional<LaunchedSize> launched = launched_size(get);
  const std::optional<int> size = take_size(choice.arguments);
  if (size) choice.run_options = {"-np", std::to_string(*size)};
  if (launched) {
    choice.is_rank = !is_one_task_a_node(*launched, get) || machine().gpus < 2;
    if (choice.is_rank && size) {
      throw InvalidArgumentError("launch: --np is for a program that is started plainly; " +
                                 std::to_string(launched->size) +
                                 " ranks have been started already (" + launched->variable + ")");
    }
    return choice;
  }
  choice.is_rank = false;
  if (size || is_in_batch_job(get)) return choice;
  const Machine own = machine();
  const int ranks = own.gpus > 0 ? own.gpus : own.numa_nodes;
  choice.is_rank = ranks == 1;
  choice.run_options = {"-np", std::to_string(ranks)};
  return choice;
}

int count_numa_nodes(const std::string& folder, const std::vector<int>& cores) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("node", 0) != 0) continue;
    if (has_core(first_line(entry.path().string() + "/cpulist"), cores)) ++count;
  }
  return std::max(1, count);
}

}  // namespace kolo::trainer
