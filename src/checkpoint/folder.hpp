// A folder of checkpoints: NAME-000000012.h5 is that of step 12.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.hpp"

namespace kolo::checkpoint {

std::string file_name(const std::string& name, std::int64_t step);
// Nothing if it is no checkpoint of that name.
std::optional<std::int64_t> step_of(const std::string& file, const std::string& name);

struct Saved {
  std::int64_t step = 0;
  std::string path;
};
// Those of a name, whole or damaged, newest first. Throws FileError.
std::vector<Saved> list_checkpoints(FileSystem& files, const std::string& folder,
                                    const std::string& name);

// Removes what broken saves of that name have left. Throws FileError.
void remove_partial_files(FileSystem& files, const std::string& folder, const std::string& name);

struct Retention {
  std::int64_t last = 0;   // the newest so many; 0: all
  std::int64_t every = 0;  // and those whose step is a multiple of it; 0: none
  std::int64_t best = 0;   // and the so many with the best metric; 0: none
  bool higher_is_better = false;
};

// Which steps may go, now that `saved` is complete. Steps after it stay and do not count: they are
// of a run that was given up, or damaged, and must not push out what the present one saves.
// `metrics`: of those that have one, by step. Of equal metrics the newer one is better, NaN counts
// as none. Pure.
std::vector<std::int64_t> removable(const std::vector<std::int64_t>& steps, std::int64_t saved,
                                    const std::map<std::int64_t, double>& metrics,
                                    const Retention& retention);

}  // namespace kolo::checkpoint
