// Decides which of the launcher's own messages are shown.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.hpp"

namespace kolo::cli {

// A rank's end as the launcher reports it. It is the only report if the rank called MPI_Abort, left
// without MPI_Finalize, or could not report by itself.
struct LauncherReport {
  int rank = 0;
  std::string what;       // "called MPI_Abort with code 7"
  bool is_abort = false;  // it called MPI_Abort
};
std::optional<LauncherReport> launcher_report(const std::string& text);

// Whether a banner only says that some rank has failed or was ended. kolo run reports that in one
// line.
bool is_failure_banner(const std::string& text);

// Collects the launcher's lines into banners (from a line of dashes to the next) and holds them
// back for a moment, because a banner about a failed rank may arrive before that rank's own report.
// Used by one thread.
class LauncherText {
 public:
  void add(const std::string& printed, Clock::time_point now);

  // Removes and returns the banners that were held back long enough; with `everything`, all of
  // them.
  std::vector<std::string> take(Clock::time_point now, bool everything);

  // Returns when take() may return more; nothing while nothing is held back.
  std::optional<Clock::time_point> next() const;

  // The launcher's report of a failed rank, from all text so far.
  const std::optional<LauncherReport>& report() const { return report_; }

 private:
  struct Block {
    std::string text;
    Clock::time_point arrived;
    bool closed = true;
  };
  void examine(const Block& block);

  std::deque<Block> blocks_;
  std::optional<LauncherReport> report_;
};

}  // namespace kolo::cli
