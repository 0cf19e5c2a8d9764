// Which checkpoints there are, and which stay.
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

// The checkpoints of one name in a folder, as rank 0 sees them.
class Shelf {
 public:
  Shelf(FileSystem& files, std::string folder, std::string name, Retention retention)
      : files_(files), folder_(std::move(folder)), name_(std::move(name)), retention_(retention) {}

  std::string path_of(std::int64_t step) const { return folder_ + "/" + file_name(name_, step); }
  // Learns the metrics of what other processes have saved, for `best`. It calls HDF5, so the
  // program's thread calls it, before the save. What cannot be read is logged, and stays.
  void look();
  // Before anything is written. Throws FileError.
  void prepare();
  // Removes what need not stay, now that this one is complete. What cannot be removed is logged.
  void saved(std::int64_t step, std::optional<double> metric);

 private:
  FileSystem& files_;  // outlives the shelf
  const std::string folder_;
  const std::string name_;
  const Retention retention_;
  // Of those that could be read; nothing: it has none.
  std::map<std::int64_t, std::optional<double>> metrics_;
};

// All of a save by one rank, after shelf.look(). Pieces in the order of the file. Throws FileError.
void save_alone(FileSystem& files, Shelf& shelf, Metadata metadata, std::int64_t step,
                std::optional<double> metric, const std::vector<PieceData>& pieces);

}  // namespace kolo::checkpoint
