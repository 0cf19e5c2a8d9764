// What is left to do of a save when the state has been copied: writing, and making the file known.
// Runs on the program's thread or on one of its own.
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
  std::vector<at::Tensor> held;   // what their data lie in
  std::size_t piece_count = 0;    // of all ranks
  Metadata metadata;              // of rank 0
};

// Over what writers tell each other that they are done, if all ranks write.
struct Channel {
  ProcessSet set;
  std::uint64_t checkpoint = 0;  // one writes at a time
};

// The status is this rank's and, if all ranks write, that of the others' writing.
Status run(SaveJob& job, FileSystem& files, Shelf& shelf, const Channel& channel);

}  // namespace kolo::checkpoint
