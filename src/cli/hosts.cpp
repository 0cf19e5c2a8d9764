#include "cli/hosts.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/environment.hpp"

namespace kolo::cli {
namespace {

constexpr long kMostSlots = 1'000'000;

int parse_slots(const std::string& text, const std::string& where) {
  const std::optional<long> slots = parse_integer(text);
  if (!slots || *slots < 1 || *slots > kMostSlots) {
    throw UsageError(where + ": '" + text +
                     "' is no number of slots; expected a whole number from 1");
  }
  return static_cast<int>(*slots);
}

void add(std::vector<Host>& hosts, const Host& host, const std::string& where) {
  const auto is_name_char = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  };
  if (host.name.empty() || !std::all_of(host.name.begin(), host.name.end(), is_name_char) ||
      host.name.front() == '-') {
    throw UsageError(where + ": '" + host.name + "' is no host name");
  }
  const auto same = [&](const Host& other) { return other.name == host.name; };
  const auto known = std::find_if(hosts.begin(), hosts.end(), same);
  if (known == hosts.end()) {
    hosts.push_back(host);
  } else {
    known->slots += host.slots;
    known->slots_given = true;
  }
}

Host parse_entry(const std::string& entry, const std::string& where) {
  const std::size_t colon = entry.find(':');
  if (colon == std::string::npos) return {entry, 1, false};
  return {entry.substr(0, colon), parse_slots(entry.substr(colon + 1), where), true};
}

// "slots=4" and "max_slots=8" after the host's name; the latter is what a host can take at most,
// which kolo reaches never, because it never goes beyond the slots.
void parse_setting(const std::string& word, Host& host, const std::string& where) {
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  if (equals == std::string::npos || (key != "slots" && key != "max_slots" && key != "max-slots")) {
    throw UsageError(where + ": '" + word + "' is not understood; expected 'HOST slots=N'");
  }
  const int slots = parse_slots(word.substr(equals + 1), where);
  if (key != "slots") return;
  host.slots = slots;
  host.slots_given = true;
}

}  // namespace

std::vector<Host> parse_host_list(const std::string& text) {
  std::vector<Host> hosts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, comma - begin);
    const std::string where = "host list '" + text + "'";
    if (entry.empty())
      throw UsageError(where + ": an entry is empty; expected host:slots,host:slots");
    add(hosts, parse_entry(entry, where), where);
    begin = comma + 1;
  }
  return hosts;
}

std::vector<Host> parse_hostfile(const std::string& text, const std::string& file_name) {
  std::vector<Host> hosts;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string where = file_name + ", line " + std::to_string(number);
    std::string uncommented = line.substr(0, line.find('#'));
    std::replace(uncommented.begin(), uncommented.end(), '\r', ' ');
    std::istringstream words(uncommented);
    std::string word;
    if (!(words >> word)) continue;
    Host host = parse_entry(word, where);
    while (words >> word) parse_setting(word, host, where);
    add(hosts, host, where);
  }
  if (hosts.empty()) throw UsageError(file_name + " names no host");
  return hosts;
}

int total_slots(const std::vector<Host>& hosts) {
  long total = 0;
  for (const Host& host : hosts) total = std::min(total + host.slots, kMostSlots);
  return static_cast<int>(total);
}

std::string to_string(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) {
    if (!text.empty()) text += ",";
    text += host.name + ":" + std::to_string(host.slots);
  }
  return text;
}

bool is_this_host(const std::string& name, const std::string& own_name) {
  if (name == "localhost" || name == "127.0.0.1" || name == own_name) return true;
  // node7 and node7.cluster.example are one host, 10.0.0.1 and 10.0.0.2 are not.
  const bool is_address = name.find_first_not_of("0123456789.") == std::string::npos;
  const auto label = [](const std::string& full) { return full.substr(0, full.find('.')); };
  const bool one_is_short =
      name.find('.') == std::string::npos || own_name.find('.') == std::string::npos;
  return !is_address && one_is_short && label(name) == label(own_name);
}

}  // namespace kolo::cli
