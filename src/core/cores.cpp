#include "core/cores.hpp"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <thread>

#include "core/host.hpp"

namespace kolo {
namespace {

bool may_use(const CpuAccess& access, int core) {
  return std::find(access.cores.begin(), access.cores.end(), core) != access.cores.end();
}

bool is_held_by(const CpuAccess& access, const std::string& group) {
  return std::any_of(access.quotas.begin(), access.quotas.end(),
                     [&](const CpuQuota& quota) { return quota.group == group; });
}

}  // namespace

CpuAccess cpu_access() {
  CpuAccess access{usable_cores(), cpu_quotas()};
  if (access.cores.empty()) {
    access.cores.resize(std::max(1U, std::thread::hardware_concurrency()));
    std::iota(access.cores.begin(), access.cores.end(), 0);
  }
  return access;
}

std::string encode(const CpuAccess& access) {
  std::ostringstream text;
  text << access.cores.size();
  for (const int core : access.cores) text << ' ' << core;
  for (const CpuQuota& quota : access.quotas)
    text << ' ' << quota.cores << ' ' << std::quoted(quota.group);
  return text.str();
}

CpuAccess decode_cpu_access(const std::string& text) {
  CpuAccess access;
  std::istringstream words(text);
  std::size_t count = 0;
  words >> count;
  for (int core = 0; access.cores.size() < count && words >> core;) access.cores.push_back(core);
  for (CpuQuota quota; words >> quota.cores >> std::quoted(quota.group);)
    access.quotas.push_back(quota);
  return access;
}

double share_of_node(const std::vector<CpuAccess>& node, std::size_t process) {
  const CpuAccess& own = node[process];
  double share = 0;
  for (const int core : own.cores) {
    const auto sharers = std::count_if(node.begin(), node.end(),
                                       [&](const CpuAccess& one) { return may_use(one, core); });
    share += 1.0 / static_cast<double>(sharers);
  }
  for (const CpuQuota& quota : own.quotas) {
    const auto sharers = std::count_if(node.begin(), node.end(), [&](const CpuAccess& one) {
      return is_held_by(one, quota.group);
    });
    share = std::min(share, quota.cores / static_cast<double>(sharers));
  }
  return share;
}

}  // namespace kolo
