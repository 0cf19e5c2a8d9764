#include "collectives/algorithms/table.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

namespace kolo {
namespace {

constexpr std::string_view kFirstLine = "# kolo allreduce table, version 1";
constexpr std::string_view kRanks = "ranks ";
constexpr int kMostRanks = 1 << 20;
constexpr std::size_t kMostBytes = std::size_t{1} << 40;
constexpr const char* kNames[] = {"recursive-doubling", "halving-doubling", "ring", "tree"};

std::optional<AllreduceAlgorithm> algorithm_of(std::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<AllreduceAlgorithm>(found - std::begin(kNames));
}

template <typename Number>
bool parse_number(std::string_view text, Number low, Number high, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number >= low && number <= high;
}

// Returns the text as it may appear in a message: shortened, and without characters that move the
// cursor.
std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string shown(text.substr(0, kMost));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "'" + shown + (text.size() > kMost ? "...'" : "'");
}

// Parses the table line by line. take() and end() return what is wrong, or nothing.
class Reader {
 public:
  using Problem = std::optional<std::string>;

  Problem take(std::string_view line) {
    if (std::exchange(first_, false)) {
      if (line == kFirstLine) return std::nullopt;
      return quoted(line) + " is not a header, or has an unknown version; expected '" +
             std::string(kFirstLine) + "'";
    }
    if (line.empty() || line.front() == '#') return std::nullopt;
    return line.starts_with(kRanks) ? take_group(line) : take_row(line);
  }

  Problem end() const {
    if (rows_ == nullptr) return "the table ends without rows; expected 'ranks N'";
    return rows_->empty() ? no_rows() : std::nullopt;
  }

  AllreduceTable& table() { return table_; }

 private:
  Problem no_rows() const {
    return "ranks " + std::to_string(ranks_) + " has no rows; expected '0 ALGORITHM'";
  }

  Problem take_group(std::string_view line) {
    if (rows_ != nullptr && rows_->empty()) return no_rows();
    if (!parse_number(line.substr(kRanks.size()), 2, kMostRanks, ranks_)) {
      return quoted(line) +
             " does not name a number of ranks; expected 'ranks N' with N from 2 to " +
             std::to_string(kMostRanks);
    }
    const auto [group, is_new] = table_.groups.try_emplace(ranks_);
    rows_ = &group->second;
    if (is_new) return std::nullopt;
    return quoted(line) + " appears twice; expected each number of ranks once";
  }

  Problem take_row(std::string_view line) {
    AllreduceRow row;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos ||
        !parse_number(line.substr(0, space), std::size_t{0}, kMostBytes, row.bytes)) {
      return quoted(line) +
             " is not a row; expected 'ranks N', or 'BYTES ALGORITHM' with BYTES from 0 to " +
             std::to_string(kMostBytes);
    }
    const auto algorithm = algorithm_of(line.substr(space + 1));
    if (!algorithm) {
      return quoted(line.substr(space + 1)) +
             " is not an algorithm; expected recursive-doubling, halving-doubling, ring or tree";
    }
    row.algorithm = *algorithm;
    return add(row);
  }

  Problem add(const AllreduceRow& row) {
    const std::string bytes = std::to_string(row.bytes);
    if (rows_ == nullptr) return "a row before any number of ranks; expected 'ranks N'";
    if (rows_->empty() && row.bytes != 0)
      return "the first row of a number of ranks begins at " + bytes + " bytes; expected 0";
    if (!rows_->empty() && row.bytes <= rows_->back().bytes) {
      return bytes + " is not above " + std::to_string(rows_->back().bytes) +
             "; expected bytes to increase from row to row";
    }
    rows_->push_back(row);
    return std::nullopt;
  }

  bool first_ = true;
  AllreduceTable table_ = {.groups = {}};
  int ranks_ = 0;
  std::vector<AllreduceRow>* rows_ = nullptr;  // of the current number of ranks
};

Status wrong(std::size_t line, const std::string& problem) {
  return Status::data("line " + std::to_string(line) + ": " + problem);
}

}  // namespace

const char* name_of(AllreduceAlgorithm algorithm) {
  return kNames[static_cast<std::size_t>(algorithm)];
}

AllreduceTable::Groups AllreduceTable::built_in() {
  return {
      {2, {{0, AllreduceAlgorithm::kRecursiveDoubling}, {32 << 10, AllreduceAlgorithm::kRing}}}};
}

AllreduceAlgorithm AllreduceTable::choose(int ranks, std::size_t bytes) const {
  auto group = groups.lower_bound(ranks);
  if (group == groups.end()) {
    --group;
  } else if (group != groups.begin() && group->first != ranks) {
    // ranks / fewer <= more / ranks: by ratio, the smaller number is at least as near as the
    // larger.
    const auto fewer = std::prev(group);
    const std::int64_t square = std::int64_t{ranks} * ranks;
    if (square <= std::int64_t{fewer->first} * group->first) group = fewer;
  }
  const std::vector<AllreduceRow>& rows = group->second;
  const auto beyond = std::upper_bound(
      rows.begin(), rows.end(), bytes,
      [](std::size_t value, const AllreduceRow& row) { return value < row.bytes; });
  return std::prev(beyond)->algorithm;
}

Status parse_allreduce_table(std::string_view text, AllreduceTable& table) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.size() > kLongestAllreduceTable) {
    return Status::data("the table is longer than " + std::to_string(kLongestAllreduceTable) +
                        " bytes; expected no more");
  }
  Reader reader;
  std::size_t number = 0;
  do {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (const auto problem = reader.take(line)) return wrong(number, *problem);
  } while (!text.empty());
  if (const auto problem = reader.end()) return wrong(number, *problem);
  table = std::move(reader.table());
  return Status::ok();
}

std::string write_allreduce_table(const AllreduceTable& table) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [ranks, rows] : table.groups) {
    text += std::string(kRanks) + std::to_string(ranks) + "\n";
    for (const AllreduceRow& row : rows)
      text += std::to_string(row.bytes) + " " + name_of(row.algorithm) + "\n";
  }
  return text;
}

}  // namespace kolo
