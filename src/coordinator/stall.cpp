#include "coordinator/stall.hpp"

#include <algorithm>
#include <map>

#include "core/ranks.hpp"

namespace kolo {
namespace {

constexpr std::size_t kMostNames = 6;

}  // namespace

bool ToldStalls::is_time(const std::vector<Stall>& stalls, Clock::time_point now) const {
  return std::any_of(stalls.begin(), stalls.end(), [&](const Stall& stall) {
    const auto before = ages_.find({stall.kind, stall.name, stall.since});
    return before == ages_.end() || now - stall.since >= 2 * before->second;
  });
}

void ToldStalls::told(const std::vector<Stall>& stalls, Clock::time_point now) {
  ages_.clear();
  for (const Stall& stall : stalls)
    ages_[{stall.kind, stall.name, stall.since}] = now - stall.since;
}

std::string describe(const std::vector<Stall>& stalls, Clock::time_point now) {
  struct Missing {
    std::string names;
    std::size_t listed = 0;
    std::size_t more = 0;
    Clock::time_point since;
  };
  std::map<std::vector<int>, Missing> by_ranks;
  for (const Stall& stall : stalls) {
    Missing& missing = by_ranks[stall.missing];
    if (missing.names.empty()) missing.since = stall.since;
    missing.since = std::min(missing.since, stall.since);
    missing.more += stall.more;
    if (missing.listed == kMostNames) {
      ++missing.more;
      continue;
    }
    missing.names += (missing.listed++ == 0 ? "" : ", ") + std::string(name_of(stall.kind)) +
                     " of '" + stall.name + "'";
  }
  std::string text;
  for (const auto& [ranks, missing] : by_ranks) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - missing.since);
    text += (text.empty() ? "" : "; ") + rank_list(ranks) + (ranks.size() == 1 ? " has" : " have") +
            " not submitted " + missing.names;
    if (missing.more > 0) text += " and " + std::to_string(missing.more) + " more";
    text += ", which another rank submitted " + to_text(seconds) + " ago";
  }
  return text;
}

}  // namespace kolo
