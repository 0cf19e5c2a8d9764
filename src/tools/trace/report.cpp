#include "tools/trace/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "core/ranks.hpp"
#include "kolo/error.h"
#include "tools/printable.hpp"
#include "tools/trace/analyse.hpp"
#include "tools/trace/findings.hpp"
#include "tools/trace/report/files.hpp"

namespace kolo::tools {
namespace {

using nlohmann::json;

// Most values of each kind that are drawn. More values are put together, step by step.
constexpr std::size_t kMostPoints = 200000;
constexpr std::size_t kMostBins = 500;
constexpr std::size_t kLeastBins = 50;

constexpr std::size_t kMostTensors = 25;
constexpr std::size_t kMostScopes = 10;
constexpr std::size_t kMostHosts = 4;  // that are named
constexpr double kFarOff = 1000;       // microseconds

// Returns milliseconds with three decimals, or null if the time is unknown.
json milliseconds(double microseconds) {
  if (std::isnan(microseconds)) return nullptr;
  return std::round(microseconds) / 1000;
}

json rounded(double value) {
  if (!(value > 0)) return 0;
  const double scale = std::pow(10, 3 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

struct Bins {
  std::size_t steps_each = 1;
  std::size_t count = 0;
};

Bins bins_of(const Analysis& analysis) {
  const std::size_t most =
      std::clamp(kMostPoints / analysis.ranks.size() / 4, kLeastBins, kMostBins);
  Bins bins;
  bins.steps_each = (analysis.steps.size() + most - 1) / most;
  bins.count = (analysis.steps.size() + bins.steps_each - 1) / bins.steps_each;
  return bins;
}

// Returns a value for each bin, from its steps that count, or from all if none does.
template <typename Value>
json binned(const Analysis& analysis, const Bins& bins, const Value& value) {
  json values = json::array();
  for (std::size_t bin = 0; bin < bins.count; ++bin) {
    const std::size_t first = bin * bins.steps_each;
    std::vector<std::size_t> places;
    for (const bool all : {false, true}) {
      if (!places.empty()) break;
      for (std::size_t i = first; i < std::min(first + bins.steps_each, analysis.steps.size());
           ++i) {
        if (all || analysis.counts[i]) places.push_back(i);
      }
    }
    values.push_back(value(places));
  }
  return values;
}

json shares_json(const Shares& shares) {
  return {{"compute", milliseconds(shares.compute)},
          {"overlapped", milliseconds(shares.overlapped)},
          {"exposed", milliseconds(shares.exposed)},
          {"waiting", milliseconds(shares.waiting)}};
}

json shares_over_steps(const Analysis& analysis, const Bins& bins, int rank) {
  const std::vector<Shares>& shares = analysis.shares.at(rank);
  const auto series = [&](double Shares::*part) {
    return binned(analysis, bins, [&](const std::vector<std::size_t>& places) {
      double sum = 0;
      for (const std::size_t place : places) sum += shares[place].*part;
      return milliseconds(sum / static_cast<double>(places.size()));
    });
  };
  return {{"compute", series(&Shares::compute)},
          {"overlapped", series(&Shares::overlapped)},
          {"exposed", series(&Shares::exposed)},
          {"waiting", series(&Shares::waiting)}};
}

json lateness_over_steps(const Analysis& analysis, const Bins& bins, int rank) {
  const std::vector<double>& lateness = analysis.lateness.at(rank);
  return binned(analysis, bins, [&](const std::vector<std::size_t>& places) {
    std::vector<double> known;
    for (const std::size_t place : places) {
      if (!std::isnan(lateness[place])) known.push_back(lateness[place]);
    }
    return known.empty() ? json(nullptr) : milliseconds(std::max(0.0, median(std::move(known))));
  });
}

// The job, as its timelines describe it.
struct Job {
  std::string program;             // empty: unknown
  std::int64_t started = 0;        // Unix time, ms; 0: unknown
  std::vector<std::string> hosts;  // each once
};

Job job_of(const RunActivity& run) {
  constexpr std::int64_t kMillisecond = 1'000'000;  // ns
  constexpr std::int64_t kFirst = 946'684'800'000;  // the year 2000: before it no clock was set
  Job job;
  for (const auto& [rank, activity] : run.ranks) {
    const TraceHeader& header = activity.trace.header;
    if (job.program.empty()) job.program = header.program;
    job.started = std::max(job.started, header.run / kMillisecond);
    if (std::find(job.hosts.begin(), job.hosts.end(), header.host) == job.hosts.end())
      job.hosts.push_back(header.host);
  }
  if (job.started < kFirst) job.started = 0;
  return job;
}

std::string date_text(std::int64_t milliseconds) {
  const std::time_t seconds = milliseconds / 1000;
  std::tm utc{};
  char text[64];
  if (gmtime_r(&seconds, &utc) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc)};
}

// Returns "mnist, started 2026-11-25 21:44 UTC, 4 ranks on node1, node2".
std::string title_of(const Job& job, int size) {
  std::string title = job.program.empty() ? "" : job.program + ", ";
  if (job.started > 0) title += "started " + date_text(job.started) + ", ";
  title += std::to_string(size) + (size == 1 ? " rank on " : " ranks on ");
  if (job.hosts.size() > kMostHosts) return title + std::to_string(job.hosts.size()) + " hosts";
  for (std::size_t i = 0; i < job.hosts.size(); ++i) title += (i > 0 ? ", " : "") + job.hosts[i];
  return title;
}

json ranks_json(const RunActivity& run, const Analysis& analysis, const Bins& bins) {
  json ranks = json::array();
  for (const int rank : analysis.ranks) {
    const Activity& activity = run.ranks.at(rank);
    const RankTrace& trace = activity.trace;
    ranks.push_back({{"rank", rank},
                     {"host", trace.header.host},
                     {"cores", trace.header.cores},
                     {"clock_error_us", rounded(activity.clock_error)},
                     {"mean", shares_json(analysis.means.at(rank))},
                     {"steps", shares_over_steps(analysis, bins, rank)},
                     {"late", lateness_over_steps(analysis, bins, rank)}});
  }
  return ranks;
}

json tensors_json(const Analysis& analysis) {
  json tensors = json::array();
  for (std::size_t i = 0; i < std::min(analysis.tensors.size(), kMostTensors); ++i) {
    const TensorTiming& one = analysis.tensors[i];
    tensors.push_back({{"name", one.name},
                       {"ready", milliseconds(one.ready)},
                       {"reduced", milliseconds(one.reduced)},
                       {"waited", milliseconds(one.waited)},
                       {"last", one.last}});
  }
  return tensors;
}

json speeds_json(const Analysis& analysis) {
  json speeds = json::array();
  for (const Speed& one : analysis.speeds) {
    speeds.push_back({{"phase", one.phase},
                      {"bytes", std::round(one.bytes)},
                      {"count", one.count},
                      {"rate", rounded(one.gigabytes)},
                      {"slow", rounded(one.slow)},
                      {"fast", rounded(one.fast)},
                      {"time", milliseconds(one.time)}});
  }
  return speeds;
}

json measured_json(const Measured& measured) {
  json speeds = json::array();
  for (const MeasuredSpeed& one : measured.speeds)
    speeds.push_back({{"who", one.who}, {"bytes", one.bytes}, {"rate", rounded(one.gigabytes)}});
  return {{"machine", measured.machine}, {"date", measured.date}, {"speeds", speeds}};
}

// Returns the flaws of the timelines, which limit what the report can say.
std::vector<std::string> doubts(const RunActivity& run, const Analysis& analysis) {
  std::vector<std::string> doubts;
  if (!run.missing.empty())
    doubts.push_back("There is no timeline of " + rank_list(run.missing) + " in the folder.");
  for (const std::string& path : run.without_begin)
    doubts.push_back(path +
                     " has no complete header: the process was killed, or the disk was full.");
  if (!run.of_other_runs.empty()) {
    doubts.push_back(std::to_string(run.of_other_runs.size()) +
                     " files of earlier runs were left out.");
  }
  std::vector<int> cut_off;
  std::vector<int> lost;
  std::vector<int> far_off;
  for (const auto& [rank, activity] : run.ranks) {
    if (!activity.trace.complete) cut_off.push_back(rank);
    if (activity.trace.lost > 0) lost.push_back(rank);
    if (activity.clock_error > kFarOff) far_off.push_back(rank);
  }
  const auto tell = [&](const std::vector<int>& ranks, const std::string& text) {
    if (!ranks.empty()) doubts.push_back("Timelines of " + rank_list(ranks) + ": " + text);
  };
  tell(analysis.short_ranks, "no steps, or less than half of what others have; left out.");
  tell(cut_off, "the file is incomplete (the process was killed?); the last 0.1 s may be missing.");
  tell(lost, "events were lost, because the disk was too slow.");
  tell(far_off, "the error of the clock is more than 1 ms.");
  if (analysis.left_out > 0) {
    doubts.push_back(std::to_string(analysis.left_out) +
                     " steps that some rank does not have were left out.");
  }
  if (!analysis.counts.front()) {
    doubts.push_back(
        "The first step, in which memory is allocated and buckets are made, is drawn, but left out "
        "of all other results.");
  }
  return doubts;
}

json data_of(const RunActivity& run, const Analysis& analysis, const Measured& measured,
             const std::vector<Finding>& findings) {
  const Bins bins = bins_of(analysis);
  json data;
  const Job job = job_of(run);
  data["program"] = job.program;
  data["title"] = title_of(job, run.size);
  data["step_time"] = milliseconds(analysis.mean.whole());
  data["steps"] = json::array();
  for (std::size_t bin = 0; bin < bins.count; ++bin)
    data["steps"].push_back(analysis.steps[bin * bins.steps_each]);
  data["last_step"] = analysis.steps.back();
  data["steps_each"] = bins.steps_each;
  data["mean"] = shares_json(analysis.mean);
  data["ranks"] = ranks_json(run, analysis, bins);
  data["tensors"] = tensors_json(analysis);
  data["speeds"] = speeds_json(analysis);
  data["measured"] = measured_json(measured);
  data["scopes"] = json::array();
  for (std::size_t i = 0; i < std::min(analysis.scopes.size(), kMostScopes); ++i) {
    data["scopes"].push_back(
        {{"name", analysis.scopes[i].name}, {"time", milliseconds(analysis.scopes[i].time)}});
  }
  data["findings"] = json::array();
  for (const Finding& one : findings)
    data["findings"].push_back({{"title", one.title}, {"text", one.text}});
  data["doubts"] = doubts(run, analysis);
  return data;
}

// Returns JSON that may stand within a script element of HTML.
std::string script_text(const json& data) {
  const std::string plain = data.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string text;
  for (const char letter : plain) {
    if (letter == '<') {
      text += "\\u003c";
    } else {
      text += letter;
    }
  }
  return text;
}

}  // namespace

ReportText report_text(const ReportOptions& options) {
  const RunActivity run = read_activity(options.folder);
  const Analysis analysis = analyse(run);
  const Measured measured =
      options.bandwidth.empty() ? Measured() : read_measured(options.bandwidth, run.size);
  const std::vector<Finding> findings = find_causes(run, analysis, measured);
  ReportText text;
  text.data = script_text(data_of(run, analysis, measured, findings));
  const Shares& mean = analysis.mean;
  const double whole = mean.whole() > 0 ? mean.whole() / 100 : 1;
  char split[160];
  std::snprintf(split, sizeof split,
                "computing %.0f %%, communication hidden behind it %.0f %%, waiting while tensors "
                "are communicated %.0f %%, waiting while nothing is %.0f %%",
                mean.compute / whole, mean.overlapped / whole, mean.exposed / whole,
                mean.waiting / whole);
  text.words = printable(title_of(job_of(run), run.size)) + "\na step takes " +
               time_text(mean.whole()) + ": " + split + "\n";
  for (const Finding& one : findings)
    text.words += "- " + printable(one.title + ". " + one.text) + "\n";
  for (const std::string& doubt : doubts(run, analysis)) text.words += printable(doubt) + "\n";
  return text;
}

void write_report(const ReportText& text, std::ostream& page) {
  if (report_plotly().empty()) {
    throw FileError(
        "this kolo was built without plotly.min.js, which draws: configure it with "
        "-DKOLO_PLOTLY=FILE (scripts/setup fetches it)");
  }
  std::string_view rest = report_page();
  const auto put = [&](std::string_view mark, std::string_view what) {
    const std::size_t at = rest.find(mark);
    page << rest.substr(0, at) << what;
    rest.remove_prefix(std::min(rest.size(), at + mark.size()));
  };
  put("@PLOTLY@", report_plotly());
  put("@DATA@", text.data);
  put("@SCRIPT@", report_script());
  page << rest;
}

}  // namespace kolo::tools
