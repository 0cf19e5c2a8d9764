#include "torch_ops/optimizer/parameter_table.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "core/types.hpp"
#include "kolo/error.h"
#include "torch_ops/ops/tensor_traits.hpp"

namespace kolo::detail {

void ParameterTable::add(const std::vector<at::Tensor>& tensors) {
  const std::size_t known = parameters_.size();
  for (const at::Tensor& tensor : tensors) parameters_.emplace_back().tensor = tensor;
  name_parameters(known);
  add_units(known);
}

void ParameterTable::remove(std::size_t index) {
  removed_.push_back(std::exchange(parameters_[index].tensor, {}));
  std::vector<std::size_t>& members = units_[parameters_[index].unit].members;
  members.erase(std::find(members.begin(), members.end(), index));
}

bool ParameterTable::is_trainable(const Unit& unit) const {
  return std::any_of(unit.members.begin(), unit.members.end(), [&](std::size_t member) {
    return parameters_[member].tensor.requires_grad();
  });
}

void ParameterTable::check_dtype(const at::Tensor& parameter, std::size_t position) const {
  if (!parameter.requires_grad()) return;
  const auto refuse = [&](const std::string& why) {
    const auto named = name_given_to(parameter);
    throw InvalidArgumentError("DistributedOptimizer '" + options_.name() + "': parameter '" +
                               named.value_or(std::to_string(position)) + "' is of dtype " +
                               c10::toString(parameter.scalar_type()) + ", " + why);
  };
  if (!dtype_sent(parameter.scalar_type())) {
    refuse(
        "which kolo cannot reduce; use float16, bfloat16, float32, float64, complex64 or "
        "complex128, or requires_grad_(false)");
  }
  if (options_.op() == ReduceOp::Adasum && parameter.is_complex())
    refuse("but Adasum supports only real numbers; use Average");
}

std::optional<std::string> ParameterTable::name_given_to(const at::Tensor& parameter) const {
  for (const auto& [name, tensor] : options_.named_parameters()) {
    if (tensor.is_same(parameter)) return name;
  }
  return std::nullopt;
}

void ParameterTable::name_parameters(std::size_t first) {
  for (std::size_t i = first; i < parameters_.size(); ++i) {
    const std::optional<std::string> name = name_given_to(parameters_[i].tensor);
    // Parameters of a group that is added later cannot have been named.
    if (!name && first == 0 && !options_.named_parameters().empty()) {
      throw InvalidArgumentError("DistributedOptimizer '" + options_.name() + "': parameter " +
                                 std::to_string(i) + ", shape " +
                                 to_string(parameters_[i].tensor.sizes().vec()) +
                                 ", is not in named_parameters; name all or none");
    }
    parameters_[i].name = options_.name() + ".gradient." + name.value_or(std::to_string(i));
  }
}

// Returns the parameters of each group. Throws InvalidArgumentError for a list that is empty,
// shares a parameter with another list, or has a tensor that is not a parameter of the optimizer.
std::vector<std::vector<std::size_t>> ParameterTable::groups() const {
  std::vector<std::vector<std::size_t>> all;
  const auto count = static_cast<std::size_t>(options_.num_groups());
  for (std::size_t g = 0; g < count; ++g) {
    const std::size_t begin = parameters_.size() * g / count;
    std::vector<std::size_t>& members =
        all.emplace_back(parameters_.size() * (g + 1) / count - begin);
    std::iota(members.begin(), members.end(), begin);
  }
  std::unordered_map<const c10::TensorImpl*, std::size_t> index_of;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    index_of.emplace(parameters_[i].tensor.unsafeGetTensorImpl(), i);
  std::vector<bool> placed(parameters_.size(), false);
  for (const std::vector<at::Tensor>& group : options_.groups()) {
    const std::string which = "DistributedOptimizer '" + options_.name() + "': group " +
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
        throw InvalidArgumentError(which + " has the parameter '" +
                                   parameters_[found->second].name +
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
void ParameterTable::add_units(std::size_t first) {
  std::vector<bool> placed(parameters_.size(), false);
  const auto add = [&](std::vector<std::size_t> members) {
    if (members.empty()) return;
    Unit& unit = units_.emplace_back();
    unit.name = members.size() == 1
                    ? parameters_[members[0]].name
                    : options_.name() + ".group." + std::to_string(units_.size() - 1);
    for (const std::size_t member : members) {
      parameters_[member].unit = units_.size() - 1;
      placed[member] = true;
    }
    unit.members = std::move(members);
  };
  if (first == 0) {
    for (std::vector<std::size_t>& members : groups()) add(std::move(members));
  }
  for (std::size_t i = first; i < parameters_.size(); ++i) {
    if (!placed[i]) add({i});
  }
}

}  // namespace kolo::detail
