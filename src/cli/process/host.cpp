// Describes this machine: files, addresses, cores, ports and processes.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <system_error>

#include "cli/process/binding.hpp"
#include "cli/process/system.hpp"
#include "core/clock.hpp"
#include "core/host.hpp"

namespace kolo::cli {
namespace {

bool can_bind(int port) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket API's own way
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void add_address(const sockaddr* address, std::vector<std::string>& all) {
  if (address == nullptr || address->sa_family != AF_INET) return;
  std::array<char, INET_ADDRSTRLEN> text{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket API's own way
  const in_addr& number = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (::inet_ntop(AF_INET, &number, text.data(), text.size()) != nullptr)
    all.emplace_back(text.data());
}

// Returns the parent of a process, from /proc, or nothing if the process is gone.
std::optional<pid_t> parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The program's name is in parentheses and may hold any characters.
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(close + 1));
  char state = 0;
  pid_t parent = 0;
  if (!(rest >> state >> parent)) return std::nullopt;
  return parent;
}

std::map<pid_t, pid_t> all_parents() {
  std::map<pid_t, pid_t> parents;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::optional<long> pid = parse_integer(entry->path().filename().string());
    if (!pid) continue;
    const std::optional<pid_t> parent = parent_of(static_cast<pid_t>(*pid));
    if (parent) parents[static_cast<pid_t>(*pid)] = *parent;
  }
  return parents;
}

std::vector<pid_t> descendants() {
  const std::map<pid_t, pid_t> parents = all_parents();
  std::set<pid_t> family = {::getpid()};
  for (bool grown = true; grown;) {
    grown = false;
    for (const auto& [pid, parent] : parents) {
      if (family.count(parent) != 0 && family.insert(pid).second) grown = true;
    }
  }
  family.erase(::getpid());
  return {family.begin(), family.end()};
}

}  // namespace

std::optional<std::string> read_file(const std::string& name) {
  std::ifstream file(name);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

std::string own_directory() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  check(::gethostname(name.data(), name.size() - 1), "gethostname");
  return name.data();
}

std::vector<std::string> addresses_of_name(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<std::string> all;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    add_address(one->ai_addr, all);
  return all;
}

std::vector<std::string> own_addresses() {
  ifaddrs* found = nullptr;
  check(::getifaddrs(&found), "getifaddrs");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, ::freeifaddrs);
  std::vector<std::string> all;
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next)
    add_address(one->ifa_addr, all);
  return all;
}

int available_cores() {
  const auto cores = static_cast<long>(usable_cores_in_order().size());
  return static_cast<int>(cores > 0 ? cores : std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

int free_port() {
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int port = 20000 + static_cast<int>(random() % 10000);
    if (can_bind(port)) return port;
  }
  throw std::system_error(EADDRINUSE, std::generic_category(), "no TCP port from 20000 to 29999");
}

void become_reaper() {
  check(::prctl(PR_SET_CHILD_SUBREAPER, 1), "prctl(PR_SET_CHILD_SUBREAPER)");
}

void kill_descendants() {
  const Clock::time_point deadline = Clock::now() + seconds(2);
  while (Clock::now() < deadline) {
    const std::vector<pid_t> left = descendants();
    if (left.empty()) return;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);  // fails for one that has just gone
    // Reaps the dead, which would otherwise be found again. The rest dies within moments.
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    ::usleep(2000);
  }
}

}  // namespace kolo::cli
