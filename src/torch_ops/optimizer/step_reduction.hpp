#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "torch_ops/optimizer/first_error.hpp"
#include "torch_ops/optimizer/outbox.hpp"
#include "torch_ops/optimizer/parameter_table.hpp"

namespace kolo::detail {

// Reduces steps instead of gradients, for Adasum: each rank makes a step with its own gradients,
// and the steps are combined.
class StepReduction {
 public:
  // Both must outlive the object.
  StepReduction(const ParameterTable& table, Outbox& outbox) : table_(table), outbox_(outbox) {}

  // Remembers the parameters before this rank's own step.
  void begin();
  // Takes the steps that this rank has made, and puts the parameters back to where begin() saw
  // them.
  void take_steps();
  // Adds the reduced steps, unless `check` throws, which it does on all ranks or on none. After an
  // error no parameter has moved on one rank alone. Collective.
  void reduce(const std::function<void()>& check, FirstError& error);
  // After an error before reduce(): puts the parameters back. The steps were given up.
  void abandon();

 private:
  void put_back(FirstError& error);

  const ParameterTable& table_;
  Outbox& outbox_;
  // By parameter. Undefined for one that was added or removed meanwhile.
  std::vector<at::Tensor> start_, steps_;
};

}  // namespace kolo::detail
