// What is left to do of a save when the state has been copied: writing, and making the file known.
// Runs on the program's thread or on one of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/file_system.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/metadata.hpp"
#include "checkpoint/writing.hpp"
#include "core/status.hpp"
#include "kolo/process_set.h"

namespace kolo::checkpoint {

// The checkpoints of one name in a folder, as rank 0 sees them.
class Shelf {
 public:
  Shelf(FileSystem& files, std::string folder, std::string name, Retention retention)
      : files_(files), folder_(std::move(folder)), name_(std::move(name)), retention_(retention) {}

  std::string path_of(std::int64_t step) const { return folder_ + "/" + file_name(name_, step); }
  // Before anything is written. Throws FileError.
  void prepare();
  // Removes what need not stay, now that this one is complete. What cannot be removed is logged.
  void saved(std::int64_t step, std::optional<double> metric);

 private:
  void learn_metrics(const std::vector<Saved>& all);

  FileSystem& files_;  // outlives the shelf
  const std::string folder_;
  const std::string name_;
  const Retention retention_;
  // Those that were looked at; nothing: it has none, or cannot be read.
  std::map<std::int64_t, std::optional<double>> metrics_;
};

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

// `set`: over which the writers tell each other that they are done, if all ranks write. The status
// is this rank's and, if all ranks write, that of the others' writing.
Status run(SaveJob& job, FileSystem& files, Shelf& shelf, const ProcessSet& set);

}  // namespace kolo::checkpoint
