#pragma once

#include <c10/core/Device.h>

#include "kolo/trainer.h"

namespace kolo::trainer {

// Throws InvalidArgumentError, which names the option and its allowed values.
void check(const TrainerOptions& options);
// Returns the device that the option `device` means on this rank.
at::Device device_of(const TrainerOptions& options);

}  // namespace kolo::trainer
