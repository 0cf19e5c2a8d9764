#include "cli/run/rank_files.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

// Raises the limit of open files, because there may be more ranks than files that a process may
// open by default. Called only when necessary: the launcher and its ranks should have the user's
// limit.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // if this fails, opening fails, and is reported
}

void open_to_append(std::ofstream& file, const std::string& name) {
  file.open(name, std::ios::app | std::ios::binary);
  if (file.is_open() || errno != EMFILE) return;
  allow_many_files();
  file.clear();
  file.open(name, std::ios::app | std::ios::binary);
}

}  // namespace

RankFiles::RankFiles(std::string folder, int size)
    : folder_(std::move(folder)), digits_(std::to_string(size - 1).size()) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (!error && ::access(folder_.c_str(), W_OK | X_OK) != 0) {
    error = {errno, std::generic_category()};
  }
  if (error) throw UsageError("--output-dir " + folder_ + ": " + error.message());
}

std::string RankFiles::name_of(int rank) const {
  std::string number = std::to_string(rank);
  if (number.size() < digits_) number.insert(0, digits_ - number.size(), '0');
  return folder_ + "/rank-" + number + ".log";
}

std::string RankFiles::write(int rank, const std::string& text) {
  if (text.empty()) return {};
  std::ofstream& file = files_[rank];
  if (!file.is_open()) open_to_append(file, name_of(rank));
  if (file << text << std::flush || has_failed_) return {};
  has_failed_ = true;
  return "cannot write " + name_of(rank) + "; the rest of the ranks' output is missing there";
}

}  // namespace kolo::cli
