// The source of a DataLoader's batches.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kolo/data/loader.h"

namespace kolo::data {

// A batch of a rank's share of an epoch.
struct BatchRequest {
  std::uint64_t epoch = 0;
  std::size_t position = 0;            // position of its first sample in the share
  c10::ArrayRef<std::size_t> indices;  // its samples
};

class BatchSource {
 public:
  // Makes a batch. Throws a DataError that names its samples.
  using Read = std::function<Batch(const BatchRequest& request)>;

  virtual ~BatchSource() = default;

  // Samples in the dataset.
  virtual std::size_t size() const = 0;
  // Returns a reader for one worker. The reader applies the transforms to each batch.
  virtual Read reader(const std::vector<Transform>& transforms, std::uint64_t seed) const = 0;
  // Makes reads that wait for another process throw, until resume().
  virtual void interrupt() noexcept {}
  virtual void resume() noexcept {}
};

}  // namespace kolo::data
