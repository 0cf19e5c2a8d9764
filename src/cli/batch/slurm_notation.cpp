#include "cli/batch/slurm_notation.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include "cli/process/environment.hpp"
#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

constexpr std::size_t kMostHosts = 1'000'000;

[[noreturn]] void refuse_node_list(const std::string& node_list) {
  throw UsageError("Slurm's list of hosts '" + node_list + "' is not understood");
}

// Appends the numbers of a range: "003-012", with the leading zeros.
void add_range(const std::string& range, const std::string& node_list,
               std::vector<std::string>& numbers) {
  const std::size_t dash = std::min(range.find('-'), range.size());
  const std::string first = range.substr(0, dash);
  const std::string last = dash == range.size() ? first : range.substr(dash + 1);
  const std::optional<long> from = parse_integer(first);
  const std::optional<long> to = parse_integer(last);
  if (!from || !to || *from < 0 || *to < *from ||
      static_cast<std::size_t>(*to - *from) >= kMostHosts - numbers.size()) {
    refuse_node_list(node_list);
  }
  for (long number = *from; number <= *to; ++number) {
    std::string text = std::to_string(number);
    if (text.size() < first.size()) text.insert(0, first.size() - text.size(), '0');
    numbers.push_back(text);
  }
}

// Returns the names of one entry, which may have several brackets: "rack[0-1]node[3,5]".
std::vector<std::string> expand(const std::string& entry, const std::string& node_list) {
  std::vector<std::string> names = {""};
  for (std::size_t at = 0; at < entry.size();) {
    const std::size_t open = std::min(entry.find('[', at), entry.size());
    for (std::string& name : names) name += entry.substr(at, open - at);
    if (open == entry.size()) break;
    const std::size_t close = entry.find(']', open);
    if (close == std::string::npos) refuse_node_list(node_list);
    std::vector<std::string> numbers;
    std::istringstream ranges(entry.substr(open + 1, close - open - 1));
    std::string range;
    while (std::getline(ranges, range, ',')) add_range(range, node_list, numbers);
    if (numbers.empty() || names.size() * numbers.size() > kMostHosts) refuse_node_list(node_list);
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    at = close + 1;
  }
  return names;
}

}  // namespace

std::vector<std::string> slurm_hosts(const std::string& node_list) {
  std::vector<std::string> hosts;
  int depth = 0;
  std::string entry;
  for (const char c : node_list + ",") {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) refuse_node_list(node_list);
    if (c != ',' || depth > 0) {
      entry += c;
      continue;
    }
    if (entry.empty()) refuse_node_list(node_list);
    for (std::string& name : expand(entry, node_list)) hosts.push_back(std::move(name));
    if (hosts.size() > kMostHosts) refuse_node_list(node_list);
    entry.clear();
  }
  if (depth != 0) refuse_node_list(node_list);
  return hosts;
}

std::vector<int> slurm_counts(const std::string& counts) {
  std::vector<int> all;
  std::istringstream groups(counts);
  std::string group;
  while (std::getline(groups, group, ',')) {
    const std::size_t open = std::min(group.find("(x"), group.size());
    const std::optional<long> count = parse_integer(group.substr(0, open));
    std::optional<long> times = 1;
    if (open != group.size()) {
      if (group.back() != ')') return {};
      times = parse_integer(group.substr(open + 2, group.size() - open - 3));
    }
    if (!count || !times || *count < 0 || *count > 1'000'000 || *times < 1 ||
        *times > static_cast<long>(kMostHosts - all.size())) {
      return {};
    }
    all.insert(all.end(), static_cast<std::size_t>(*times), static_cast<int>(*count));
  }
  return all;
}

}  // namespace kolo::cli
