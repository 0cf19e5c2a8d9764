// Reads what `kolo bench allreduce --json` has written.
#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "kolo/error.h"
#include "tools/json_fields.hpp"
#include "tools/trace/findings.hpp"

namespace kolo::tools {
namespace {

using nlohmann::json;

// Fewer samples say little.
constexpr std::int64_t kLeastSamples = 8;

// "allreduce/67108864/private/2"
struct Work {
  std::string memory;
  int ranks = 0;
};

bool parse_work(const std::string& text, Work& work) {
  std::istringstream words(text);
  std::string operation;
  std::string bytes;
  return std::getline(words, operation, '/') && operation == "allreduce" &&
         std::getline(words, bytes, '/') && std::getline(words, work.memory, '/') &&
         words >> work.ranks;
}

Measured read_rows(const json& report, int ranks) {
  Measured measured;
  measured.machine = report.at("machine").get<std::string>();
  measured.date = report.at("date").get<std::string>();
  std::map<std::pair<std::string, double>, double> best;
  for (const json& row : report.at("rows")) {
    Work work;
    if (!parse_work(row.at("work").get<std::string>(), work) || work.ranks != ranks) continue;
    const auto who = row.at("contender").get<std::string>();
    if (who != "kolo" && who != "limit") continue;
    const auto bytes = static_cast<double>(integer_at(row, "bytes"));
    const double time = number_at(row, "median_us");
    if (integer_at(row, "samples") < kLeastSamples || !(time > 0) || !(bytes > 0)) continue;
    double& rate = best[{who + ", " + work.memory, bytes}];
    rate = std::max(rate, bytes / time / 1000);
  }
  for (const auto& [key, rate] : best) measured.speeds.push_back({key.first, key.second, rate});
  if (measured.speeds.empty())
    throw DataError("no allreduce with " + std::to_string(ranks) + " ranks was measured in it");
  return measured;
}

}  // namespace

Measured read_measured(const std::string& path, int ranks) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path + ": cannot be read: " + std::generic_category().message(errno));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw FileError(path + ": reading failed");
  try {
    return read_rows(parse_json(text), ranks);
  } catch (const json::exception& error) {
    throw DataError(path + ": was not written by kolo bench allreduce --json: " + error.what());
  } catch (const DataError& error) {
    throw DataError(path + ": " + error.what());
  }
}

}  // namespace kolo::tools
