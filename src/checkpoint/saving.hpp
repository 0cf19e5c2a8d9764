// The part of save() that communicates with the other ranks: agrees on what is saved and who writes
// it, and copies that.
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

// A rank's message at the beginning of a save.
struct Hello {
  Status before;         // how its last save ended
  Status now;            // whether it has captured its state
  bool is_busy = false;  // it is still writing; `before` is then unknown
  std::int64_t step = 0;
};
struct Greetings {
  std::vector<Hello> by_rank;
  bool someone_is_busy = false;
  std::vector<std::vector<std::vector<std::int64_t>>> parts;  // starts and extents, by rank

  // Throws the same on all ranks if the previous save failed.
  void throw_before() const;
};

// Exchanges the ranks' messages. Collective.
Greetings greet(const Hello& mine, const Capture& capture);

// The data that all ranks save together.
struct Opening {
  Table table;  // without offsets
  Boxes boxes;
  RankZeros rank_zeros;
};

// Collective. Throws the same on all ranks: the failure of a rank, MismatchError if ranks have
// different things to save or give different steps, or InvalidArgumentError if parts do not make up
// a whole.
Opening open_save(const Capture& capture, const Greetings& greetings);

struct SaveSettings {
  bool all_write = false;
  bool copies = false;  // pieces must not refer to the program's tensors
  std::uint64_t expected_metadata = 0;
};

// Collective. Returns what this rank has to write. Throws the same on all ranks.
SaveJob prepare_save(Opening opening, const Capture& capture, const About& about,
                     const SaveSettings& settings, FileSystem& files, Shelf& shelf,
                     Staging& staging);

}  // namespace kolo::checkpoint
