#include "kolo/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/file.hpp"
#include "core/terminal.hpp"
#include "kolo/init.h"

namespace kolo {
namespace {

// Whether the text ends up on a terminal. The ranks of kolo run write to pipes, so kolo run reports
// whether its own standard error is a terminal.
bool ends_on_terminal() {
  if (::isatty(STDERR_FILENO) == 1) return true;
  const char* const told = std::getenv("KOLO_TERMINAL");  // NOLINT(concurrency-mt-unsafe)
  return told != nullptr && std::string(told) == "1";
}

constexpr const char* kEraseRest = "\033[K";

std::string out_of(std::int64_t number, std::int64_t all) {
  return std::to_string(number) + (all > 0 ? "/" + std::to_string(all) : "");
}

std::string formatted(const char* form, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

std::string duration_text(double seconds) {
  if (seconds < 100) return formatted("%.0f s", seconds);
  const auto minutes = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9) / 60));
  if (minutes < 100) return std::to_string(minutes) + " min";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

// Cuts a line for the terminal: if it wrapped, only its last part would be redrawn. kolo run cuts
// the lines that it shows. The last column stays free: some terminals would erase a character there
// with the rest of the line.
std::string cut(const std::string& line) {
  const std::size_t columns = terminal_columns(STDERR_FILENO);
  return columns == 0 ? line : first_columns(line, columns - 1);
}

// Writes in one piece, so that the text does not mix with that of others. Ignores errors.
void say(const std::string& text) {
  static_cast<void>(write_all(STDERR_FILENO, text));
}

}  // namespace

Progress::Progress(const ProgressOptions& options)
    : options_(options),
      terminal_(ends_on_terminal()),
      shown_(options.shown() && (!is_initialized() || rank() == 0)),
      ranks_(is_initialized() ? size() : 1),
      every_(options.every_seconds() > 0 ? options.every_seconds() : (terminal_ ? 0.5 : 10)) {}

Progress::~Progress() {
  clear();
}

bool Progress::due() const {
  return shown_ && Clock::now() - last_ >= every_;
}

void Progress::update(std::int64_t epoch, std::int64_t step, std::int64_t samples, double loss) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  // Nothing is known about earlier steps, nor how long the first step took.
  if (first_done_ < 0) {
    first_done_ = (epoch - 1) * options_.steps_per_epoch() + step;
    begin_ = last_ = now;
    return;
  }
  samples_ += samples;
  if (now - last_ < every_) return;
  const std::string line = text(epoch, step, loss, now);
  // The return puts the cursor at the line's beginning, and makes kolo run show the line at once.
  say(terminal_ ? cut(line) + kEraseRest + "\r" : line + "\n");
  drawn_ = terminal_;
  last_ = now;
  samples_ = 0;
}

std::string Progress::text(std::int64_t epoch, std::int64_t step, double loss,
                           Clock::time_point now) const {
  const std::chrono::duration<double> since = now - last_;
  std::string line = "epoch " + out_of(epoch, options_.epochs()) + ", step " +
                     out_of(step, options_.steps_per_epoch());
  line += formatted(", %.0f ", static_cast<double>(samples_) * ranks_ / since.count()) +
          options_.unit() + "/s";
  if (!std::isnan(loss)) line += formatted(", loss %.4f", loss);
  const std::int64_t all = options_.epochs() * options_.steps_per_epoch();
  const std::int64_t done = (epoch - 1) * options_.steps_per_epoch() + step;
  if (all <= 0 || done <= first_done_) return line;
  const std::chrono::duration<double> spent = now - begin_;
  const double left =
      spent.count() * static_cast<double>(all - done) / static_cast<double>(done - first_done_);
  return line + ", " + duration_text(std::max(left, 0.0)) + " left";
}

void Progress::clear() {
  if (!drawn_) return;
  say(std::string(kEraseRest) + "\r");
  drawn_ = false;
}

}  // namespace kolo
