// `kolo dump PID...`: has ranks write down what they did last.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "cli/commands.hpp"
#include "cli/process/system.hpp"
#include "cli/run/dump.hpp"
#include "cli/usage_error.hpp"
#include "core/file.hpp"
#include "core/flight_files.hpp"

namespace kolo::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "Usage: kolo dump PID...\n\n"
    "Asks ranks to write their last operations to files (the flight recorder), and prints their\n"
    "paths; kolo trace diagnose explains the files. PID is a rank, or a process that has started\n"
    "ranks on this computer: kolo run, mpirun. Each rank receives SIGUSR2, as from kill -USR2.\n";

constexpr auto kPatience = std::chrono::seconds(10);

// Returns the parent of a process, from /proc; 0 if the process is gone.
int parent_of(int process) {
  const std::string stat = first_line("/proc/" + std::to_string(process) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(stat.substr(name_end + 1));
  std::string state;
  int parent = 0;
  rest >> state >> parent;
  return parent;
}

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

// Whether a process is a rank: whether it has the thread that handles the signal.
bool is_rank(int process) {
  std::error_code error;
  for (fs::directory_iterator task("/proc/" + std::to_string(process) + "/task", error), end;
       !error && task != end; task.increment(error)) {
    if (first_line(task->path() / "comm") == "kolo-watch") return true;
  }
  return false;
}

// Returns the ranks among a process and its descendants.
std::set<int> ranks_below(int process) {
  std::multimap<int, int> children;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto child = number(entry->path().filename().string()))
      children.emplace(parent_of(*child), *child);
  }
  std::set<int> ranks;
  std::vector<int> left = {process};
  while (!left.empty()) {
    const int one = left.back();
    left.pop_back();
    if (is_rank(one)) ranks.insert(one);
    const auto [begin, end] = children.equal_range(one);
    for (auto child = begin; child != end; ++child) left.push_back(child->second);
  }
  return ranks;
}

std::string variable_of(int process, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

// Returns the folder that default_flight_folder() of the library returns there, without the job's
// part.
fs::path folder_of(int process) {
  const std::string given = variable_of(process, "KOLO_FLIGHT_RECORDER_DIR");
  if (!given.empty())
    return fs::path("/proc/" + std::to_string(process) + "/cwd") / given;  // or an absolute one
  struct stat owner {};
  const std::string own = "/proc/" + std::to_string(process);
  if (::stat(own.c_str(), &owner) != 0) return {};
  const std::string temporary = variable_of(process, "TMPDIR");
  return fs::path(temporary.empty() ? "/tmp" : temporary) / flight_folder_name(owner.st_uid);
}

// Returns the flight record that the process has written since then.
std::optional<fs::path> written_by(int process, const fs::path& folder, fs::file_time_type since) {
  std::error_code error;
  const std::string mark = ",\"process\":" + std::to_string(process) + ",";
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().rfind(kFlightPrefix, 0) != 0) continue;
    if (entry->path().extension() != ".json" || entry->last_write_time(error) < since) continue;
    if (first_line(entry->path()).find(mark) == std::string::npos) continue;
    const fs::path whole = fs::canonical(entry->path(), error);
    return error ? entry->path() : whole;
  }
  return std::nullopt;
}

int dump(const std::set<int>& ranks) {
  // Allows for file systems whose clocks tick in steps.
  const auto since = fs::file_time_type::clock::now() - std::chrono::milliseconds(20);
  for (const int rank : ranks) {
    if (::kill(rank, SIGUSR2) != 0) {
      throw std::runtime_error("process " + std::to_string(rank) +
                               " cannot be asked: " + std::generic_category().message(errno));
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::set<std::string> folders;
  int silent = 0;
  for (const int rank : ranks) {
    std::optional<fs::path> path;
    while (!(path = written_by(rank, folder_of(rank), since)) &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (path) {
      std::cout << path->string() << "\n";
      folders.insert(path->parent_path().string());
    } else {
      ++silent;
      std::cerr << "process " << rank << " has written nothing for "
                << std::chrono::seconds(kPatience).count()
                << " s: it is stopped, or catches SIGUSR2 itself\n";
    }
  }
  for (const std::string& folder : folders)
    std::cerr << "kolo trace diagnose " << folder << " shows what they wait for\n";
  return silent == 0 ? 0 : 1;
}

}  // namespace

std::string dump_intro() {
  return kUsage;
}

int dump_command(const Arguments& arguments) {
  if (arguments == Arguments{"--help"} || arguments == Arguments{"-h"}) {
    std::cout << help_of("dump");
    return 0;
  }
  if (arguments.empty()) throw UsageError("dump: name a process; see kolo dump --help");
  std::set<int> ranks;
  for (const std::string& word : arguments) {
    const std::optional<int> process = number(word);
    if (!process) throw UsageError("dump: '" + word + "' is not a process number");
    const std::set<int> below = ranks_below(*process);
    if (below.empty()) {
      throw std::runtime_error("process " + word +
                               " is not a rank of kolo, and has started no rank on this computer");
    }
    ranks.insert(below.begin(), below.end());
  }
  return dump(ranks);
}

}  // namespace kolo::cli
