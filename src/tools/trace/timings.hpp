// Computes how long tensors, collectives and the program's scopes take, in the steps that count.
#pragma once

#include <vector>

#include "tools/trace/activity.hpp"
#include "tools/trace/analysis.hpp"

namespace kolo::tools {

std::vector<TensorTiming> tensor_timings(const RunActivity& run, const Analysis& analysis);
// Both fill the analysis.
void find_speeds(const RunActivity& run, Analysis& analysis);
void find_scopes(const RunActivity& run, Analysis& analysis);

}  // namespace kolo::tools
