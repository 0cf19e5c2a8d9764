// Which gradients are reduced together, and under which names.
#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "core/types.hpp"
#include "kolo/error.h"
#include "torch_ops/gradient_reducer.hpp"
#include "torch_ops/tensor.hpp"

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

void GradientReducer::State::check_dtype(const at::Tensor& parameter, std::size_t position) const {
  if (!parameter.requires_grad()) return;
  const auto refuse = [&](const std::string& why) {
    const auto named = name_given_to(parameter);
    throw InvalidArgumentError("DistributedOptimizer '" + options.name() + "': parameter '" +
                               named.value_or(std::to_string(position)) + "' is of dtype " +
                               c10::toString(parameter.scalar_type()) + ", " + why);
  };
  if (!dtype_sent(parameter.scalar_type())) {
    refuse(
        "which kolo cannot reduce; use float16, bfloat16, float32, float64, complex64 or "
        "complex128, or requires_grad_(false)");
  }
  if (options.op() == ReduceOp::Adasum && parameter.is_complex())
    refuse("but Adasum is for real numbers; use Average");
}

std::optional<std::string> GradientReducer::State::name_given_to(
    const at::Tensor& parameter) const {
  for (const auto& [name, tensor] : options.named_parameters()) {
    if (tensor.is_same(parameter)) return name;
  }
  return std::nullopt;
}

void GradientReducer::State::name_parameters(std::size_t first) {
  for (std::size_t i = first; i < parameters.size(); ++i) {
    const std::optional<std::string> name = name_given_to(parameters[i].tensor);
    // Parameters of a group that is added later cannot have been named.
    if (!name && first == 0 && !options.named_parameters().empty()) {
      throw InvalidArgumentError("DistributedOptimizer '" + options.name() + "': parameter " +
                                 std::to_string(i) + ", shape " +
                                 to_string(parameters[i].tensor.sizes().vec()) +
                                 ", is not in named_parameters; name all or none");
    }
    parameters[i].name = options.name() + ".gradient." + name.value_or(std::to_string(i));
  }
}

// Returns the parameters of each group. Throws InvalidArgumentError for a list that is empty,
// shares a parameter with another list, or has a tensor that is not a parameter of the optimizer.
std::vector<std::vector<std::size_t>> GradientReducer::State::groups() const {
  std::vector<std::vector<std::size_t>> all;
  const auto count = static_cast<std::size_t>(options.num_groups());
  for (std::size_t g = 0; g < count; ++g) {
    const std::size_t begin = parameters.size() * g / count;
    std::vector<std::size_t>& members =
        all.emplace_back(parameters.size() * (g + 1) / count - begin);
    std::iota(members.begin(), members.end(), begin);
  }
  std::unordered_map<const c10::TensorImpl*, std::size_t> index_of;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    index_of.emplace(parameters[i].tensor.unsafeGetTensorImpl(), i);
  std::vector<bool> placed(parameters.size(), false);
  for (const std::vector<at::Tensor>& group : options.groups()) {
    const std::string which = "DistributedOptimizer '" + options.name() + "': group " +
                              std::to_string(all.size()) + " of groups";
    if (group.empty()) throw InvalidArgumentError(which + " is empty; leave it out");
    std::vector<std::size_t>& members = all.emplace_back();
    for (const at::Tensor& tensor : group) {
      const auto found = index_of.find(tensor.unsafeGetTensorImpl());
      if (found == index_of.end()) {
        throw InvalidArgumentError(
            which + " has a tensor, shape " +
            (tensor.defined() ? to_string(tensor.sizes().vec()) : "undefined") +
            ", that is not one of the optimizer's parameters");
      }
      if (placed[found->second]) {
        throw InvalidArgumentError(which + " has the parameter '" + parameters[found->second].name +
                                   "', which is in a group already; list it once");
      }
      placed[found->second] = true;
      members.push_back(found->second);
    }
    std::sort(members.begin(), members.end());
  }
  return all;
}

// Units for the parameters from `first` on. Those that are added later belong to no group.
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
  if (first == 0) {
    for (std::vector<std::size_t>& members : groups()) add(std::move(members));
  }
  for (std::size_t i = first; i < parameters.size(); ++i) {
    if (!placed[i]) add({i});
  }
}

}  // namespace kolo::detail
