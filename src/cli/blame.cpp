#include "cli/blame.hpp"

#include <algorithm>
#include <iterator>

#include "core/ranks.hpp"

namespace kolo::cli {
namespace {

bool launcher_knows_better(const JobRecord& record, const Failure* first) {
  if (!record.launcher) return false;
  const int rank = record.launcher->rank;
  if (record.launcher->is_abort) return first == nullptr || first->rank == rank;
  return std::none_of(record.failures.begin(), record.failures.end(),
                      [&](const Failure& failure) { return failure.rank == rank; });
}

}  // namespace

std::string hosts_of_one_name(const std::map<int, Started>& started) {
  std::map<std::string, std::map<std::string, std::vector<int>>> ranks_by_name;  // and by machine
  for (const auto& [rank, where] : started) {
    if (!where.machine.empty()) ranks_by_name[where.host][where.machine].push_back(rank);
  }
  for (const auto& [name, machines] : ranks_by_name) {
    if (machines.size() < 2) continue;
    return rank_list(machines.begin()->second) + " and " +
           rank_list(std::next(machines.begin())->second) +
           " are on two hosts that both call themselves '" + name + "'";
  }
  return {};
}

std::vector<int> ranks_unheard_of(const JobRecord& record, int size) {
  std::set<int> heard_of = record.succeeded;
  for (const Failure& failure : record.failures) heard_of.insert(failure.rank);
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (heard_of.count(rank) == 0) missing.push_back(rank);
  }
  return missing;
}

std::optional<Verdict> verdict(const JobRecord& record) {
  const Failure* first = first_failure(record.failures);
  if (launcher_knows_better(record, first)) {
    std::string text = "rank " + std::to_string(record.launcher->rank);
    const auto started = record.started.find(record.launcher->rank);
    if (started != record.started.end()) text += " on host " + started->second.host;
    return Verdict{text + " " + record.launcher->what, std::nullopt};
  }
  if (first == nullptr) return std::nullopt;
  return Verdict{sentence(*first), exit_code(first->ended)};
}

}  // namespace kolo::cli
