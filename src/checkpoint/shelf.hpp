// Knows which checkpoints exist, and which are kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/writing.hpp"

namespace kolo::checkpoint {

// The checkpoints with one name in a folder, as seen by rank 0.
class Shelf {
 public:
  Shelf(FileSystem& files, std::string folder, std::string name, Retention retention)
      : files_(files), folder_(std::move(folder)), name_(std::move(name)), retention_(retention) {}

  std::string path_of(std::int64_t step) const { return folder_ + "/" + file_name(name_, step); }
  // Reads the metrics of checkpoints that other processes have saved, for `best`. Called on the
  // program's thread before the save, because it calls HDF5. Logs files that cannot be read; they
  // stay.
  void look();
  // Creates the folder, and removes partial files. Called before anything is written. Throws
  // FileError.
  void prepare();
  // Removes checkpoints that need not stay, now that this one is complete. Logs failures.
  void saved(std::int64_t step, std::optional<double> metric);

 private:
  FileSystem& files_;  // outlives the shelf
  const std::string folder_;
  const std::string name_;
  const Retention retention_;
  // By step, for the files that could be read. Without a value, the file has no metric.
  std::map<std::int64_t, std::optional<double>> metrics_;
};

// Does a whole save on one rank, after shelf.look(). `pieces`: in file order. Throws FileError.
void save_alone(FileSystem& files, Shelf& shelf, Metadata metadata, std::int64_t step,
                std::optional<double> metric, const std::vector<PieceData>& pieces);

}  // namespace kolo::checkpoint
