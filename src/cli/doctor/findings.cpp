#include "cli/doctor/findings.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/json.hpp"
#include "core/variables.hpp"

namespace kolo::cli {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// Docker's default is 64 MiB. Open MPI alone takes a few MiB a rank, and gradients also pass
// through it.
constexpr std::int64_t kEnoughShm = 512 * kMiB;
constexpr std::size_t kMostShown = 20;  // a fault may hold for every node of a large job
constexpr std::int64_t kEnoughLocked = 64 * kMiB;

std::string value(const Probe& probe, const std::string& key) {
  const auto found = probe.values.find(key);
  return found == probe.values.end() ? std::string() : found->second;
}

void judge_memory(const Machine& machine, std::vector<Finding>& findings) {
  if (machine.shm_bytes < kEnoughShm) {
    const std::string size = machine.shm_bytes < 0
                                 ? "/dev/shm is missing"
                                 : "/dev/shm has only " + show_bytes(machine.shm_bytes);
    findings.push_back({true, size,
                        "ranks of one node exchange data there; a job that fills it dies of SIGBUS",
                        "in a container start it with --shm-size=2g; otherwise mount -o "
                        "remount,size=50% /dev/shm"});
  } else if (machine.shm_free_bytes < kEnoughShm) {
    findings.push_back({true, "/dev/shm has only " + show_bytes(machine.shm_free_bytes) + " left",
                        "ranks of one node exchange data there; a job that fills it dies of SIGBUS",
                        "look for what crashed jobs left behind: ls -l /dev/shm"});
  }
  if (machine.locked_memory_bytes >= 0 && machine.locked_memory_bytes < kEnoughLocked) {
    findings.push_back(
        {false, "only " + show_bytes(machine.locked_memory_bytes) + " of memory may be locked",
         "InfiniBand and similar networks lock their buffers; without such a network "
         "nothing is wrong",
         "ulimit -l unlimited, or memlock in /etc/security/limits.conf"});
  }
}

}  // namespace

std::map<std::string, std::string> parse_probe(const std::string& output) {
  constexpr std::string_view kMark = "kolo-doctor: ";
  std::map<std::string, std::string> values;
  std::istringstream lines(output);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const std::size_t equals = line.find('=');
    if (line.compare(0, kMark.size(), kMark) != 0 || equals == std::string::npos) continue;
    values[line.substr(kMark.size(), equals - kMark.size())] = line.substr(equals + 1);
  }
  return values;
}

