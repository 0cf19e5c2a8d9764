#include "cli/slurm/slurm_cluster.hpp"

#include <cctype>
#include <map>
#include <sstream>

#include "cli/process/environment.hpp"

namespace kolo::cli {
namespace {

constexpr long kMost = 1'000'000'000;

// Parses a number without a sign.
std::optional<long> number_of(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0) {
    return std::nullopt;
  }
  const std::optional<long> number = parse_integer(text);
  return number && *number <= kMost ? number : std::nullopt;
}

std::optional<std::vector<long>> numbers_between_colons(const std::string& text) {
  std::vector<long> numbers;
  std::istringstream words(text + ":");
  for (std::string word; std::getline(words, word, ':');) {
    const std::optional<long> number = number_of(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

bool is_unlimited(const std::string& text) {
  std::string small;
  for (const char c : text) small += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small == "unlimited" || small == "infinite" || small == "-1";
}

// Returns the fields of "PartitionName=ml AllowGroups=ALL Default=YES ...": the first of each name.
std::map<std::string, std::string> fields_of(const std::string& line) {
  std::map<std::string, std::string> fields;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos)
      fields.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

// Returns the seconds that a time says, "0" included. Returns nothing if the text is not a time.
std::optional<std::int64_t> written_seconds(const std::string& text) {
  constexpr long kMinute = 60;
  constexpr long kHour = 60 * kMinute;
  const std::size_t dash = text.find('-');
  const auto numbers =
      numbers_between_colons(dash == std::string::npos ? text : text.substr(dash + 1));
  if (!numbers || numbers->size() > 3) return std::nullopt;
  const std::vector<long>& given = *numbers;
  if (dash != std::string::npos) {  // days-hours:minutes:seconds, all but the hours may be missing
    const std::optional<long> days = number_of(text.substr(0, dash));
    if (!days) return std::nullopt;
    std::int64_t total = *days * 24 * kHour + given[0] * kHour;
    if (given.size() > 1) total += given[1] * kMinute;
    if (given.size() > 2) total += given[2];
    return total;
  }
  if (given.size() == 1) return given[0] * kMinute;
  if (given.size() == 2) return given[0] * kMinute + given[1];
  return given[0] * kHour + given[1] * kMinute + given[2];
}

}  // namespace

std::optional<std::int64_t> slurm_seconds(const std::string& text) {
  if (is_unlimited(text)) return kUnlimitedSeconds;
  const std::optional<std::int64_t> seconds = written_seconds(text);
  return seconds == 0 ? kUnlimitedSeconds : seconds;
}

std::optional<std::int64_t> slurm_mebibytes(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::string digits = text;
  const char unit = static_cast<char>(std::toupper(static_cast<unsigned char>(digits.back())));
  if (std::isdigit(static_cast<unsigned char>(unit)) == 0) digits.pop_back();
  const std::optional<std::int64_t> number = number_of(digits);
  if (!number) return std::nullopt;
  switch (unit) {
    case 'K':
      return (*number + 1023) / 1024;
    case 'G':
      return *number * 1024;
    case 'T':
      return *number * 1024 * 1024;
    default:
      return unit == 'M' || digits.size() == text.size() ? number : std::nullopt;
  }
}

long slurm_gpus(const std::string& resources) {
  long total = 0;
  std::istringstream words(resources);
  for (std::string word; std::getline(words, word, ',');) {
    word = word.substr(0, word.find('('));
    if (word == "gpu") ++total;
    if (word.rfind("gpu:", 0) != 0) continue;
    total += number_of(word.substr(word.rfind(':') + 1)).value_or(1);  // "gpu:h100" counts as one
  }
  return total;
}

std::vector<SlurmPartition> slurm_partitions(const std::string& output) {
  std::vector<SlurmPartition> partitions;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::map<std::string, std::string> fields = fields_of(line);
    if (fields.count("PartitionName") == 0) continue;
    SlurmPartition partition;
    partition.name = fields["PartitionName"];
    partition.is_default = fields["Default"] == "YES";
    partition.is_up = fields.count("State") == 0 || fields["State"] == "UP";
    const std::optional<std::int64_t> seconds = slurm_seconds(fields["MaxTime"]);
    if (seconds != kUnlimitedSeconds) partition.most_seconds = seconds;
    partition.usual_seconds = slurm_seconds(fields["DefaultTime"]);
    partition.most_nodes = number_of(fields["MaxNodes"]);
    partition.least_nodes = number_of(fields["MinNodes"]).value_or(0);
    partition.most_cpus_per_node = number_of(fields["MaxCPUsPerNode"]);
    partition.most_mebibytes_per_node = number_of(fields["MaxMemPerNode"]);
    partitions.push_back(partition);
  }
  return partitions;
}

std::vector<SlurmNode> slurm_nodes(const std::string& output) {
  std::vector<SlurmNode> nodes;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    SlurmNode node;
    std::string cpus;
    std::string memory;
    std::string resources;
    if (!(words >> node.name >> node.partition >> cpus >> memory >> resources)) continue;
    // "131072+": some nodes have more.
    node.cpus = number_of(cpus.substr(0, cpus.find('+'))).value_or(0);
    node.memory_mebibytes = slurm_mebibytes(memory.substr(0, memory.find('+'))).value_or(0);
    node.gpus = slurm_gpus(resources);
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace kolo::cli
