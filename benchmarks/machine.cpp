#include "benchmarks/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/host.hpp"

namespace kolo::bench {
namespace {

// The value of the first line "NAME   : VALUE".
std::string field(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind(name, 0) != 0 || colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// "Open MPI v5.0.8, package: ..." or "MPICH Version:      4.0.2\nMPICH ...": the first part, with
// single spaces.
std::string short_library_name(const std::string& text) {
  std::istringstream words(text.substr(0, text.find_first_of(",\n")));
  std::string name;
  for (std::string word; words >> word;) name += (name.empty() ? "" : " ") + word;
  return name;
}

bool is_setting_of_kolo(const std::string& variable) {
  static constexpr const char* kPlaces[] = {
      "KOLO_TORCH=", "KOLO_MPI=", "KOLO_MPIRUN=", "KOLO_WERROR="};
  if (variable.rfind("KOLO_", 0) != 0 && variable.rfind("HOROVOD_", 0) != 0) return false;
  return std::none_of(std::begin(kPlaces), std::end(kPlaces),
                      [&](const char* place) { return variable.rfind(place, 0) == 0; });
}

// As a shell takes it.
std::string quoted(const std::string& word) {
  const bool plain =
      !word.empty() && word.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                           "_-+=./:,@%") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char character : word)
    text += character == '\'' ? std::string("'\\''") : std::string(1, character);
  return text + "'";
}

int machine_cores() {
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

std::string describe_machine(const std::string& cpuinfo, int cores, const std::string& kernel,
                             const std::string& mpi_library) {
  std::string model = field(cpuinfo, "model name");
  if (model.empty()) model = field(cpuinfo, "Model");
  if (model.empty()) model = "unknown CPU";
  return model + ", " + std::to_string(cores) + (cores == 1 ? " core, " : " cores, ") + kernel +
         ", " + short_library_name(mpi_library);
}

std::string describe_placement(const std::vector<std::string>& cores_by_rank, int nodes) {
  std::string text = nodes > 1 ? std::to_string(nodes) + " nodes, " : "";
  const auto unbound = [](const std::string& cores) { return cores.empty(); };
  if (std::all_of(cores_by_rank.begin(), cores_by_rank.end(), unbound)) return text + "unbound";
  text += "by rank bound to cores";
  for (const std::string& cores : cores_by_rank) text += " " + (cores.empty() ? "any" : cores);
  return text;
}

std::string describe_command(const std::vector<std::string>& environment, int ranks,
                             const std::vector<std::string>& arguments) {
  std::string command;
  for (const std::string& variable : environment) {
    if (is_setting_of_kolo(variable)) command += quoted(variable) + " ";
  }
  command += "kolo bench";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    command += " " + quoted(arguments[i]);
    if (i == 0) command += " -np " + std::to_string(ranks);
  }
  return command;
}

// --- of this machine ---

std::string describe_this_machine(const std::string& mpi_library) {
  std::ostringstream cpuinfo;
  cpuinfo << std::ifstream("/proc/cpuinfo").rdbuf();
  utsname name = {};
  const bool known = uname(&name) == 0;
  const std::string kernel =
      known ? std::string(name.sysname) + " " + name.release : "unknown kernel";
  return describe_machine(cpuinfo.str(), machine_cores(), kernel, mpi_library);
}

std::string bound_cores() {
  const std::vector<int> cores = usable_cores();
  return static_cast<int>(cores.size()) < machine_cores() ? core_list(cores) : "";
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  if (gmtime_r(&now, &utc) == nullptr) return "";
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace kolo::bench