std::vector<Finding> judge_machine(const Machine& machine, const Lookup& environment) {
  std::vector<Finding> findings;
  const bool allowed = environment("OMPI_ALLOW_RUN_AS_ROOT") == "1" &&
                       environment("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == "1";
  if (machine.is_root && !allowed) {
    findings.push_back({true, "you are root, and Open MPI refuses to start jobs for root",
                        "a mistake could destroy the system",
                        "work as another user; in a container: kolo run --allow-run-as-root, or "
                        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  }
  if (machine.cores < 2) {
    findings.push_back({false, "only one core is available",
                        "two ranks share it, so that training gets no faster",
                        "ask for more cores (taskset, --cpus-per-task, docker --cpus)"});
  }
  if (machine.cpu_quota && *machine.cpu_quota < machine.cores) {
    findings.push_back(
        {false,
         "the CPU quota, " + show_cores(*machine.cpu_quota) + ", is less than the available " +
             show_cores(machine.cores),
         "kolo run divides it among ranks; programs that start a thread for each core start too "
         "many, and are stopped for the rest of each period once the quota is used up",
         "nothing with kolo run; otherwise set OMP_NUM_THREADS, or raise the quota (docker --cpus, "
         "limits.cpu of Kubernetes, CPUQuota= of systemd)"});
  }
  const std::string threads = environment("OMP_NUM_THREADS").value_or("");
  if (!threads.empty() && !parse_threads(threads)) {
    findings.push_back({true, "OMP_NUM_THREADS='" + threads + "' is not a number of threads",
                        "kolo run refuses to start; OpenMP ignores it, so that every rank takes "
                        "all cores of the node",
                        "correct it, or unset it: kolo run sets it"});
  }
  if (threads.empty()) {
    findings.push_back(
        {false, "OMP_NUM_THREADS is not set",
         "kolo run sets it to cores / ranks; started by mpirun or srun directly, every "
         "rank uses all cores of the node and slows the others down",
         "nothing with kolo run; otherwise export OMP_NUM_THREADS"});
  }
  judge_memory(machine, findings);
  return findings;
}

std::vector<Finding> judge_variables(const std::vector<std::string>& names) {
  std::vector<Finding> findings;
  for (const UnknownVariable& variable : unknown_variables(names)) {
    const bool is_misspelt = !variable.meant.empty();
    findings.push_back({is_misspelt,
                        "kolo reads no environment variable " + variable.name +
                            (is_misspelt ? "; is " + variable.meant + " meant?" : ""),
                        "its value has no effect",
                        is_misspelt ? "correct the name, or unset it"
                                    : "nothing if it is yours; kolo help config lists kolo's"});
  }
  return findings;
}

Loaded parse_loaded(const std::string& output) {
  Loaded loaded;
  std::string missing;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::string failed = "error while loading shared libraries: ";
    if (const std::size_t at = line.find(failed); at != std::string::npos)
      loaded.failure = line.substr(at + failed.size());
    std::istringstream words(line);
    std::string name;
    std::string arrow;
    std::string path;
    if (!(words >> name >> arrow >> path) || arrow != "=>") continue;
    if (path == "not") missing += (missing.empty() ? "not found: " : ", ") + name;
    if (path.front() == '/' && (name.rfind("libmpi.", 0) == 0 || name.rfind("libmpich.", 0) == 0))
      loaded.mpi = path;
  }
  if (loaded.failure.empty()) loaded.failure = missing;
  return loaded;
}

namespace {

// Whether two files are one MPI library, though named libmpi.so and libmpi.so.40, say; the former
// may be a file only for the linker. If the library of the build has moved since, assumes that they
// are.
bool are_one_library(const std::filesystem::path& loaded, const std::filesystem::path& built_with) {
  std::error_code error;
  if (!std::filesystem::exists(built_with, error)) return true;
  return std::filesystem::equivalent(loaded, built_with, error) ||
         std::filesystem::equivalent(loaded.parent_path(), built_with.parent_path(), error);
}

}  // namespace

std::vector<Finding> judge_loaded(const Loaded& loaded, const std::string& built_with,
                                  const std::string& search_path) {
  std::string file = loaded.mpi;
  // If the dynamic linker cannot read a file that it found, its message begins with the path.
  if (!loaded.failure.empty() && loaded.failure.front() == '/')
    file = loaded.failure.substr(0, loaded.failure.find(": "));
  const std::string folder = file.substr(0, file.rfind('/'));
  const bool is_searched =
      !folder.empty() && (":" + search_path + ":").find(":" + folder + ":") != std::string::npos;
  const bool is_other = !loaded.mpi.empty() && !are_one_library(loaded.mpi, built_with);
  const std::string other =
      "MPI's library is " + loaded.mpi + ", not " + built_with + ", with which kolo was built";
  const std::string take_away = "remove " + folder + " from LD_LIBRARY_PATH";
  if (!loaded.failure.empty()) {
    return {{true,
             "kolo's programs cannot be loaded: " + loaded.failure +
                 (is_other ? "; " + other : std::string()),
             "your programs cannot be loaded either; MPI, LibTorch and CUDA were not tried",
             is_searched ? take_away
                         : "load the modules with which kolo was built, or put the folder of what "
                           "is missing on LD_LIBRARY_PATH"}};
  }
  if (!is_other) return {};
  return {{false, other, "the two must be of one MPI and of near versions",
           "if ranks do not start, " +
               (is_searched ? take_away : "load the MPI's module with which kolo was built")}};
}

std::vector<Finding> judge_temporary_folder(const std::string& folder, const std::string& fault) {
  if (fault.empty()) return {};
  return {{true, "the folder for temporary files, " + folder + ", cannot be used: " + fault,
           "mpirun keeps files of a job there and does not start without; kolo run takes /tmp "
           "instead, if that can be used",
           "make room there, or set TMPDIR to another folder"}};
}

namespace {

// Whether the launcher is known to belong to another MPI than the library.
bool is_of_another(const MpiParts& parts) {
  const LauncherKind wanted = launcher_kind_of_library(parts.library);
  return wanted != LauncherKind::kUnknown && parts.launcher != LauncherKind::kUnknown &&
         parts.launcher != wanted;
}

std::string of_another(const MpiParts& parts) {
  return parts.launcher_name + " is not the launcher of the MPI library, " + parts.library;
}

}  // namespace

std::vector<Finding> judge_other_launcher(const MpiParts& other) {
  if (!is_of_another(other)) return {};
  return {{false, "mpirun on PATH: " + of_another(other),
           "ranks that it starts itself do not find each other, and kolo::init() refuses them",
           "nothing with kolo run; otherwise put the right mpirun first on PATH"}};
}

std::vector<Finding> judge_mpi(const Probe& probe, const MpiParts& parts) {
  const char* const mend =
      parts.is_other_library
          ? "load the library with which kolo was built, see the note on MPI's library"
          : "name the right launcher: --mpirun, KOLO_MPIRUN, or first on PATH";
  if (!probe.has_run && is_of_another(parts)) {
    return {{true, "two ranks could not be started: " + of_another(parts),
             "nothing runs without MPI; the launcher reported: " + probe.failure, mend}};
  }
  if (!probe.has_run) {
    return {{true, "two ranks could not be started: " + probe.failure, "nothing runs without MPI",
             parts.is_other_library ? mend
                                    : "run the command in the line 'tried' above by hand; check "
                                      "that mpirun and kolo are of the same MPI"}};
  }
  if (value(probe, "mpi.ranks") != "2") {
    return {
        {true,
         "two ranks were started and do not find each other: " +
             (is_of_another(parts) ? of_another(parts)
                                   : "is " + parts.launcher_name +
                                         " of the same MPI as the library, " + parts.library + "?"),
         "kolo::init() refuses them", mend}};
  }
  std::vector<Finding> findings;
  const std::string level = value(probe, "mpi.thread_level");
  if (level == "SINGLE" || level == "FUNNELED") {
    findings.push_back({true, "MPI provides only thread level " + level,
                        "kolo calls MPI from its own thread, so kolo::init() refuses to start",
                        "use an MPI built with MPI_THREAD_MULTIPLE (Open MPI 4 and 5 are)"});
  } else if (level != "MULTIPLE") {
    findings.push_back({false, "MPI provides thread level " + level + ", not MULTIPLE",
                        "kolo works, unless the program calls MPI at the same time",
                        "use an MPI built with MPI_THREAD_MULTIPLE"});
  }
  if (value(probe, "mpi.allreduce") != "right") {
    findings.push_back({true, "MPI_Allreduce over two ranks gave a wrong result",
                        "training would be wrong", "reinstall MPI; run its own tests"});
  }
  return findings;
}

std::vector<Finding> judge_torch(const Probe& probe) {
  if (!probe.has_run) {
    return {{true, "LibTorch could not be used: " + probe.failure, "no training runs without it",
             "run scripts/setup, or put the lib folder of LibTorch on LD_LIBRARY_PATH"}};
  }
  if (value(probe, "torch.cpu_capability") == "DEFAULT") {
    return {
        {false, "LibTorch finds neither AVX2 nor AVX512 (CPU capability DEFAULT)",
         "training on the CPU is several times slower",
         "on a virtual machine pass the host's CPU features through; unset ATEN_CPU_CAPABILITY"}};
  }
  return {};
}

std::vector<std::string> listed_devices(const std::string& visible) {
  std::vector<std::string> names;
  std::istringstream words(visible);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "-1" || word == "NoDevFiles") break;
    names.push_back(word);
  }
  return names;
}

