#include "cli/run/launcher_text.hpp"

#include <algorithm>
#include <regex>

#include "cli/rank/failure.hpp"

namespace kolo::cli {
namespace {

constexpr double kHoldSeconds = 0.5;
// A banner that is not closed within this time is shown as it is.
constexpr double kOpenSeconds = 2.0;

bool is_dashes(const std::string& line) {
  return line.size() > 20 && (line.find_first_not_of('-') == std::string::npos ||
                              line.find_first_not_of('=') == std::string::npos);
}

// Joins a banner's lines, which each version wraps differently. Cuts them, because no banner is
// long and std::regex recurses.
std::string on_one_line(const std::string& text) {
  std::string flat;
  for (const char c : text.substr(0, 4096)) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space) flat += c;
    if (space && !flat.empty() && flat.back() != ' ') flat += ' ';
  }
  return flat;
}

}  // namespace

bool is_failure_banner(const std::string& text) {
  const std::string flat = on_one_line(text);
  for (const char* phrase :
       {"Primary job terminated normally, but", "one or more processes exited with non-zero status",
        "noticed that process rank", "MPI_ABORT was invoked on rank",
        "has exited due to process rank", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING",
        "This typically refers to a problem with your application",
        "Please see the FAQ page for debugging suggestions"}) {
    if (flat.find(phrase) != std::string::npos) return true;
  }
  return false;
}

std::optional<LauncherReport> launcher_report(const std::string& text) {
  const std::string flat = on_one_line(text);
  std::smatch match;
  static const std::regex kAbort(
      "MPI_ABORT was invoked on rank (\\d{1,8}) in communicator.*[Ee]rrorcode:? (-?\\d{1,10})");
  if (std::regex_search(flat, match, kAbort)) {
    return LauncherReport{std::stoi(match[1]), "called MPI_Abort with code " + match[2].str(),
                          true};
  }
  static const std::regex kImproper(
      "has exited due to process rank (\\d{1,8}) .*exiting improperly");
  if (std::regex_search(flat, match, kImproper)) {
    return LauncherReport{std::stoi(match[1]), "ended without MPI_Finalize", false};
  }
  static const std::regex kSignal(
      "noticed that process rank (\\d{1,8}) with PID \\d+ on node \\S+ exited on signal "
      "(\\d{1,3})");
  if (std::regex_search(flat, match, kSignal)) {
    return LauncherReport{
        std::stoi(match[1]),
        "was killed by signal " + match[2].str() + " (" + signal_name(std::stoi(match[2])) + ")",
        false};
  }
  return std::nullopt;
}

void LauncherText::examine(const Block& block) {
  if (!report_) report_ = launcher_report(block.text);
}

void LauncherText::add(const std::string& printed, Clock::time_point now) {
  // Open MPI 5 ends some banners with a zero byte.
  std::string line = printed;
  line.erase(std::remove(line.begin(), line.end(), '\0'), line.end());
  if (line.empty() && !printed.empty()) return;
  const bool open = !blocks_.empty() && !blocks_.back().closed;
  if (open) {
    blocks_.back().text += line + "\n";
    if (is_dashes(line)) {
      blocks_.back().closed = true;
      examine(blocks_.back());
    }
    return;
  }
  blocks_.push_back({line + "\n", now, !is_dashes(line)});
  if (blocks_.back().closed) examine(blocks_.back());
}

std::vector<std::string> LauncherText::take(Clock::time_point now, bool everything) {
  std::vector<std::string> taken;
  while (!blocks_.empty()) {
    Block& block = blocks_.front();
    const double hold = block.closed ? kHoldSeconds : kOpenSeconds;
    if (!everything && now - block.arrived < seconds(hold)) break;
    if (!block.closed) examine(block);
    taken.push_back(std::move(block.text));
    blocks_.pop_front();
  }
  return taken;
}

std::optional<Clock::time_point> LauncherText::next() const {
  if (blocks_.empty()) return std::nullopt;
  const double hold = blocks_.front().closed ? kHoldSeconds : kOpenSeconds;
  return blocks_.front().arrived + seconds(hold);
}

}  // namespace kolo::cli
