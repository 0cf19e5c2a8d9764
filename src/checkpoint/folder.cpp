#include "checkpoint/folder.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "checkpoint/writing.hpp"

namespace kolo::checkpoint {
namespace {

constexpr const char* kSuffix = ".h5";
constexpr std::size_t kDigits = 9;  // so that names sort like steps

std::string inside(const std::string& folder, const std::string& file) {
  return std::string(folder).append("/").append(file);
}

}  // namespace

std::string file_name(const std::string& name, std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return name + "-" + digits + kSuffix;
}

std::optional<std::int64_t> step_of(const std::string& file, const std::string& name) {
  const std::string prefix = name + "-";
  const std::string suffix = kSuffix;
  if (file.size() < prefix.size() + kDigits + suffix.size() || !file.starts_with(prefix) ||
      !file.ends_with(suffix))
    return std::nullopt;
  std::int64_t step = 0;
  for (std::size_t i = prefix.size(); i < file.size() - suffix.size(); ++i) {
    const bool is_digit = file[i] >= '0' && file[i] <= '9';
    if (!is_digit || __builtin_mul_overflow(step, 10, &step) ||
        __builtin_add_overflow(step, file[i] - '0', &step))
      return std::nullopt;
  }
  // Several names can denote a step; accepts only the one that kolo writes.
  if (file != file_name(name, step)) return std::nullopt;
  return step;
}

std::vector<Saved> list_checkpoints(FileSystem& files, const std::string& folder,
                                    const std::string& name) {
  std::vector<Saved> all;
  for (const std::string& file : files.list(folder)) {
    if (const std::optional<std::int64_t> step = step_of(file, name))
      all.push_back({*step, inside(folder, file)});
  }
  std::sort(all.begin(), all.end(),
            [](const Saved& left, const Saved& right) { return left.step > right.step; });
  return all;
}

void remove_partial_files(FileSystem& files, const std::string& folder, const std::string& name) {
  const std::string suffix = partial_path("");
  for (const std::string& file : files.list(folder)) {
    if (file.ends_with(suffix) && step_of(file.substr(0, file.size() - suffix.size()), name))
      files.remove(inside(folder, file));
  }
}

std::vector<std::int64_t> removable(const std::vector<std::int64_t>& steps, std::int64_t saved,
                                    const std::map<std::int64_t, double>& metrics,
                                    const Retention& retention) {
  if (retention.last == 0) return {};
  std::vector<std::int64_t> newest_first;
  for (const std::int64_t step : steps)
    if (step <= saved) newest_first.push_back(step);
  std::sort(newest_first.rbegin(), newest_first.rend());

  std::set<std::int64_t> kept;
  std::vector<std::pair<double, std::int64_t>> by_metric;
  for (std::size_t i = 0; i < newest_first.size(); ++i) {
    const std::int64_t step = newest_first[i];
    const bool is_last = static_cast<std::int64_t>(i) < retention.last;
    const bool is_regular = retention.every > 0 && step % retention.every == 0;
    if (is_last || is_regular) kept.insert(step);
    const auto metric = metrics.find(step);
    if (metric != metrics.end() && !std::isnan(metric->second))
      by_metric.emplace_back(retention.higher_is_better ? -metric->second : metric->second, step);
  }
  std::stable_sort(by_metric.begin(), by_metric.end(),
                   [](const auto& left, const auto& right) { return left.first < right.first; });
  const auto best = static_cast<std::size_t>(retention.best);
  for (std::size_t i = 0; i < std::min(best, by_metric.size()); ++i)
    kept.insert(by_metric[i].second);

  std::vector<std::int64_t> gone;
  for (const std::int64_t step : newest_first)
    if (kept.count(step) == 0) gone.push_back(step);
  return gone;
}

}  // namespace kolo::checkpoint
