// A line that shows the progress of a long job. See docs/progress.md.
#pragma once

#include <torch/arg.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace kolo {

// Options of a Progress.
struct ProgressOptions {
  // Number of epochs of the run. 0: unknown; then the remaining time is not shown.
  TORCH_ARG(std::int64_t, epochs) = 0;
  // Number of steps in each epoch. 0: unknown; then the remaining time is not shown.
  TORCH_ARG(std::int64_t, steps_per_epoch) = 0;
  // Name of the things that are counted, such as "images".
  TORCH_ARG(std::string, unit) = "samples";
  // Seconds between two lines. 0: 0.5 s on a terminal, 10 s elsewhere.
  TORCH_ARG(double, every_seconds) = 0;
  // false: nothing is shown at all.
  TORCH_ARG(bool, shown) = true;
};

// Shows a line on standard error of rank 0: "epoch 3/9, step 20/31, 812 images/s, loss 0.1234, 12 s
// left". On a terminal (also that of kolo run) the line is redrawn in place; elsewhere a new line
// is written from time to time. Other ranks show nothing. Not collective; one thread.
class Progress {
 public:
  // Nothing is shown before the first update().
  explicit Progress(const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Whether update() will show a line, so that the loss is worth fetching.
  bool due() const;

  // Reports the end of a step. `epoch` and `step` (in the epoch) count from 1. `samples`: those of
  // this rank in the step; other ranks are assumed to have as many. Rates and times count from the
  // first call. `loss` is shown unless it is NaN.
  void update(std::int64_t epoch, std::int64_t step, std::int64_t samples, double loss);

  // Removes the line. Call it before other output.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string text(std::int64_t epoch, std::int64_t step, double loss, Clock::time_point now) const;

  const ProgressOptions options_;
  const bool terminal_;
  const bool shown_;  // here
  const int ranks_;
  const std::chrono::duration<double> every_;
  std::int64_t first_done_ = -1;  // steps that were done at the first update(); -1: none came
  Clock::time_point begin_ = Clock::now();  // of the first update()
  Clock::time_point last_ = begin_;         // of the last line
  std::int64_t samples_ = 0;                // since the last line
  bool drawn_ = false;                      // there is a line on the terminal
};

}  // namespace kolo
