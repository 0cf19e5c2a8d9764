#include "cli/process/environment.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>

namespace kolo::cli {

Lookup system_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value =
        std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): no threads here
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Variables system_variables() {
  Variables all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

std::optional<long> parse_integer(const std::string& text) {
  long value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

std::optional<int> parse_threads(const std::string& text) {
  std::optional<int> first;
  std::size_t begin = 0;
  for (std::size_t comma = 0; comma != std::string::npos; begin = comma + 1) {
    comma = text.find(',', begin);
    std::string word = text.substr(begin, comma == std::string::npos ? comma : comma - begin);
    word.erase(0, word.find_first_not_of(" \t"));
    word.erase(word.find_last_not_of(" \t") + 1);
    const std::optional<long> number = parse_integer(word);
    if (!number || *number < 1 || *number > 1'000'000) return std::nullopt;
    if (!first) first = static_cast<int>(*number);
  }
  return first;
}

}  // namespace kolo::cli
