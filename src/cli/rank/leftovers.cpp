#include "cli/rank/leftovers.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/file.hpp"
#include "core/flight_files.hpp"
#include "core/host.hpp"

namespace kolo::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t kWeek = 7L * 24 * 3600;
constexpr const char* kSessionName = "kolo-run-XXXXXX";  // mkdtemp() fills in the Xs

std::string owner_text() {
  return host_name() + " " + boot_id() + "\n";
}

std::optional<struct stat> info_of(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
  return info;
}

// Whether the path is a folder of this user, and not a link to one.
bool is_own_folder(const std::string& path) {
  const auto info = info_of(path);
  return info && S_ISDIR(info->st_mode) && info->st_uid == ::geteuid();
}

bool is_old(const struct stat& info) {
  return info.st_mtime + kWeek < std::time(nullptr);
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  return entries;
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

bool is_dead_session(const std::string& folder) {
  const Fd owner(::open((folder + "/owner").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!owner.is_open() || ::fstat(owner.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const std::string text = read_file(folder + "/owner").value_or("");
  const bool is_of_this_boot = text == owner_text();
  const bool is_of_this_host = starts_with(text, host_name() + " ");
  if (!is_of_this_boot && !(is_of_this_host && is_old(info))) return false;
  return ::flock(owner.get(), LOCK_EX | LOCK_NB) == 0;
}

// Returns the text after `key` in a line of JSON, up to one of the characters in `ends`.
std::string value_of(const std::string& line, const std::string& key, const char* ends) {
  const std::size_t begin = line.find(key);
  if (begin == std::string::npos) return {};
  const std::size_t first = begin + key.size();
  return line.substr(first, std::min(line.find_first_of(ends, first), line.size()) - first);
}

bool is_running(long pid) {
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
}

bool is_dead_record(const std::string& path) {
  const auto info = info_of(path);
  if (!info || !S_ISREG(info->st_mode) || info->st_uid != ::geteuid() || !is_old(*info))
    return false;
  const std::string head = first_line(path);
  if (!starts_with(head, "{\"kolo_flight\":")) return false;
  if (value_of(head, "\"host\":\"", "\"") != host_name()) return false;
  const std::optional<long> pid = parse_integer(value_of(head, "\"process\":", ",}"));
  return pid && *pid > 0 && !is_running(*pid);
}

}  // namespace

Fd claim_folder(const std::string& folder) {
  // The file has another name until it is locked, so that nobody finds it without its lock.
  const std::string unfinished = folder + "/owner.new";
  const std::string name = folder + "/owner";
  Fd owner(::open(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!owner.is_open()) return {};
  if (::flock(owner.get(), LOCK_EX | LOCK_NB) == 0 && write_all(owner.get(), owner_text()) == 0 &&
      ::rename(unfinished.c_str(), name.c_str()) == 0)
    return owner;
  ::unlink(unfinished.c_str());
  return {};
}

void remove_dead_sessions(const std::string& parent) {
  const std::string form = kSessionName;
  const std::string start = form.substr(0, form.find('X'));
  for (const fs::path& folder : entries_of(parent)) {
    const std::string name = folder.filename();
    if (name.size() != form.size() || !starts_with(name, start)) continue;
    std::error_code ignored;
    if (is_own_folder(folder) && is_dead_session(folder)) fs::remove_all(folder, ignored);
  }
}

void remove_old_flight_records(const std::string& folder) {
  if (!is_own_folder(folder)) return;
  for (const fs::path& job : entries_of(folder)) {
    const bool is_number =
        job.filename().string().find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || !is_own_folder(job)) continue;
    bool is_touched = false;
    for (const fs::path& record : entries_of(job)) {
      if (!starts_with(record.filename(), kFlightPrefix) || !is_dead_record(record)) continue;
      is_touched = ::unlink(record.c_str()) == 0 || is_touched;
    }
    if (is_touched) ::rmdir(job.c_str());  // fails while other records exist
  }
}

std::string flight_records_folder() {
  const std::string folder = system_environment()("TMPDIR").value_or("");
  return (folder.empty() ? "/tmp" : folder) + "/" + flight_folder_name(::getuid());
}

}  // namespace kolo::cli
