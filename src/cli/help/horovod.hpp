// Horovod's calls, options and variables, and what kolo has for each: one table, from which
// docs/horovod.md and `kolo help horovod` are made.
#pragma once

#include <string>
#include <vector>

namespace kolo::cli {

// The version that the table speaks of; tests/horovod/entries.txt lists what it has.
inline constexpr const char* kHorovodVersion = "0.28.1";

struct HorovodRow {
  // As in tests/horovod/entries.txt: call, argument, class, method, attribute, value, flag,
  // variable, build.
  std::string kind;
  // "allreduce, allreduce_". Of arguments: "op of allreduce, allreduce_", or "op" for every call
  // that has it and is not named by another row.
  std::string names;
  // Code in backticks; "not yet"; or "none", and then the remark says why, or what to do instead.
  std::string kolo;
  std::string remark;  // what differs; empty: it means the same
};

struct HorovodSection {
  std::string title;
  std::string text;  // stands above the table; may be empty
  std::vector<HorovodRow> rows;
};

// In the order of the page: what a program calls, then how it is started and built.
std::vector<HorovodSection> horovod_sections();
std::vector<HorovodSection> horovod_call_sections();
std::vector<HorovodSection> horovod_job_sections();

std::string horovod_page();  // docs/horovod.md
std::string horovod_text();  // for a terminal, 80 columns wide

}  // namespace kolo::cli
