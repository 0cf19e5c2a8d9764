#include "cli/doctor/machine.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "cli/process/system.hpp"
#include "core/control_group.hpp"
#include "core/file.hpp"

namespace kolo::cli {
namespace {

// Returns the value of "Name:   123 kB" or "Name:\t0-3" in a file of /proc.
std::string field(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, name.size() + 1, name + ":") != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", name.size() + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

std::int64_t memory_field(const std::string& name) {
  std::int64_t kibibytes = 0;
  std::istringstream(field("/proc/meminfo", name)) >> kibibytes;
  return kibibytes * 1024;
}

// Returns "madvise" for "always [madvise] never".
std::string chosen(const std::string& line) {
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) return line;
  return line.substr(open + 1, close - open - 1);
}

}  // namespace

bool has_cuda() {
  return !std::string(KOLO_CUDA_VERSION).empty();
}

std::string mpi_built_with() {
  return KOLO_MPI_LIBRARY;
}

// The one place that knows what this build contains.
Rows built_in() {
  const char* const cuda = has_cuda() ? KOLO_CUDA_VERSION : "not built in";
  const char* const nccl = has_cuda() ? KOLO_NCCL_VERSION : "not built in";
  return {{"kolo", KOLO_VERSION},
          {"compiler", KOLO_COMPILER},
          {"build type", KOLO_BUILD_TYPE},
          {"CUDA", cuda},
          {"NCCL", nccl},
          {"HDF5", KOLO_HDF5_VERSION}};
}

Machine examine_machine() {
  Machine machine;
  machine.host = host_name();
  machine.cores = available_cores();
  machine.online_cpus = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  machine.cpu_quota = least_cores(cpu_quotas());
  machine.affinity = field("/proc/self/status", "Cpus_allowed_list");
  machine.memory_bytes = memory_field("MemTotal");
  machine.memory_available_bytes = memory_field("MemAvailable");
  machine.memory_limit_bytes = memory_limit();
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) {
    machine.shm_bytes = static_cast<std::int64_t>(shm.f_blocks * shm.f_frsize);
    machine.shm_free_bytes = static_cast<std::int64_t>(shm.f_bavail * shm.f_frsize);
  }
  std::istringstream(field("/proc/meminfo", "HugePages_Total")) >> machine.huge_pages;
  machine.transparent_huge_pages =
      chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  machine.shared_huge_pages =
      chosen(first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  rlimit locked{};
  if (::getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY) {
    machine.locked_memory_bytes = static_cast<std::int64_t>(locked.rlim_cur);
  }
  machine.is_root = ::geteuid() == 0;
  return machine;
}

std::string show_cores(double cores) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g %s", cores, cores == 1 ? "core" : "cores");
  return text.data();
}

std::string show_bytes(std::int64_t bytes) {
  if (bytes < 0) return "unlimited";
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value,
                kUnits[unit]);
  return text.data();
}

}  // namespace kolo::cli
