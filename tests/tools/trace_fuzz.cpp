// Any files give a merged trace and a report, or a DataError. What is merged is JSON.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "fuzz_json.hpp"
#include "kolo/error.h"
#include "temporary_folder.hpp"
#include "tools/trace/merge.hpp"
#include "tools/trace/report.hpp"
#include "tools/trace/report/files.hpp"

namespace kolo::tools {

std::string_view report_page() {
  return "@PLOTLY@@DATA@@SCRIPT@";
}

std::string_view report_script() {
  return "";
}

std::string_view report_plotly() {
  return "plotly";
}

namespace {

std::string header(JsonMaker& json, int rank) {
  const std::string args = JsonMaker::object(
      json.field("version", "1") + json.field("rank", std::to_string(rank)) +
      json.field("size", "2") + json.field("host", "\"node\"") + json.field("cores", "\"0-3\"") +
      json.field("run", "7") + json.field("shift_ns", json.number()) +
      json.field("fusion_threshold", json.number()));
  return "[\n{\"name\":\"kolo\",\"ph\":\"M\",\"args\":" + args + "},\n";
}

std::string clock(JsonMaker& json) {
  const std::string args = JsonMaker::object(json.field("at_ns", json.number()) +
                                             json.field("offset_ns", json.number()) +
                                             json.field("error_ns", json.number()));
  return "{\"ph\":\"i\",\"name\":\"clock\",\"args\":" + args + "}";
}

std::string row(int tid) {
  const std::string number = std::to_string(tid);
  return R"({"name":"thread_name","ph":"M","tid":)" + number + R"(,"args":{"name":"row )" + number +
         "\"}}";
}

std::string span(JsonMaker& json) {
  static constexpr std::array<const char*, 7> kCategories = {
      "negotiate", "operation", "collective", "memcpy", "wait", "scope", "step"};
  static constexpr std::array<const char*, 3> kNames = {"ALLREDUCE", "SHM_ALLREDUCE", "CLOCK"};
  std::string args = json.field("step", json.number()) + json.field("bytes", json.number()) +
                     json.field("sequence", json.number());
  if (json.chance()) args += json.field("bucket", json.number());
  if (json.chance()) args += json.field("members", json.number());
  if (json.chance()) args += json.field("process_set", json.number());
  args += json.field("for", json.text());
  return JsonMaker::object(json.field("ph", "\"X\"") + json.field("name", json.one_of(kNames)) +
                           json.field("cat", json.one_of(kCategories)) + json.field("pid", "1") +
                           json.field("tid", json.number()) + json.field("ts", json.number()) +
                           json.field("dur", json.number()) +
                           json.field("args", JsonMaker::object(args)));
}

void write(const std::string& folder, JsonMaker& json, int rank) {
  std::string text = header(json, rank);
  for (int tid = 0; tid < 13; ++tid) text += row(tid) + ",\n";
  for (int i = 0; i < 30 && json.more(); ++i) {
    if (json.chance()) {
      text += clock(json);
    } else if (json.chance()) {
      text += json.raw();
    } else {
      text += span(json);
    }
    text += ",\n";
  }
  std::ofstream(folder + "/timeline-rank-" + std::to_string(rank) + ".json") << text;
}

// Mostly empty: there is nothing that a report must be compared with.
std::string write_speeds(const std::string& folder, JsonMaker& json) {
  if (!json.chance()) return "";
  std::string path = folder + "/speeds.json";
  static constexpr std::array<const char*, 2> kWho = {"kolo", "limit"};
  static constexpr std::array<const char*, 3> kWork = {"allreduce/4/arena/2", "allreduce",
                                                       "x/y/z/2"};
  const std::string row = JsonMaker::object(
      json.field("work", json.one_of(kWork)) + json.field("contender", json.one_of(kWho)) +
      json.field("bytes", json.number()) + json.field("median_us", json.number()) +
      json.field("samples", "20"));
  std::ofstream(path) << JsonMaker::object(json.field("machine", json.text()) +
                                           json.field("date", json.text()) +
                                           json.field("rows", "[" + row + "]"));
  return path;
}

}  // namespace
}  // namespace kolo::tools

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const kolo::testing_support::TemporaryFolder folder("/dev/shm");
  kolo::tools::JsonMaker json(data, size);
  for (int rank = 0; rank < 2; ++rank) kolo::tools::write(folder.path(), json, rank);
  const std::string bandwidth = kolo::tools::write_speeds(folder.path(), json);
  std::ostringstream out;
  std::ostringstream merged;
  try {
    kolo::tools::merge_traces(folder.path(), merged, out);
    const std::string text = merged.str();
    if (text.find('\0') != std::string::npos || !nlohmann::json::accept(text)) std::abort();
  } catch (const kolo::DataError&) {
  }
  try {
    kolo::tools::write_report(kolo::tools::report_text({folder.path(), bandwidth}), out);
  } catch (const kolo::DataError&) {
  }
  return 0;
}
