#include "cli/batch/hosts.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "cli/process/environment.hpp"

namespace kolo::cli {
namespace {

constexpr long kMostSlots = 1'000'000;

int parse_slots(const std::string& text, const std::string& where) {
  const std::optional<long> slots = parse_integer(text);
  if (!slots || *slots < 1 || *slots > kMostSlots) {
    throw UsageError(where + ": '" + text +
                     "' is not a number of slots; expected a whole number from 1");
  }
  return static_cast<int>(*slots);
}

void add(std::vector<Host>& hosts, const Host& host, const std::string& where) {
  const auto is_name_char = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  };
  if (host.name.empty() || !std::all_of(host.name.begin(), host.name.end(), is_name_char) ||
      host.name.front() == '-') {
    throw UsageError(where + ": '" + host.name + "' is not a host name");
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

bool is_ipv6(const std::string& entry) {
  std::string address = entry.front() == '[' ? entry.substr(1, entry.find(']') - 1) : entry;
  address = address.substr(0, address.find('%'));  // fe80::1%eth0
  in6_addr parsed{};
  return ::inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

// Refuses user names and IPv6 addresses, which ssh accepts but MPI launchers do not.
void refuse_unsupported(const std::string& entry, const std::string& where) {
  const std::size_t at = entry.find('@');
  if (at != std::string::npos) {
    const std::string name = entry.substr(at + 1, entry.find(':', at) - at - 1);
    throw UsageError(where + ": '" + entry +
                     "': a user name cannot be given here; put the lines 'Host " + name +
                     "' and 'User " + entry.substr(0, at) + "' into ~/.ssh/config, and write '" +
                     entry.substr(at + 1) + "'");
  }
  if (is_ipv6(entry)) {
    throw UsageError(where + ": '" + entry +
                     "': an IPv6 address cannot be given to MPI launchers; give the host's name (a "
                     "line in /etc/hosts makes one) or its IPv4 address");
  }
}

Host parse_entry(const std::string& entry, const std::string& where) {
  refuse_unsupported(entry, where);
  const std::size_t colon = entry.find(':');
  if (colon == std::string::npos) return {entry, 1, false};
  return {entry.substr(0, colon), parse_slots(entry.substr(colon + 1), where), true};
}

// Parses "slots=4" or "max_slots=8" after a host's name. The latter limits the slots and is
// returned in `most`; kolo never starts more ranks on a host than it has slots.
void parse_setting(const std::string& word, Host& host, int& most, const std::string& where) {
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  if (equals == std::string::npos || (key != "slots" && key != "max_slots" && key != "max-slots")) {
    throw UsageError(where + ": '" + word + "' is not understood; expected 'HOST slots=N'");
  }
  const int slots = parse_slots(word.substr(equals + 1), where);
  if (key != "slots") {
    most = slots;
    return;
  }
  host.slots = slots;
  host.slots_given = true;
}

void check_most_slots(const Host& host, int most, const std::string& where) {
  if (most == 0) return;
  if (!host.slots_given) {
    throw UsageError(
        where + ": " + host.name +
        " has max_slots but no slots, which is the number of ranks that the host takes; write '" +
        host.name + " slots=" + std::to_string(most) + "'");
  }
  if (host.slots > most) {
    throw UsageError(where + ": " + host.name + " has " + std::to_string(host.slots) +
                     " slots, which is more than its max_slots, " + std::to_string(most));
  }
}

bool is_ipv4(const std::string& name) {
  in_addr parsed{};
  return ::inet_pton(AF_INET, name.c_str(), &parsed) == 1;
}

bool is_loopback(const std::string& address) {
  return address.compare(0, 4, "127.") == 0;
}

std::string first_label(const std::string& name) {
  return name.substr(0, name.find('.'));
}

[[noreturn]] void refuse_same(const std::string& a, const std::string& b, const std::string& why) {
  throw UsageError("hosts " + a + " and " + b + " are one host" + why +
                   "; name it in one way, with all of its slots (" + a + ":SLOTS)");
}

// Returns all addresses by which a host is known. The host of kolo run also has those of its
// interfaces.
std::vector<std::string> addresses_of(const std::string& name, const std::string& own_name,
                                      const HostAddresses& addresses) {
  std::vector<std::string> all = addresses.of_name(name);
  const std::vector<std::string> own = addresses.own();
  const auto is_own = [&](const std::string& address) {
    return is_loopback(address) || std::find(own.begin(), own.end(), address) != own.end();
  };
  if (is_this_host(name, own_name) || std::any_of(all.begin(), all.end(), is_own)) {
    all.insert(all.end(), own.begin(), own.end());
    all.emplace_back("127.0.0.1");
  }
  return all;
}

// Refuses two entries with the same address. Looks names up only if some entry is an address:
// look-ups take time, and names of one kind can be compared by their first labels.
void check_addresses(const std::vector<Host>& hosts, const std::string& own_name,
                     const HostAddresses& addresses) {
  const auto has_address = [](const Host& host) { return is_ipv4(host.name); };
  if (std::none_of(hosts.begin(), hosts.end(), has_address)) return;
  std::map<std::string, std::string> host_at;
  for (const Host& host : hosts) {
    for (const std::string& address : addresses_of(host.name, own_name, addresses)) {
      const auto [known, is_new] = host_at.emplace(address, host.name);
      if (!is_new && known->second != host.name)
        refuse_same(known->second, host.name, " (" + address + ")");
    }
  }
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
    int most = 0;  // not given
    while (words >> word) parse_setting(word, host, most, where);
    check_most_slots(host, most, where);
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
  // node7 and node7.cluster.example are one host; 10.0.0.1 and 10.0.0.2 are two.
  const bool is_address = name.find_first_not_of("0123456789.") == std::string::npos;
  const auto label = [](const std::string& full) { return full.substr(0, full.find('.')); };
  const bool one_is_short =
      name.find('.') == std::string::npos || own_name.find('.') == std::string::npos;
  return !is_address && one_is_short && label(name) == label(own_name);
}

void check_that_hosts_differ(const std::vector<Host>& hosts, const std::string& own_name,
                             bool whole_names, const HostAddresses& addresses) {
  const std::string* own = nullptr;
  std::map<std::string, std::string> name_with = {{first_label(own_name), own_name}};
  for (const Host& host : hosts) {
    if (is_this_host(host.name, own_name)) {
      if (own != nullptr) refuse_same(*own, host.name, "");
      own = &host.name;
      continue;
    }
    if (whole_names || is_ipv4(host.name)) continue;
    const auto [known, is_new] = name_with.emplace(first_label(host.name), host.name);
    if (is_new || known->second == host.name) continue;
    if (is_this_host(host.name, known->second)) refuse_same(known->second, host.name, "");
    throw UsageError("hosts " + known->second + " and " + host.name +
                     " share the first part of "
                     "their names, '" +
                     known->first +
                     "', which is all that Open MPI looks at: it "
                     "would start all ranks on one of them; give their IPv4 addresses instead");
  }
  check_addresses(hosts, own_name, addresses);
}

}  // namespace kolo::cli
