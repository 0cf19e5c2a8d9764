#pragma once

#include <c10/core/Device.h>

#include "kolo/trainer.h"

namespace kolo::trainer {

// Throws InvalidArgumentError that names the option and what it may be.
void check(const TrainerOptions& options);
// Returns the device that the option `device` stands for on this rank.
at::Device device_of(const TrainerOptions& options);

}  // namespace kolo::trainer
