#include "metrics.hpp"

#include <stdexcept>

namespace mnist {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Metrics::Metrics(const std::string& path, bool writes) : wanted_(!path.empty()), path_(path) {
  if (!wanted_ || !writes) return;
  file_.open(path);
  file_ << "kind,epoch,step,seconds,rank,loss,accuracy,images_per_second\n";
  if (!file_) throw std::runtime_error("cannot write metrics to " + path);
}

void Metrics::train(std::int64_t epoch, std::int64_t step, double seconds,
                    const torch::Tensor& by_rank) {
  if (!file_.is_open()) return;
  for (std::int64_t rank = 0; rank < by_rank.size(0); ++rank) {
    file_ << "train," << epoch << ',' << step << ',' << seconds << ',' << rank << ','
          << by_rank[rank][0].item<double>() << ",," << by_rank[rank][1].item<double>() << '\n';
  }
  file_.flush();
  if (!file_) throw std::runtime_error("cannot write metrics to " + path_);
}

void Metrics::test(std::int64_t epoch, std::int64_t step, double seconds, double loss,
                   double accuracy) {
  if (!file_.is_open()) return;
  file_ << "test," << epoch << ',' << step << ',' << seconds << ",0," << loss << ',' << accuracy
        << ",\n";
  file_.flush();
  if (!file_) throw std::runtime_error("cannot write metrics to " + path_);
}

}  // namespace mnist
