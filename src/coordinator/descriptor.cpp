#include "coordinator/descriptor.hpp"

#include <functional>
#include <utility>

namespace kolo {
namespace {

using Show = std::function<std::string(const Descriptor&)>;

std::string show_number(double value) {
  std::string text = std::to_string(value);
  return text;
}

// The fields in the order in which a difference is reported; the first that differs says most.
const std::vector<std::pair<const char*, Show>>& fields() {
  static const std::vector<std::pair<const char*, Show>> all = {
      {"operation", [](const Descriptor& d) { return std::string(name_of(d.kind)); }},
      {"dtype", [](const Descriptor& d) { return std::string(name_of(d.dtype)); }},
      {"shape", [](const Descriptor& d) { return to_string(d.shape); }},
      {"reduce operator", [](const Descriptor& d) { return std::string(name_of(d.op)); }},
      {"root rank", [](const Descriptor& d) { return std::to_string(d.root); }},
      {"prescale factor", [](const Descriptor& d) { return show_number(d.prescale); }},
      {"postscale factor", [](const Descriptor& d) { return show_number(d.postscale); }},
  };
  return all;
}

// "a on rank 0, b on ranks 1, 2", or nothing if the field is equal everywhere.
std::string field_difference(const std::vector<const Descriptor*>& by_rank, const Show& show) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const std::string value = show(*by_rank[rank]);
    auto group = groups.begin();
    while (group != groups.end() && group->first != value) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (groups.size() < 2) return {};
  std::string text;
  for (const auto& [value, ranks] : groups) {
    text += (text.empty() ? "" : "; ") + value + " on " + rank_list(ranks);
  }
  return text;
}

}  // namespace

std::size_t Descriptor::count() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::string describe_difference(const std::vector<const Descriptor*>& by_rank) {
  std::string text;
  for (const auto& [name, show] : fields()) {
    const std::string difference = field_difference(by_rank, show);
    if (!difference.empty())
      text += (text.empty() ? "" : ". ") + std::string(name) + ": " + difference;
  }
  return text;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i + 1) {
      text += "-" + std::to_string(ranks[last]);
    } else if (last == i + 1) {
      text += ", " + std::to_string(ranks[last]);
    }
    i = last + 1;
  }
  return text;
}

}  // namespace kolo
