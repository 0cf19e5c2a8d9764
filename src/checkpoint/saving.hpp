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

// What a rank says when it begins to save.
struct Hello {
  Status before;         // how its last save ended
  Status now;            // whether it has captured its state
  bool is_busy = false;  // it is still writing; then `before` is not known
  std::int64_t step = 0;
};
struct Greetings {
  std::vector<Hello> by_rank;
  bool someone_is_busy = false;
  std::vector<std::vector<std::vector<std::int64_t>>> parts;  // where each rank's lie

  // The same on all ranks: how a last save failed.
  void throw_before() const;
};

// Collective.
Greetings greet(const Hello& mine, const Capture& capture);

// What all ranks save.
struct Opening {
  Table table;  // without offsets
  Boxes boxes;
};

// Collective. Throws the same on all ranks: a failure of one of them now, MismatchError where they
// have different things to save or give different steps, InvalidArgumentError for parts that do not
// make a whole.
Opening open_save(const Capture& capture, const Greetings& greetings);

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
