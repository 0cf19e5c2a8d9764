#pragma once

#include <string>
#include <vector>

#include "kolo/optimizer.h"
#include "torch_ops/optimizer/parameter_table.hpp"

namespace kolo::detail {

// Agrees with the other ranks on the form in which they exchange each parameter's gradient.
class LayoutAgreement {
 public:
  // Both must outlive the object.
  LayoutAgreement(const DistributedOptimizerOptions& options, ParameterTable& table)
      : options_(options), table_(table) {}

  // The name of the operation in which the ranks agree.
  std::string name() const { return options_.name() + ".layouts"; }

  // Whether the layout of all trainable parameters, or of a unit's, is agreed on.
  bool is_complete() const;
  bool is_complete(const Unit& unit) const;

  // Agrees on the layouts that are missing. Collective, unless is_complete(). A gradient is
  // exchanged as sparse if it is sparse on some ranks and dense on none. If no rank has one yet,
  // later ones are made dense. The ranks also compare the orders in which they store dimensions.
  void complete();

  // The ranks agree anew before the next reduction: join() lets a rank miss what the others agree
  // on.
  void forget() { agreed_ = false; }

 private:
  bool is_known(const Parameter& parameter) const {
    return agreed_ && parameter.layout != Layout::kUnknown;
  }
  std::vector<Parameter*> missing();

  const DistributedOptimizerOptions& options_;
  ParameterTable& table_;
  bool agreed_ = false;  // complete() has succeeded since the last join()
};

}  // namespace kolo::detail
