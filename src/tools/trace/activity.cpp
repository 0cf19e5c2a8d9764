#include "tools/trace/activity.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/json_fields.hpp"
#include "tools/trace/align.hpp"

namespace kolo::tools {
namespace {

using nlohmann::json;

// Puts one rank's events together. The spans of an operation follow each other in a file, with or
// without spans of other rows in between.
class Reader {
 public:
  Reader(NameTable& names, Activity& activity)
      : names_(names), activity_(activity), aligner_(activity.trace) {
    activity_.clock_error = static_cast<double>(aligner_.fit().error()) / 1000;
  }

  void take(const json& event) {
    const auto& phase = event.at("ph").get_ref<const std::string&>();
    if (phase == "M" && event.at("name") == "thread_name") {
      rows_[int_at(event, "tid")] =
          names_.number(event.at("args").at("name").get_ref<const std::string&>());
    } else if (phase == "X") {
      take_span(event);
    }
  }

 private:
  Span span_of(const json& event) const {
    const double begin = number_at(event, "ts");
    const double length = number_at(event, "dur");
    const double first = aligner_.aligned(begin);
    return {first, std::max(first, aligner_.aligned(begin + length))};
  }

  void take_span(const json& event) {
    const auto& category = event.at("cat").get_ref<const std::string&>();
    const int row = int_at(event, "tid");
    const Span span = span_of(event);
    if (category == "negotiate") {
      take_submission(event, row, span);
    } else if (category == "operation") {
      take_operation(event, row, span);
    } else if (category == "memcpy" || category == "collective") {
      take_phase(event, row, span, category == "collective");
    } else if (category == "step") {
      activity_.steps[integer_at(event.at("args"), "step")] = span;
      activity_.step_row = int_or(event.at("args"), "thread_row", 0);
    } else if (category == "wait" || category == "scope") {
      const bool waits = category == "wait";
      const json& args = event.at("args");
      const json& name = waits ? args.at("for") : event.at("name");
      (waits ? activity_.waits : activity_.scopes)
          .push_back({names_.number(name.get_ref<const std::string&>()), row,
                      integer_at(args, "step"), span});
    }
  }

  void take_submission(const json& event, int row, const Span& span) {
    submitted_[row] = span.begin;
    open_.erase(row);
    const json& args = event.at("args");
    // The submission of a single tensor is followed by an operation, which says all this as well.
    if (args.count("bucket") == 0 || args.count("sequence") == 0) return;
    const auto name = rows_.find(row);
    if (name == rows_.end()) return;
    activity_.submissions.push_back({{int_or(args, "process_set", 0), integer_at(args, "sequence")},
                                     name->second,
                                     integer_at(args, "step"),
                                     span.begin});
  }

  void take_operation(const json& event, int row, const Span& span) {
    const auto name = rows_.find(row);
    const auto submitted = submitted_.find(row);
    // The timeline's own readings of clocks do not belong to the program.
    if (event.at("name") == "CLOCK" || name == rows_.end() || submitted == submitted_.end()) return;
    const json& args = event.at("args");
    Collective collective;
    collective.between_two = event.at("name") == "SEND";
    collective.decision = {int_or(args, "process_set", 0), integer_at(args, "sequence")};
    collective.name = name->second;
    collective.step = integer_at(args, "step");
    collective.bytes = std::max<std::int64_t>(integer_at(args, "bytes"), 0);
    collective.members = integer_or(args, "members", 0);
    collective.submitted = submitted->second;
    collective.ended = span.end;
    open_[row] = activity_.collectives.size();
    activity_.collectives.push_back(collective);
    if (collective.members == 0) {
      activity_.submissions.push_back(
          {collective.decision, collective.name, collective.step, collective.submitted});
    }
  }

  void take_phase(const json& event, int row, const Span& span, bool is_collective) {
    const auto open = open_.find(row);
    if (open == open_.end()) return;
    Collective& collective = activity_.collectives[open->second];
    collective.moving.begin =
        collective.started ? std::min(collective.moving.begin, span.begin) : span.begin;
    collective.moving.end = std::max(collective.moving.end, span.end);
    collective.started = true;
    if (!is_collective) return;
    collective.inside = span;
    collective.phase = names_.number(event.at("name").get_ref<const std::string&>());
  }

  NameTable& names_;
  Activity& activity_;
  const Aligner aligner_;
  std::unordered_map<int, int> rows_;          // their names
  std::unordered_map<int, double> submitted_;  // of the last operation in the row
  std::unordered_map<int, std::size_t> open_;  // its place among the collectives
};

void read_events(NameTable& names, Activity& activity) {
  Reader reader(names, activity);
  for_each_event(activity.trace.path, [&](const std::string& line) {
    // Skips counters and marks, which are most of the events that are not needed.
    const bool is_needed = line.rfind(R"({"ph":"C")", 0) != 0 && line.rfind(R"({"ph":"i")", 0) != 0;
    if (is_needed) reader.take(json::parse(line));
  });
}

}  // namespace

int NameTable::number(const std::string& name) {
  const auto [entry, is_new] = numbers_.emplace(name, static_cast<int>(names_.size()));
  if (is_new) names_.push_back(name);
  return entry->second;
}

RunActivity read_activity(const std::string& folder) {
  TraceRun run = read_run(folder);
  RunActivity all;
  all.missing = std::move(run.missing);
  all.without_begin = std::move(run.without_begin);
  all.of_other_runs = std::move(run.of_other_runs);
  for (auto& [rank, trace] : run.ranks) {
    Activity& activity = all.ranks[rank];
    activity.trace = std::move(trace);
    all.size = std::max(all.size, activity.trace.header.size);
    read_events(all.names, activity);
  }
  return all;
}

}  // namespace kolo::tools
