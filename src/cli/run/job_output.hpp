// Reads the launcher's streams while a job runs: packets of the ranks, and the launcher's own text.
// Keeps the ranks' reports, and shows everything else.
#pragma once

#include <string>
#include <utility>

#include "cli/process/system.hpp"
#include "cli/run/blame.hpp"
#include "cli/run/progress_line.hpp"
#include "cli/run/rank_files.hpp"
#include "cli/run/render.hpp"

namespace kolo::cli {

struct OutputOptions {
  bool prefix = true;       // each line begins with its rank,
  bool tag_output = false;  // and with its host and stream
  bool timestamp = false;
  bool verbose = false;
  std::string folder;  // also gets a file for each rank; empty: no files
};

// Used by one thread. The destructor drops output that is not written yet.
class JobOutput {
 public:
  // Throws UsageError if the folder cannot be written.
  JobOutput(const OutputOptions& options, int size);

  void feed(const std::string& bytes);
  // Shows the launcher's text that was held back long enough; with `everything`, all of it.
  void show_launcher_text(bool everything);
  // At the end of all streams: shows what is unfinished.
  void finish();
  // Shows the launcher's text about failed ranks, which is withheld because kolo run may have a
  // better one.
  void show_withheld() { push(err, std::exchange(withheld_, {})); }
  void say(const std::string& text) { push(err, "kolo run: " + text + "\n"); }

  std::optional<Clock::time_point> next_deadline() const { return launcher_text_.next(); }
  bool is_full() const { return out.is_full() || err.is_full(); }
  bool has_failure() const { return first_failure(record_.ends) != nullptr; }
  const JobRecord& record() const { return record_; }

  // Reports, once, that standard output cannot be written.
  void tell_of_lost_output();
  // Returns where some of the output is missing, and why: "standard output: No space left on
  // device". Returns "" if nothing is missing, or if the reader has gone away.
  std::string lost_output() const;

  OutputQueue out, err;  // the caller polls them

 private:
  void on_line(const std::string& line);
  void on_packet(const Packet& packet);
  void on_ended(int rank, const Ended& ended);
  void show(const Rendered& rendered) { push(rendered.is_error ? err : out, rendered.text); }
  void push(OutputQueue& queue, const std::string& text);
  void keep(const Rendered& rendered);
  std::string tag(int rank, bool is_error) const;

  const OutputOptions options_;
  Renderer renderer_;
  std::optional<RankFiles> files_;
  Renderer file_renderer_;
  ProgressLine progress_line_;
  LauncherText launcher_text_;
  JobRecord record_;
  std::string withheld_;  // banners about failed ranks
  std::string line_;      // unfinished
  bool lost_is_told_ = false;
};

}  // namespace kolo::cli
