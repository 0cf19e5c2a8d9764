#pragma once

#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "torch_ops/optimizer/parameter_table.hpp"

namespace kolo::detail {

// Units whose gradients are complete, collected until there are enough of them to send. Sending
// between two steps of the backward pass takes the processor's caches away from it, so a few large
// sendings cost less than many small ones. On a device, all that one stream computes also needs
// only one event.
class ReadyUnits {
 public:
  // The table must outlive the object.
  explicit ReadyUnits(const ParameterTable& table) : table_(table) {}

  using Send = std::function<void(const std::vector<std::size_t>& units)>;

  // Called after the unit's last gradient was computed on the current stream. Calls send() if there
  // are enough units, and before it adds a unit that another stream has computed. The current
  // stream of send() is the one that has computed the units.
  void add(std::size_t unit, const Send& send);
  void forget();
  const std::vector<std::size_t>& units() const { return units_; }

 private:
  struct Source;
  Source source_of(std::size_t unit) const;
  void flush(const Send& send);

  const ParameterTable& table_;
  std::vector<std::size_t> units_;
  std::size_t bytes_ = 0;
  std::optional<c10::Stream> stream_;  // has computed the units; without a value on the host
};

}  // namespace kolo::detail
