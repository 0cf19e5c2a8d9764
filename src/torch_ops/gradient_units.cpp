// Which gradients are reduced together, and under which names.
#include <algorithm>
#include <numeric>
#include <set>

#include "core/types.hpp"
#include "kolo/error.h"
#include "torch_ops/gradient_reducer.hpp"

namespace kolo::detail {
void check_options(const DistributedOptimizerOptions& options) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgumentError("DistributedOptimizer '" + options.name() + "': " + why);
  };
  if (options.backward_passes_per_step() < 1) {
    refuse("backward_passes_per_step is " + std::to_string(options.backward_passes_per_step()) +
           ", but at least 1 is meant");
  }
  if (options.gradient_predivide_factor() <= 0) refuse("gradient_predivide_factor must be above 0");
  if (options.gradient_predivide_factor() != 1.0 && options.op() != ReduceOp::Average) {
    refuse("gradient_predivide_factor belongs to Average, not to " +
           std::string(name_of(options.op())));
  }
  if (options.num_groups() < 0) refuse("num_groups must be 0 or more");
  if (options.num_groups() > 0 && !options.groups().empty())
    refuse("give groups or num_groups, not both");
  std::set<std::string> names;
  for (const auto& [name, parameter] : options.named_parameters()) {
    if (!names.insert(name).second) refuse("named_parameters has '" + name + "' twice");
  }
}

void GradientReducer::State::name_parameters(std::size_t first) {
  for (std::size_t i = first; i < parameters.size(); ++i) {
    const auto named =
        std::find_if(options.named_parameters().begin(), options.named_parameters().end(),
                     [&](const auto& entry) { return entry.second.is_same(parameters[i].tensor); });
    const bool has_name = named != options.named_parameters().end();
    // Parameters of a group that is added later cannot have been named.
    if (!has_name && first == 0 && !options.named_parameters().empty()) {
      throw InvalidArgumentError("DistributedOptimizer '" + options.name() + "': parameter " +
                                 std::to_string(i) + ", shape " +
                                 to_string(parameters[i].tensor.sizes().vec()) +
                                 ", is not in named_parameters; name all or none");
    }
    parameters[i].name =
        options.name() + ".gradient." + (has_name ? named->first : std::to_string(i));
  }
}

// Units for the parameters from `first` on.
void GradientReducer::State::add_units(std::size_t first) {
  std::vector<bool> placed(parameters.size(), false);
  const auto add = [&](std::vector<std::size_t> members) {
    if (members.empty()) return;
    Unit& unit = units.emplace_back();
    unit.name = members.size() == 1 ? parameters[members[0]].name
                                    : options.name() + ".group." + std::to_string(units.size() - 1);
    for (const std::size_t member : members) {
      parameters[member].unit = units.size() - 1;
      placed[member] = true;
    }
    unit.members = std::move(members);
  };
  for (const std::vector<at::Tensor>& group : options.groups()) {
    std::vector<std::size_t> members;
    for (std::size_t i = first; i < parameters.size(); ++i) {
      const bool listed = std::any_of(group.begin(), group.end(), [&](const at::Tensor& tensor) {
        return tensor.is_same(parameters[i].tensor);
      });
      if (listed && !placed[i]) members.push_back(i);
    }
    add(std::move(members));
  }
  if (first == 0 && options.num_groups() > 0) {
    const std::size_t count = parameters.size();
    const auto groups = static_cast<std::size_t>(options.num_groups());
    for (std::size_t g = 0; g < groups; ++g) {
      std::vector<std::size_t> members(count * (g + 1) / groups - count * g / groups);
      std::iota(members.begin(), members.end(), count * g / groups);
      add(std::move(members));
    }
  }
  for (std::size_t i = first; i < parameters.size(); ++i) {
    if (!placed[i]) add({i});
  }
}

}  // namespace kolo::detail
