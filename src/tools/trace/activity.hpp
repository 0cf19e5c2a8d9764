// The ranks' activity in a run, from its timelines, on one clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/trace/file.hpp"
#include "tools/trace/spans.hpp"

namespace kolo::tools {

// Replaces names by numbers: a timeline has few names, many times over.
class NameTable {
 public:
  int number(const std::string& name);
  const std::string& name(int number) const { return names_[static_cast<std::size_t>(number)]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, int> numbers_;
  std::vector<std::string> names_;
};

// A decision of all ranks of a process set to reduce a bucket or a single tensor. It is the same on
// all of them.
struct Decision {
  int process_set = 0;
  std::int64_t sequence = 0;
  friend bool operator<(const Decision& a, const Decision& b) {
    return a.process_set != b.process_set ? a.process_set < b.process_set : a.sequence < b.sequence;
  }
};

// Times are microseconds on rank 0's clock.
struct Collective {
  Decision decision;
  int name = 0;   // of the row: a tensor, or "bucket 3"
  int phase = 0;  // "SHM_ALLREDUCE"
  bool started = false;
  bool between_two = false;  // a send: no other rank takes part
  std::int64_t step = 0;
  std::int64_t bytes = 0;
  std::int64_t members = 0;  // of a bucket; 0: a single tensor
  double submitted = 0;
  double ended = 0;
  Span moving;  // from its start to its end, with copying into and out of a bucket
  Span inside;  // without the copying
};

struct Submission {  // of a tensor
  Decision decision;
  int name = 0;
  std::int64_t step = 0;
  double at = 0;
};

struct NamedSpan {
  int name = 0;
  int row = 0;  // of the thread
  std::int64_t step = 0;
  Span span;
};

struct Activity {
  RankTrace trace;
  double clock_error = 0;  // microseconds
  std::map<std::int64_t, Span> steps;
  int step_row = 0;  // of the thread that makes the steps
  std::vector<Collective> collectives;
  std::vector<Submission> submissions;
  std::vector<NamedSpan> waits;   // their names: what is waited for
  std::vector<NamedSpan> scopes;  // the program's own
};

struct RunActivity {
  NameTable names;
  std::map<int, Activity> ranks;
  std::vector<int> missing;
  std::vector<std::string> without_begin;
  std::vector<std::string> of_other_runs;
  int size = 0;
};

// Reads the newest run in the folder. Throws FileError and DataError.
RunActivity read_activity(const std::string& folder);

}  // namespace kolo::tools
