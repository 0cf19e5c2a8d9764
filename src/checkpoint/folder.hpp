// A folder of checkpoints. NAME-000000012.h5 is the checkpoint of step 12.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.hpp"

namespace kolo::checkpoint {

std::string file_name(const std::string& name, std::int64_t step);
// Returns nothing if the file is not a checkpoint with that name.
std::optional<std::int64_t> step_of(const std::string& file, const std::string& name);

struct Saved {
  std::int64_t step = 0;
  std::string path;
};
// Returns the checkpoints with a name, whole or damaged, newest first. Throws FileError.
std::vector<Saved> list_checkpoints(FileSystem& files, const std::string& folder,
                                    const std::string& name);

// Removes what interrupted saves with that name have left. Throws FileError.
void remove_partial_files(FileSystem& files, const std::string& folder, const std::string& name);

struct Retention {
  std::int64_t last = 0;   // number of newest ones; 0: keep all
  std::int64_t every = 0;  // also those whose step is a multiple of this; 0: off
  std::int64_t best = 0;   // also this many with the best metric; 0: off
  bool higher_is_better = false;
};

// Returns the steps that may be removed, now that `saved` is complete. Later steps stay and do not
// count: they belong to an abandoned run or are damaged, and must not push out what the present run
// saves. `metrics`: the known metrics by step. If two are equal, the newer step is better; NaN
// counts as no metric. Pure.
std::vector<std::int64_t> removable(const std::vector<std::int64_t>& steps, std::int64_t saved,
                                    const std::map<std::int64_t, double>& metrics,
                                    const Retention& retention);

}  // namespace kolo::checkpoint
