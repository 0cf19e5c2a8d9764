// The part of save() that talks to the other ranks: what is saved, who writes it, and a copy of
// that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/component.hpp"
#include "checkpoint/plan.hpp"
#include "checkpoint/save_job.hpp"
#include "checkpoint/staging.hpp"

namespace kolo::checkpoint {

// What all ranks are told at the beginning of a save.
struct Opening {
  bool someone_is_busy = false;
  Table table;  // without offsets
  Boxes boxes;
};

// Collective. `before`: this rank's failure so far. `busy`: it is still writing. Throws the same on
// all ranks: a failure of one of them, MismatchError where they have different things to save or
// give different steps, InvalidArgumentError for parts that do not make a whole.
Opening open_save(const Capture& capture, std::int64_t step, const Status& before, bool busy);

struct SaveSettings {
  bool all_write = false;
  bool copies = false;  // pieces do not refer to the program's tensors
  std::uint64_t expected_metadata = 0;
};

// Collective. What this rank has to write. Throws the same on all ranks.
SaveJob prepare_save(Opening opening, const Capture& capture, const About& about,
                     const SaveSettings& settings, FileSystem& files, Shelf& shelf,
                     Staging& staging);

}  // namespace kolo::checkpoint
