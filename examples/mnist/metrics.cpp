#include "metrics.hpp"

#include <unistd.h>

#include <cstdio>
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

ProgressLine::ProgressLine(bool shown, std::int64_t epochs, std::int64_t steps_per_epoch)
    : shown_(shown),
      terminal_(isatty(STDERR_FILENO) == 1),
      epochs_(epochs),
      steps_per_epoch_(steps_per_epoch),
      begin_(Clock::now()),
      last_(begin_) {}

ProgressLine::~ProgressLine() {
  clear();
}

bool ProgressLine::due() const {
  return shown_ && seconds_since(last_) > (terminal_ ? 0.5 : 2.0);
}

void ProgressLine::update(std::int64_t epoch, std::int64_t step, double images_per_second,
                          double loss) {
  const auto done = static_cast<double>((epoch - 1) * steps_per_epoch_ + step);
  const auto all = static_cast<double>(epochs_ * steps_per_epoch_);
  const double left = seconds_since(begin_) * (all - done) / done;
  std::fprintf(stderr, "%sepoch %ld/%ld, step %ld/%ld, %.0f images/s, loss %.4f, %.0f s left%s",
               terminal_ ? "\r\033[K" : "", static_cast<long>(epoch), static_cast<long>(epochs_),
               static_cast<long>(step), static_cast<long>(steps_per_epoch_), images_per_second,
               loss, left, terminal_ ? "" : "\n");
  std::fflush(stderr);
  last_ = Clock::now();
}

void ProgressLine::clear() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
}

}  // namespace mnist
