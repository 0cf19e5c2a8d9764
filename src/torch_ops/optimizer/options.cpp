#include "torch_ops/optimizer/options.hpp"

#include <set>

#include "core/types.hpp"
#include "kolo/error.h"

namespace kolo::detail {

void check_options(const DistributedOptimizerOptions& options) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgumentError("DistributedOptimizer '" + options.name() + "': " + why);
  };
  if (options.backward_passes_per_step() < 1) {
    refuse("backward_passes_per_step is " + std::to_string(options.backward_passes_per_step()) +
           "; it must be at least 1");
  }
  if (options.gradient_predivide_factor() <= 0) refuse("gradient_predivide_factor must be above 0");
  if (options.gradient_predivide_factor() != 1.0 && options.op() != ReduceOp::Average) {
    refuse("gradient_predivide_factor belongs to Average, not to " +
           std::string(name_of(options.op())));
  }
  if (!options.average_over_joined() && options.op() != ReduceOp::Average) {
    refuse("average_over_joined(false) belongs to Average, not to " +
           std::string(name_of(options.op())));
  }
  if (options.compression().make() != nullptr && options.op() == ReduceOp::Adasum)
    refuse("a compression of the program's own is for Average and Sum, not for Adasum");
  if (options.check_in_sync_every() < 0) refuse("check_in_sync_every must be 0 or more");
  if (options.num_groups() < 0) refuse("num_groups must be 0 or more");
  if (options.num_groups() > 0 && !options.groups().empty())
    refuse("give groups or num_groups, not both");
  std::set<std::string> names;
  for (const auto& [name, parameter] : options.named_parameters()) {
    if (!names.insert(name).second) refuse("named_parameters has '" + name + "' twice");
  }
}

AllreduceOptions reduction_of(const DistributedOptimizerOptions& options, const std::string& name) {
  AllreduceOptions reduction =
      AllreduceOptions(name).op(options.op()).process_set(options.process_set());
  const double factor = options.gradient_predivide_factor();
  if (factor == 1.0) return reduction;
  return reduction.op(ReduceOp::Sum)
      .prescale_factor(1.0 / factor)
      .postscale_factor(factor / options.process_set().size());
}

}  // namespace kolo::detail
