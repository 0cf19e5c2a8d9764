#pragma once

#include <string>

#include "kolo/operations.h"
#include "kolo/optimizer.h"

namespace kolo::detail {

// Throws InvalidArgumentError for an option that is out of range or contradicts another one.
void check_options(const DistributedOptimizerOptions& options);

// Returns the options of the allreduce with this name that reduces an optimizer's gradients.
AllreduceOptions reduction_of(const DistributedOptimizerOptions& options, const std::string& name);

}  // namespace kolo::detail