std::vector<Finding> judge_cuda(const Probe& probe, const Lookup& environment, bool has_cuda) {
  const std::string visible = environment("CUDA_VISIBLE_DEVICES").value_or("");
  const std::string count = value(probe, "cuda.devices");
  if (!probe.has_run) {
    return {{has_cuda, "the CUDA driver does not answer: " + probe.failure,
             has_cuda ? "GPUs of this machine cannot be used"
                      : "kolo was built without CUDA and needs no driver",
             has_cuda ? "nvidia-smi; reload the driver or reboot" : "nothing"}};
  }
  if (!has_cuda) return {};
  if (!listed_devices(visible).empty() && (count.empty() || count == "0")) {
    return {{true, "CUDA_VISIBLE_DEVICES=" + visible + " is set, but no device is seen",
             "a program that asks for a GPU fails",
             "unset it, or correct the numbers (nvidia-smi -L)"}};
  }
  return {};
}

bool has_problem(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.is_problem; });
}

std::string to_text(const std::vector<Finding>& findings) {
  std::string text;
  for (std::size_t i = 0; i < std::min(findings.size(), kMostShown); ++i) {
    const Finding& finding = findings[i];
    text += (finding.is_problem ? "WRONG: " : "note:  ") + finding.what +
            "\n       why it matters: " + finding.why + "\n       what to do:     " + finding.mend +
            "\n";
  }
  if (findings.size() > kMostShown) {
    text += "... and " + std::to_string(findings.size() - kMostShown) + " more (--json FILE)\n";
  }
  return text + (has_problem(findings) ? "Something is wrong.\n" : "Nothing is wrong.\n");
}

std::string to_json(const std::vector<std::pair<std::string, Rows>>& sections,
                    const std::vector<Finding>& findings) {
  std::string json = "{";
  for (const auto& [title, rows] : sections) {
    json += json_string(title) + ": {";
    for (std::size_t i = 0; i < rows.size(); ++i) {
      json +=
          (i == 0 ? "" : ", ") + json_string(rows[i].first) + ": " + json_string(rows[i].second);
    }
    json += "},\n ";
  }
  json += "\"findings\": [";
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& f = findings[i];
    json += std::string(i == 0 ? "" : ",") +
            "\n  {\"problem\": " + (f.is_problem ? "true" : "false") +
            ", \"what\": " + json_string(f.what) + ", \"why\": " + json_string(f.why) +
            ", \"mend\": " + json_string(f.mend) + "}";
  }
  return json + "]}\n";
}

}  // namespace kolo::cli
