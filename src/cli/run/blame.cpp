#include "cli/run/blame.hpp"

#include <algorithm>
#include <set>

#include "core/ranks.hpp"

namespace kolo::cli {
namespace {

const RankEnd* end_of(const JobRecord& record, int rank) {
  const auto end = std::find_if(record.ends.begin(), record.ends.end(),
                                [&](const RankEnd& one) { return one.rank == rank; });
  return end == record.ends.end() ? nullptr : &*end;
}

bool launcher_knows_better(const JobRecord& record, const RankEnd* first) {
  if (!record.launcher) return false;
  const int rank = record.launcher->rank;
  if (record.launcher->is_abort)
    return first == nullptr || first->rank == rank || first->ended.lost_peer;
  const RankEnd* const end = end_of(record, rank);
  return end == nullptr || (is_success(end->ended) && (first == nullptr || first == end));
}

}  // namespace

std::string hosts_of_one_name(const std::map<int, Started>& started) {
  std::map<std::string, std::map<std::string, std::vector<int>>> ranks_by_name;  // and by machine
  for (const auto& [rank, where] : started) {
    if (!where.machine.empty()) ranks_by_name[where.host][where.machine].push_back(rank);
  }
  for (const auto& [name, machines] : ranks_by_name) {
    if (machines.size() < 2) continue;
    std::vector<std::vector<int>> ranks;  // of each machine
    for (const auto& [machine, its_ranks] : machines) ranks.push_back(its_ranks);
    std::sort(ranks.begin(), ranks.end());
    return rank_list(ranks[0]) + " and " + rank_list(ranks[1]) +
           " are on two hosts that both call themselves '" + name + "'";
  }
  return {};
}

std::vector<int> ranks_unheard_of(const JobRecord& record, int size) {
  std::set<int> heard_of;
  for (const RankEnd& end : record.ends) heard_of.insert(end.rank);
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (heard_of.count(rank) == 0) missing.push_back(rank);
  }
  return missing;
}

std::optional<Verdict> verdict(const JobRecord& record) {
  const bool left = record.launcher && !record.launcher->is_abort;  // without MPI_Finalize
  const RankEnd* const first = first_failure(record.ends, left ? record.launcher->rank : -1);
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
