// Metrics by name, and their text form in a checkpoint.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kolo::trainer {

using NamedValues = std::vector<std::pair<std::string, double>>;

// Converts metrics to text and back: one line per metric, its value and its name.
std::string text_of(const NamedValues& metrics);
NamedValues metrics_of(const std::string& text);

// Returns the names of an epoch's metrics, in the order of TrainingState::metrics. `own`: those of
// the program. `validates`: whether there are samples to validate with.
std::vector<std::string> names_of_metrics(const std::vector<std::string>& own, bool validates);

// Returns the names as "loss, accuracy", or "none yet".
std::string list_of_names(const NamedValues& metrics);

// Whether a program's metric must not have the name.
bool is_reserved(const std::string& name);

}  // namespace kolo::trainer
