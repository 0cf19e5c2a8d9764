#include "cli/doctor/job_report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "core/host.hpp"
#include "core/ranks.hpp"

namespace kolo::cli {
namespace {

std::string with_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.1f" : "%.0f", value);
  return text.data();
}

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string cores_of(const RankReport& report) {
  const std::optional<double> quota = least_cores(report.quotas);
  return counted(report.cores.size(), "core") + ": " + core_list(report.cores) +
         (quota ? ", CPU quota " + show_cores(*quota) : "");
}

Rows rows_of(const RankReport& report) {
  const int device = device_of(report);
  return {{"rank", std::to_string(report.rank)},
          {"node", report.host},
          {"local rank", std::to_string(report.local_rank)},
          {"cores", cores_of(report)},
          {"threads", report.threads == 0 ? "not set" : std::to_string(report.threads)},
          {"device", device < 0 ? "none" : report.devices[static_cast<std::size_t>(device)]},
          {"memory limit", show_bytes(report.memory_limit_bytes)},
          {"copies GB/s", with_digits(report.copy_gigabytes_per_second)}};
}

using Reports = std::vector<RankReport>;
using Findings = std::vector<Finding>;

std::map<int, Reports> by_node(const Reports& reports) {
  std::map<int, Reports> nodes;
  for (const RankReport& report : reports) nodes[report.node].push_back(report);
  return nodes;
}

std::string who(const std::vector<int>& ranks, const std::string& host) {
  return rank_list(ranks) + " on " + host;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::size_t threads_of(const RankReport& report) {
  return report.threads > 0 ? static_cast<std::size_t>(report.threads) : report.cores.size();
}

// Judges ranks that may run on all of the job's cores on the node: the system moves them about.
void judge_unbound(const Reports& node, Findings& findings) {
  std::vector<int> ranks;
  std::size_t threads = 0;
  for (const RankReport& report : node) {
    ranks.push_back(report.rank);
    threads += threads_of(report);
  }
  const std::size_t cores = node.front().cores.size();
  const std::string together = who(ranks, node.front().host) + " share " + counted(cores, "core");
  if (threads > cores) {
    findings.push_back({true, together + ", for " + counted(threads, "thread"),
                        "threads that share a core take turns, and all ranks wait for the slowest",
                        "start fewer ranks a node, set OMP_NUM_THREADS lower (unset, it means all "
                        "cores), or ask for more cores"});
  } else {
    findings.push_back({false, together + ": they are not bound",
                        "the system may move them away from their memory and caches",
                        "kolo run binds ranks; srun does with --cpu-bind=cores"});
  }
}

// Reports ranks that are bound but share cores.
void judge_overlap(const Reports& node, Findings& findings) {
  std::map<int, std::vector<int>> users;  // by core
  for (const RankReport& report : node) {
    for (const int core : report.cores) users[core].push_back(report.rank);
  }
  std::map<std::vector<int>, std::vector<int>> cores;  // by the ranks that share them
  for (const auto& [core, ranks] : users) {
    if (ranks.size() > 1) cores[ranks].push_back(core);
  }
  for (const auto& [ranks, shared] : cores) {
    findings.push_back({true,
                        who(ranks, node.front().host) + " may run on the same " +
                            counted(shared.size(), "core") + " (" + core_list(shared) + ")",
                        "threads that share a core take turns, and all ranks wait for the slowest",
                        "leave binding to one of srun, mpirun and kolo run; ask for as many cores "
                        "as ranks x threads"});
  }
}

void judge_threads(const Reports& node, Findings& findings) {
  for (const RankReport& report : node) {
    if (static_cast<std::size_t>(report.threads) <= report.cores.size()) continue;
    findings.push_back({true,
                        who({report.rank}, report.host) + " has " +
                            counted(static_cast<std::size_t>(report.threads), "thread") + " on " +
                            counted(report.cores.size(), "core"),
                        "threads that share a core take turns",
                        "set OMP_NUM_THREADS to the number of cores, or bind ranks to more "
                        "(--cpus-per-task)"});
  }
}

// Judges CPU quotas. Ranks in one control group share its quota. If several quotas hold for the
// same ranks, the lowest counts.
void judge_quotas(const Reports& node, Findings& findings) {
  struct Users {
    double cores = 0;
    std::vector<int> ranks;
    std::size_t threads = 0;
  };
  std::map<std::string, Users> groups;
  for (const RankReport& report : node) {
    for (const CpuQuota& quota : report.quotas) {
      Users& users = groups[quota.group];
      users.cores = quota.cores;
      users.ranks.push_back(report.rank);
      users.threads += threads_of(report);
    }
  }
  std::map<std::vector<int>, Users> least;  // by the ranks that share it
  for (const auto& [group, users] : groups) {
    const auto [known, is_new] = least.emplace(users.ranks, users);
    if (!is_new && users.cores < known->second.cores) known->second = users;
  }
  for (const auto& [ranks, users] : least) {
    if (static_cast<double>(users.threads) <= std::max(1.0, users.cores)) continue;
    findings.push_back(
        {true,
         who(ranks, node.front().host) + (ranks.size() == 1 ? " has" : " share") +
             " a CPU quota of " + show_cores(users.cores) + ", for " +
             counted(users.threads, "thread"),
         "once it is used up, the system stops them for the rest of each period, and all ranks "
         "wait",
         "raise it (docker --cpus, limits.cpu of Kubernetes), start fewer ranks a node, or set "
         "OMP_NUM_THREADS lower"});
  }
}

// Returns whether each rank has enough cores; otherwise its speed says nothing about the machine.
bool judge_cores(const Reports& node, Findings& findings) {
  const std::size_t before = findings.size();
  const auto same = [&](const RankReport& report) { return report.cores == node.front().cores; };
  if (node.size() > 1 && std::all_of(node.begin(), node.end(), same)) {
    judge_unbound(node, findings);
  } else {
    judge_overlap(node, findings);
    judge_threads(node, findings);
  }
  judge_quotas(node, findings);
  return std::none_of(findings.begin() + static_cast<std::ptrdiff_t>(before), findings.end(),
                      [](const Finding& finding) { return finding.is_problem; });
}

void judge_devices(const Reports& node, Findings& findings) {
  std::set<std::string> all;
  std::map<std::string, std::vector<int>> users;
  std::size_t given = 0;
  for (const RankReport& report : node) {
    all.insert(report.devices.begin(), report.devices.end());
    given = std::max(given, static_cast<std::size_t>(report.node_devices));
    const int device = device_of(report);
    if (device >= 0) users[report.devices[static_cast<std::size_t>(device)]].push_back(report.rank);
  }
  for (const auto& [device, ranks] : users) {
    if (ranks.size() < 2) continue;
    findings.push_back({true, who(ranks, node.front().host) + " share GPU " + device,
                        "each has half of it at most, and NCCL refuses it",
                        "start one rank per GPU (--ntasks-per-node, kolo run --gpus)"});
  }
  const std::size_t there = std::max(given, all.size());
  if (there <= users.size()) return;
  findings.push_back(
      {true,
       counted(there - users.size(), "GPU") + " of " + std::to_string(there) + " on " +
           node.front().host + (there - users.size() == 1 ? " is idle" : " are idle"),
       "the job has it, and does not use it",
       "start one rank per GPU (--ntasks-per-node, kolo run --gpus), or ask for fewer GPUs"});
}

void judge_copies(const Reports& reports, Findings& findings) {
  std::vector<double> all;
  all.reserve(reports.size());
  for (const RankReport& report : reports) all.push_back(report.copy_gigabytes_per_second);
  const double usual = median(all);
  for (const RankReport& report : reports) {
    if (2 * report.copy_gigabytes_per_second >= usual) continue;
    findings.push_back({true,
                        who({report.rank}, report.host) + " copies memory at " +
                            with_digits(report.copy_gigabytes_per_second) +
                            " GB/s; the median is " + with_digits(usual),
                        "all ranks wait for the slowest",
                        "look for other programs there, memory of another NUMA node, or a broken "
                        "memory module; leave the node out (--exclude)"});
  }
}

void judge_network(const std::map<int, Reports>& nodes, Findings& findings) {
  if (nodes.size() < 2) return;
  std::vector<double> all;
  all.reserve(nodes.size());
  for (const auto& [node, reports] : nodes) {
    all.push_back(reports.front().network_gigabytes_per_second);
  }
  const double usual = median(all);
  const Reports* before = &nodes.rbegin()->second;
  for (const auto& [node, reports] : nodes) {
    const double speed = reports.front().network_gigabytes_per_second;
    if (2 * speed < usual) {
      findings.push_back({true,
                          "the network gives " + with_digits(speed) + " GB/s from " +
                              before->front().host + " to " + reports.front().host +
                              "; the median is " + with_digits(usual),
                          "all ranks wait for the slowest",
                          "look at cables and links (ibstat, ethtool); see that MPI takes the fast "
                          "network; leave the node out (--exclude)"});
    }
    before = &reports;
  }
}

std::vector<int> read_numbers(std::istream& in) {
  std::size_t count = 0;
  in >> count;
  std::vector<int> numbers;
  for (int number = 0; numbers.size() < count && in >> number;) numbers.push_back(number);
  return numbers;
}

}  // namespace

std::string encode(const RankReport& report) {
  std::ostringstream out;
  out << report.rank << ' ' << report.local_rank << ' ' << report.node << ' '
      << std::quoted(report.host) << ' ' << report.cores.size();
  for (const int core : report.cores) out << ' ' << core;
  out << ' ' << report.quotas.size();
  for (const CpuQuota& quota : report.quotas)
    out << ' ' << quota.cores << ' ' << std::quoted(quota.group);
  out << ' ' << report.threads << ' ' << report.devices.size();
  for (const std::string& device : report.devices) out << ' ' << std::quoted(device);
  out << ' ' << report.node_devices << ' ' << report.memory_limit_bytes << ' '
      << report.copy_gigabytes_per_second << ' ' << report.network_gigabytes_per_second;
  return out.str();
}

RankReport decode(const std::string& line) {
  RankReport report;
  std::istringstream in(line);
  in >> report.rank >> report.local_rank >> report.node >> std::quoted(report.host);
  report.cores = read_numbers(in);
  std::size_t quotas = 0;
  in >> quotas;
  for (CpuQuota quota;
       report.quotas.size() < quotas && in >> quota.cores >> std::quoted(quota.group);)
    report.quotas.push_back(quota);
  std::size_t devices = 0;
  in >> report.threads >> devices;
  for (std::string device; report.devices.size() < devices && in >> std::quoted(device);) {
    report.devices.push_back(device);
  }
  in >> report.node_devices >> report.memory_limit_bytes >> report.copy_gigabytes_per_second >>
      report.network_gigabytes_per_second;
  if (!in) throw std::invalid_argument("this is not the report of a rank: '" + line + "'");
  return report;
}

int device_of(const RankReport& report) {
  if (report.devices.empty()) return -1;
  return report.local_rank % static_cast<int>(report.devices.size());
}

std::vector<std::pair<std::string, Rows>> job_sections(const Reports& reports) {
  std::vector<std::pair<std::string, Rows>> sections;
  for (const RankReport& report : reports) {
    sections.emplace_back("rank " + std::to_string(report.rank), rows_of(report));
  }
  return sections;
}

std::string job_table(const Reports& reports) {
  std::vector<Rows> table;
  for (const RankReport& report : reports) table.push_back(rows_of(report));
  if (table.empty()) return {};
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.front().size(); ++i) {
    std::size_t width = table.front()[i].first.size();
    for (const Rows& row : table) width = std::max(width, row[i].second.size());
    widths.push_back(width + 2);
  }
  std::ostringstream text;
  const auto write = [&](const Rows& row, bool is_head) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string& cell = is_head ? row[i].first : row[i].second;
      line += cell + std::string(widths[i] - cell.size(), ' ');
    }
    text << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  };
  write(table.front(), true);
  for (const Rows& row : table) write(row, false);
  const std::map<int, Reports> nodes = by_node(reports);
  const Reports* before = &nodes.rbegin()->second;
  for (const auto& [node, ranks] : nodes) {
    if (nodes.size() > 1) {
      text << "network, " << before->front().host << " to " << ranks.front().host << ": "
           << with_digits(ranks.front().network_gigabytes_per_second) << " GB/s\n";
    }
    before = &ranks;
  }
  return text.str();
}

std::vector<Finding> judge_job(const Reports& reports) {
  Findings findings;
  if (reports.empty()) return findings;
  const std::map<int, Reports> nodes = by_node(reports);
  bool is_measured_well = true;
  for (const auto& [node, ranks] : nodes) {
    is_measured_well = judge_cores(ranks, findings) && is_measured_well;
    judge_devices(ranks, findings);
  }
  if (is_measured_well) judge_copies(reports, findings);
  judge_network(nodes, findings);
  return findings;
}

}  // namespace kolo::cli
