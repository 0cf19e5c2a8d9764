#include "core/control_group.hpp"

#include <sys/stat.h>
#include <limits>

#include <charconv>
#include <fstream>
#include <sstream>

#include "core/file.hpp"

namespace kolo {
namespace {

enum class Version : std::uint8_t { kFirst, kSecond };

struct ControlGroup {
  std::string folder;
  Version version;
};

// A line of /proc/self/mountinfo: the part of a hierarchy that is mounted, and where.
struct Mount {
  std::string top;
  std::string point;
  Version version = Version::kSecond;
  std::string controllers;  // of version 1: "rw,cpu,cpuacct"
};

bool lists(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

// Undoes the kernel's escapes: it writes a blank in a path as \040.
std::string unescaped(const std::string& text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(digits, digits + 3, byte, 8).ptr == digits + 3) {
      path += static_cast<char>(byte);
      i += 3;
    } else {
      path += text[i];
    }
  }
  return path;
}

// "ID PARENT MAJOR:MINOR TOP POINT OPTIONS [MORE...] - TYPE SOURCE OPTIONS"
std::optional<Mount> parse_mount(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream before(line.substr(0, dash));
  std::istringstream behind(line.substr(dash + 3));
  std::string skipped;
  std::string type;
  Mount mount;
  before >> skipped >> skipped >> skipped >> mount.top >> mount.point;
  behind >> type >> skipped >> mount.controllers;
  if (!before || (type != "cgroup" && type != "cgroup2")) return std::nullopt;
  mount.version = type == "cgroup2" ? Version::kSecond : Version::kFirst;
  mount.top = unescaped(mount.top);
  mount.point = unescaped(mount.point);
  return mount;
}

// Returns the path of a group below the top of a mount. Empty if the group is not inside, as in a
// container that has no namespace of control groups; its mount begins at the container's own group.
std::string below(const std::string& path, const std::string& top) {
  const std::string begin = top == "/" ? "" : top;
  const bool is_inside =
      path.compare(0, begin.size(), begin) == 0 && path.find("/..") == std::string::npos;
  const std::string rest = is_inside ? path.substr(begin.size()) : "";
  return rest.empty() || rest.front() != '/' || rest == "/" ? "" : rest;
}

// Adds the process's group in a mount, and the groups around it up to the mount's top.
void add_groups(const Mount& mount, const std::string& path, std::vector<ControlGroup>& groups) {
  for (std::string part = below(path, mount.top);; part.erase(part.rfind('/'))) {
    groups.push_back({mount.point + part, mount.version});
    if (part.empty()) return;
  }
}

// Returns the process's groups of one controller. A line of /proc/self/cgroup is
// "ID:CONTROLLERS:PATH"; version 2 names no controllers.
std::vector<ControlGroup> groups_of(const std::string& controller, const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream table(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    if (auto mount = parse_mount(line)) mounts.push_back(std::move(*mount));
  }
  std::vector<ControlGroup> groups;
  std::ifstream own(root + "/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !lists(controllers, controller)) continue;
    const Version version = controllers.empty() ? Version::kSecond : Version::kFirst;
    for (const Mount& mount : mounts) {
      if (mount.version != version) continue;
      if (version == Version::kFirst && !lists(mount.controllers, controller)) continue;
      add_groups(mount, line.substr(second + 1), groups);
    }
  }
  for (ControlGroup& group : groups) group.folder.insert(0, root);
  return groups;
}

std::int64_t number(const std::string& text) {
  std::int64_t value = -1;
  std::istringstream(text) >> value;
  return value;
}

// Returns the quota in cores, or 0 if none is set. Version 2 writes "QUOTA PERIOD" or "max
// PERIOD" into one file; version 1 has two files, and -1 for no quota.
double quota_of(const ControlGroup& group) {
  std::string quota;
  std::string period;
  if (group.version == Version::kSecond) {
    std::istringstream(first_line(group.folder + "/cpu.max")) >> quota >> period;
    if (quota == "max") return 0;
  } else {
    quota = first_line(group.folder + "/cpu.cfs_quota_us");
    period = first_line(group.folder + "/cpu.cfs_period_us");
  }
  const std::int64_t length = number(period);
  const std::int64_t time = number(quota);
  return length > 0 && time > 0 ? static_cast<double>(time) / static_cast<double>(length) : 0;
}

// Returns the number after a key in a file of lines "KEY NUMBER", or -1 if it is not there.
std::int64_t value_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t value = -1;
    if (words >> name >> value && name == key) return value;
  }
  return -1;
}

// Returns the limit in bytes, or -1 if none is set.
std::int64_t memory_limit_of(const ControlGroup& group) {
  constexpr std::int64_t kNone = std::int64_t{1} << 60;  // version 1 writes nearly 2^63 for "none"
  const char* const file =
      group.version == Version::kSecond ? "/memory.max" : "/memory.limit_in_bytes";
  const std::int64_t limit = number(first_line(group.folder + file));  // -1 for "max"
  return limit > 0 && limit < kNone ? limit : -1;
}

// Returns the bytes in use, without those that the kernel would give back: cached files that nobody
// has used lately.
std::int64_t memory_in_use(const ControlGroup& group) {
  const bool is_second = group.version == Version::kSecond;
  const std::int64_t all =
      number(first_line(group.folder + (is_second ? "/memory.current" : "/memory.usage_in_bytes")));
  const std::int64_t kept =
      value_in(group.folder + "/memory.stat", is_second ? "inactive_file" : "total_inactive_file");
  return std::max<std::int64_t>(0, all - std::max<std::int64_t>(0, kept));
}

// Identifies a control group by its inode, which is the same whatever part of the tree is mounted
// where.
std::string identity(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return folder;
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

}  // namespace

std::vector<CpuQuota> cpu_quotas(const std::string& root) {
  std::vector<CpuQuota> quotas;
  for (const ControlGroup& group : groups_of("cpu", root)) {
    if (const double cores = quota_of(group); cores > 0)
      quotas.push_back({cores, identity(group.folder)});
  }
  return quotas;
}

std::optional<double> least_cores(const std::vector<CpuQuota>& quotas) {
  std::optional<double> least;
  for (const CpuQuota& quota : quotas) {
    if (!least || quota.cores < *least) least = quota.cores;
  }
  return least;
}

std::int64_t memory_limit(const std::string& root) {
  std::int64_t least = -1;
  for (const ControlGroup& group : groups_of("memory", root)) {
    const std::int64_t limit = memory_limit_of(group);
    if (limit != -1 && (least == -1 || limit < least)) least = limit;
  }
  return least;
}

std::uint64_t available_memory(const std::string& root) {
  const std::int64_t kilobytes = value_in(root + "/proc/meminfo", "MemAvailable:");
  std::uint64_t least = kilobytes < 0 ? std::numeric_limits<std::uint64_t>::max()
                                      : static_cast<std::uint64_t>(kilobytes) << 10U;
  for (const ControlGroup& group : groups_of("memory", root)) {
    const std::int64_t limit = memory_limit_of(group);
    if (limit == -1) continue;
    const std::int64_t left = std::max<std::int64_t>(0, limit - memory_in_use(group));
    least = std::min(least, static_cast<std::uint64_t>(left));
  }
  return least;
}

}  // namespace kolo
