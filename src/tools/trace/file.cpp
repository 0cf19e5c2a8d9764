#include "tools/trace/file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>

#include "kolo/error.h"
#include "tools/json_fields.hpp"

namespace kolo::tools {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

DataError damaged(const std::string& path, std::size_t line, const std::exception& why) {
  return DataError(path + ": is not a timeline of kolo: line " + std::to_string(line) + ": " +
                   why.what());
}

TraceHeader header_of(const json& args) {
  if (int_at(args, "version") > kVersion)
    throw DataError(
        "it was written by a newer version of kolo; use the kolo trace of that version");
  TraceHeader header;
  std::tie(header.rank, header.size) = rank_and_size(args);
  header.host = args.at("host").get<std::string>();
  header.run = integer_at(args, "run");
  header.shift = integer_at(args, "shift_ns");
  header.bucket_bytes = integer_at(args, "fusion_threshold");
  header.program = args.value("program", "");
  header.cores = args.value("cores", "");
  return header;
}

timeline::ClockEvent clock_of(const json& args) {
  return {integer_at(args, "at_ns"), integer_at(args, "offset_ns"), integer_at(args, "error_ns")};
}

RankTrace read_rank(const std::string& path) {
  RankTrace trace;
  trace.path = path;
  bool is_empty = true;
  // Most lines are none of these, and parsing JSON takes long. Elsewhere in a line, these texts may
  // be names that a program has given.
  trace.cut_off = for_each_event(path, [&](const std::string& line) {
    is_empty = false;
    const auto is = [&](const char* begin) { return line.rfind(begin, 0) == 0; };
    if (is(R"({"name":"kolo",)")) {
      trace.header = header_of(parse_json(line).at("args"));
      trace.has_begin = true;
    } else if (is(R"({"ph":"i","name":"clock",)")) {
      trace.clock.push_back(clock_of(parse_json(line).at("args")));
    } else if (is(R"({"ph":"i","name":"events were lost",)")) {
      trace.lost += int_at(parse_json(line).at("args"), "events");
    } else if (is(R"({"name":"kolo_end",)")) {
      trace.complete = true;
    }
  });
  if (!trace.has_begin && !is_empty)
    throw DataError(path + ": is not a timeline of kolo: it has no header");
  return trace;
}

}  // namespace

bool for_each_event(const std::string& path, const std::function<void(const std::string&)>& take) {
  std::ifstream file(path);
  if (!file) throw FileError(path + ": cannot be read: " + std::generic_category().message(errno));
  std::size_t number = 0;
  try {
    for (std::string line; std::getline(file, line);) {
      ++number;
      const bool has_end = !file.eof();
      if (line == "[" || line == "]" || line.empty()) continue;
      if (line.back() == ',') line.pop_back();
      const bool is_last = !has_end || file.peek() == std::ifstream::traits_type::eof();
      const bool looks_whole = line.size() > 1 && line.front() == '{' && line.back() == '}';
      if (is_last && !(looks_whole && parser_sees_all(line) && json::accept(line))) return true;
      if (!looks_whole) throw DataError("is not an event");
      if (!parser_sees_all(line))
        throw DataError("has zero bytes: a part of the file is lost, or was never written");
      take(line);
    }
    if (!file.eof()) throw FileError(path + ": reading failed");
    return false;
  } catch (const json::exception& error) {
    throw damaged(path, number, error);
  } catch (const DataError& error) {
    throw damaged(path, number, error);
  }
}

TraceRun read_run(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind("timeline-rank-", 0) == 0 && entry->path().extension() == ".json")
      paths.push_back(entry->path().string());
  }
  if (error) throw FileError(folder + ": cannot be read: " + error.message());
  if (paths.empty()) {
    throw FileError(folder +
                    ": there are no timelines here (timeline-rank-N.json); write some with "
                    "kolo run --timeline " +
                    folder + " or KOLO_TIMELINE");
  }
  std::sort(paths.begin(), paths.end());
  std::vector<RankTrace> all;
  std::int64_t newest = 0;
  for (const std::string& path : paths) {
    all.push_back(read_rank(path));
    if (all.back().has_begin) newest = std::max(newest, all.back().header.run);
  }
  TraceRun run;
  int size = 0;
  for (RankTrace& trace : all) {
    if (!trace.has_begin) {
      run.without_begin.push_back(trace.path);
      continue;
    }
    if (trace.header.run != newest) {
      run.of_other_runs.push_back(trace.path);
      continue;
    }
    size = std::max(size, trace.header.size);
    const int rank = trace.header.rank;
    run.ranks.emplace(rank, std::move(trace));
  }
  if (run.ranks.empty())
    throw DataError(folder +
                    ": all timelines here are empty: no rank has begun to write its timeline");
  for (int rank = 0; rank < size; ++rank) {
    if (run.ranks.count(rank) == 0) run.missing.push_back(rank);
  }
  return run;
}

bool find_number(const std::string& line, const char* key, double& number, std::size_t& begin,
                 std::size_t& end) {
  const std::string quoted = std::string(",\"") + key + "\":";
  begin = line.find(quoted);
  if (begin == std::string::npos) return false;
  begin += quoted.size();
  const char* const first = line.data() + begin;
  const auto [stop, problem] = std::from_chars(first, line.data() + line.size(), number);
  end = begin + static_cast<std::size_t>(stop - first);
  return problem == std::errc();
}

}  // namespace kolo::tools
