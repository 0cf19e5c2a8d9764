#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "core/json.hpp"
#include "kolo/callbacks.h"
#include "trainer/metric_file.hpp"

namespace kolo {
namespace {

// Returns all significant digits, so that reading the text gives the same number. Does not depend
// on the program's locale.
std::string number(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// Quotes a field where RFC 4180 requires it.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

constexpr const char* kJsonBegin = "{\"epoch\": ";

}  // namespace

void CsvLog::epoch_begin(Trainer& trainer) {
  if (!trainer.is_root() || has_begun_) return;
  trainer::MetricFile(file_, "").keep_rows_before(trainer.state().epoch);
  has_begun_ = true;
}

void CsvLog::epoch_end(Trainer& trainer) {
  if (!trainer.is_root()) return;
  const TrainingState& state = trainer.state();
  std::string header = "epoch,step";
  std::string row = std::to_string(state.epoch) + "," + std::to_string(state.step);
  for (const auto& [name, value] : state.metrics) {
    header += "," + csv_field(name);
    row += "," + number(value);
  }
  trainer::MetricFile(file_, "").add(row, header);
}

void JsonLog::epoch_begin(Trainer& trainer) {
  if (!trainer.is_root() || has_begun_) return;
  trainer::MetricFile(file_, kJsonBegin).keep_rows_before(trainer.state().epoch);
  has_begun_ = true;
}

void JsonLog::epoch_end(Trainer& trainer) {
  if (!trainer.is_root()) return;
  const TrainingState& state = trainer.state();
  std::string row =
      kJsonBegin + std::to_string(state.epoch) + ", \"step\": " + std::to_string(state.step);
  for (const auto& [name, value] : state.metrics)
    row += ", " + json_string(name) + ": " + (std::isfinite(value) ? number(value) : "null");
  trainer::MetricFile(file_, kJsonBegin).add(row + "}");
}

void TensorBoardLog::train_begin(Trainer& /*trainer*/) {
  writer_ = std::make_unique<SummaryWriter>(folder_);
}

void TensorBoardLog::epoch_end(Trainer& trainer) {
  const TrainingState& state = trainer.state();
  for (const auto& [name, value] : state.metrics) writer_->add_scalar(name, value, state.step);
  writer_->flush();
}

void TensorBoardLog::train_end(Trainer& /*trainer*/) {
  writer_.reset();
}

}  // namespace kolo
