// A line that says how far a long job is. See docs/progress.md.
#pragma once

#include <torch/arg.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace kolo {

// What a progress line says.
struct ProgressOptions {
  // How many there will be; 0: not known, and then neither is the time that is left.
  TORCH_ARG(std::int64_t, epochs) = 0;
  // Likewise, in each epoch.
  TORCH_ARG(std::int64_t, steps_per_epoch) = 0;
  // What is counted: "images".
  TORCH_ARG(std::string, unit) = "samples";
  // Between two lines. 0: 0.5 s on a terminal, 10 s elsewhere.
  TORCH_ARG(double, every_seconds) = 0;
  // false: nothing is shown at all.
  TORCH_ARG(bool, shown) = true;
};

// Rank 0 shows it on standard error: "epoch 3/9, step 20/31, 812 images/s, loss 0.1234, 12 s left".
// On a terminal (also that of kolo run) it is one line, drawn anew; elsewhere a line now and then.
// On other ranks nothing is shown. Not collective; one thread.
class Progress {
 public:
  // Nothing is shown before the first update().
  explicit Progress(const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Whether update() will show a line, so that the loss is worth fetching.
  bool due() const;

  // A step is done. `epoch` and `step` (in the epoch) count from 1 on; `samples` are this rank's in
  // the step: all ranks are taken to have as many. Rates and times count from the first call on.
  // `loss` is shown if it is a number (NaN: it is left out).
  void update(std::int64_t epoch, std::int64_t step, std::int64_t samples, double loss);

  // Before other output: takes the line away.
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
