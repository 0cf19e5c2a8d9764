// Finds where the time of training steps goes.
#pragma once

#include "tools/trace/activity.hpp"
#include "tools/trace/analysis.hpp"

namespace kolo::tools {

// Throws DataError if the timelines have no steps.
Analysis analyse(const RunActivity& run);

}  // namespace kolo::tools
