#include "checkpoint/shelf.hpp"

#include "checkpoint/reading.hpp"
#include "core/log.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {

void Shelf::prepare() {
  files_.make_folder(folder_);
  remove_partial_files(files_, folder_, name_);
}

// Of checkpoints that another process has saved.
void Shelf::learn_metrics(const std::vector<Saved>& all) {
  if (retention_.best == 0) return;
  for (const Saved& one : all) {
    if (metrics_.count(one.step) > 0) continue;
    std::optional<double>& metric = metrics_[one.step];
    try {
      metric = about_of(Reader(files_, one.path).table()).metric;
    } catch (const Error& error) {
      log::warning(std::string("checkpoint: ") + error.what());
    }
  }
}

void Shelf::saved(std::int64_t step, std::optional<double> metric) {
  metrics_[step] = metric;
  try {
    const std::vector<Saved> all = list_checkpoints(files_, folder_, name_);
    learn_metrics(all);
    std::vector<std::int64_t> steps;
    std::map<std::int64_t, double> known;
    for (const Saved& one : all) {
      steps.push_back(one.step);
      if (metrics_[one.step]) known[one.step] = *metrics_[one.step];
    }
    for (const std::int64_t old : removable(steps, step, known, retention_))
      files_.remove(path_of(old));
  } catch (const Error& error) {
    log::warning(std::string("checkpoint: old ones stay where they are: ") + error.what());
  }
}

}  // namespace kolo::checkpoint
