#include "checkpoint/shelf.hpp"

#include "checkpoint/reading.hpp"
#include "core/log.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {

void Shelf::prepare() {
  files_.make_folder(folder_);
  remove_partial_files(files_, folder_, name_);
}

void Shelf::look() {
  if (retention_.best == 0 || !files_.has_folder(folder_)) return;
  for (const Saved& one : list_checkpoints(files_, folder_, name_)) {
    if (metrics_.count(one.step) > 0) continue;
    try {
      const std::optional<double> metric = about_of(Reader(files_, one.path).table()).metric;
      metrics_[one.step] = metric;
    } catch (const Error& error) {
      log::warning(std::string("checkpoint: ") + error.what());
    }
  }
}

void Shelf::saved(std::int64_t step, std::optional<double> metric) {
  metrics_[step] = metric;
  try {
    std::vector<std::int64_t> steps;
    std::map<std::int64_t, double> known;
    for (const Saved& one : list_checkpoints(files_, folder_, name_)) {
      const auto found = metrics_.find(one.step);
      // A file whose metric is unknown may be the best one, so it stays.
      if (retention_.best > 0 && found == metrics_.end()) continue;
      steps.push_back(one.step);
      if (found != metrics_.end() && found->second) known[one.step] = *found->second;
    }
    for (const std::int64_t old : removable(steps, step, known, retention_)) {
      files_.remove(path_of(old));
    }
  } catch (const Error& error) {
    log::warning(std::string("checkpoint: old checkpoints were not removed: ") + error.what());
  }
}

void save_alone(FileSystem& files, Shelf& shelf, Metadata metadata, std::int64_t step,
                std::optional<double> metric, const std::vector<PieceData>& pieces) {
  shelf.prepare();
  const std::string path = shelf.path_of(step);
  begin_file(files, path, metadata.file_size);
  const std::vector<PieceSum> sums = write_pieces(files, path, pieces);
  complete_file(files, path, std::move(metadata), sums, pieces.size());
  shelf.saved(step, metric);
}

}  // namespace kolo::checkpoint
