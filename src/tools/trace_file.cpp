#include "tools/trace_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr int kMostRanks = 1 << 20;

DataError no_trace(const std::string& path, const std::string& why) {
  return DataError(path + ": is no timeline of kolo's: " + why);
}

TraceHeader header_of(const json& args, const std::string& path) {
  if (args.at("version").get<int>() > kVersion)
    throw no_trace(path, "it is of a newer version of kolo; use that one's kolo trace");
  TraceHeader header;
  header.rank = args.at("rank").get<int>();
  header.size = args.at("size").get<int>();
  header.host = args.at("host").get<std::string>();
  header.run = args.at("run").get<std::int64_t>();
  header.shift = args.at("shift_ns").get<std::int64_t>();
  header.bucket_bytes = args.at("fusion_threshold").get<std::uint64_t>();
  if (header.size < 1 || header.size > kMostRanks || header.rank < 0 ||
      header.rank >= header.size) {
    throw no_trace(path, "its header says that it is of rank " + std::to_string(header.rank) +
                             " of " + std::to_string(header.size));
  }
  return header;
}

timeline::ClockEvent clock_of(const json& args) {
  return {args.at("at_ns").get<std::int64_t>(), args.at("offset_ns").get<std::int64_t>(),
          args.at("error_ns").get<std::int64_t>()};
}

bool contains(const std::string& line, const char* text) {
  return line.find(text) != std::string::npos;
}

RankTrace read_unchecked(const std::string& path) {
  RankTrace trace;
  trace.path = path;
  TraceLines lines(path);
  bool has_header = false;
  for (std::string line; lines.next(line);) {
    // Most lines are none of these, and reading them as JSON takes long.
    if (contains(line, R"("name":"kolo",)")) {
      trace.header = header_of(json::parse(line).at("args"), path);
      has_header = true;
    } else if (contains(line, R"("name":"clock",)")) {
      trace.clock.push_back(clock_of(json::parse(line).at("args")));
    } else if (contains(line, R"("name":"events were lost",)")) {
      trace.lost += json::parse(line).at("args").at("events").get<std::size_t>();
    } else if (contains(line, R"("name":"kolo_end",)")) {
      trace.complete = true;
    }
  }
  trace.cut_off = lines.cut_off();
  if (!has_header) throw no_trace(path, "it has no header");
  return trace;
}

RankTrace read_rank(const std::string& path) {
  try {
    return read_unchecked(path);
  } catch (const json::exception& error) {
    throw no_trace(path, std::string("an event is damaged: ") + error.what());
  }
}

}  // namespace

TraceLines::TraceLines(const std::string& path) : path_(path), file_(path) {
  if (!file_) throw FileError(path + ": cannot be read: " + std::generic_category().message(errno));
}

bool TraceLines::next(std::string& line) {
  while (std::getline(file_, line)) {
    ++number_;
    const bool has_end = !file_.eof();
    if (line == "[" || line == "]" || line.empty()) continue;
    if (line.back() == ',') line.pop_back();
    if (json::accept(line) && line.front() == '{') return true;
    if (has_end && file_.peek() != std::ifstream::traits_type::eof()) {
      throw no_trace(path_, "line " + std::to_string(number_) + " is no event");
    }
    cut_off_ = true;
  }
  return false;
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
    newest = std::max(newest, all.back().header.run);
  }
  TraceRun run;
  int size = 0;
  for (RankTrace& trace : all) {
    if (trace.header.run != newest) {
      run.of_other_runs.push_back(trace.path);
      continue;
    }
    size = std::max(size, trace.header.size);
    const int rank = trace.header.rank;
    run.ranks.emplace(rank, std::move(trace));
  }
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
