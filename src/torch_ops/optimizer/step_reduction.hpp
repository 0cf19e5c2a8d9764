#pragma once

#include <ATen/core/Tensor.h>

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
  // Puts the parameters back to where begin() saw them, and adds the reduced steps. After an error
  // no parameter has moved on one rank alone. Collective.
  void reduce(FirstError& error);

 private:
  const ParameterTable& table_;
  Outbox& outbox_;
  std::vector<at::Tensor> start_;  // by parameter
};

}  // namespace kolo::detail
