// Converts batches of tensors to parcels, and back.
#pragma once

#include "delivery/parcel.hpp"
#include "kolo/data/dataset.h"

namespace kolo::delivery {

// The parcel shares the tensors' memory if they are contiguous. Throws DataError for tensors that
// are not dense, not on the CPU, or of a dtype that files do not have.
Parcel to_parcel(const data::Batch& batch);

// The tensors share the parcel's memory, and keep it alive.
data::Batch to_batch(const Parcel& parcel);

}  // namespace kolo::delivery
