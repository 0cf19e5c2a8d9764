// The rest of a save after the state has been copied: writing, and publishing the file. Runs on the
// program's thread or on one of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.hpp"
#include "checkpoint/metadata.hpp"
#include "checkpoint/shelf.hpp"
#include "checkpoint/writing.hpp"
#include "core/status.hpp"
#include "kolo/process_set.h"

namespace kolo::checkpoint {

struct SaveJob {
  std::string path;
  std::int64_t step = 0;
  std::optional<double> metric;
  bool all_write = false;
  int rank = 0;
  std::vector<PieceData> pieces;  // this rank's
  std::vector<at::Tensor> held;   // own the memory of their data
  std::size_t piece_count = 0;    // of all ranks
  Metadata metadata;              // of rank 0
};

// Carries the writers' results if all ranks write.
struct Channel {
  ProcessSet set;
  std::uint64_t checkpoint = 0;  // number of the Checkpoint object, which writes one at a time
};

// Returns this rank's status and, if all ranks write, also a failure of the others' writing.
Status run(SaveJob& job, FileSystem& files, Shelf& shelf, const Channel& channel);

}  // namespace kolo::checkpoint
