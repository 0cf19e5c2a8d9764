#include "trainer/metric_names.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <sstream>

namespace kolo::trainer {

std::string text_of(const NamedValues& metrics) {
  std::ostringstream text;
  text.precision(17);
  for (const auto& [name, value] : metrics) text << value << ' ' << name << '\n';
  return text.str();
}

NamedValues metrics_of(const std::string& text) {
  NamedValues metrics;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos)
      metrics.emplace_back(line.substr(space + 1), std::strtod(line.c_str(), nullptr));
  }
  return metrics;
}

std::vector<std::string> names_of_metrics(const std::vector<std::string>& own, bool validates) {
  std::vector<std::string> names{"loss"};
  names.insert(names.end(), own.begin(), own.end());
  const std::size_t trained = names.size();
  for (std::size_t i = 0; validates && i < trained; ++i) names.push_back("valid_" + names[i]);
  for (const char* name : {"learning_rate", "samples_per_second", "seconds", "memory_mib"})
    names.emplace_back(name);
  return names;
}

std::string list_of_names(const NamedValues& metrics) {
  std::string names;
  for (const auto& [name, value] : metrics) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none yet" : names;
}

bool is_reserved(const std::string& name) {
  static const std::vector<std::string> kNames{"loss", "learning_rate", "samples_per_second",
                                               "seconds", "memory_mib"};
  return name.empty() || name.rfind("valid_", 0) == 0 ||
         std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' '; }) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace kolo::trainer
