#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kolo/optimizer.h"

namespace kolo::detail {

// The form in which all ranks exchange a parameter's gradient. Unknown until one of them has had
// one.
enum class Layout : std::uint8_t { kUnknown, kDense, kSparse };

// A parameter of a DistributedOptimizer.
struct Parameter {
  at::Tensor tensor;     // undefined: it was removed
  std::string name;      // of its gradient, in messages
  std::size_t unit = 0;  // the unit that it belongs to
  Layout layout = Layout::kUnknown;
  // Whether ranks store its dimensions in different orders. Its gradients are then sent as
  // contiguous copies. Known when the layout is known.
  bool order_differs = false;
};

// Parameters whose gradients are reduced together.
struct Unit {
  std::string name;
  std::vector<std::size_t> members;  // positions in the table, ascending
};

// The parameters of a DistributedOptimizer, each once, and the units they belong to. Those that
// were removed are not in any unit.
class ParameterTable {
 public:
  // The options must outlive the table.
  explicit ParameterTable(const DistributedOptimizerOptions& options) : options_(options) {}

  // Adds parameters that are not in the table yet. The first call makes the units that the options
  // name; every other parameter gets a unit of its own. Throws InvalidArgumentError for a parameter
  // without a name where others have one, and for groups that do not fit the parameters.
  void add(const std::vector<at::Tensor>& tensors);

  // Removes a parameter. It keeps its position in the table.
  void remove(std::size_t index);

  // Throws InvalidArgumentError if the gradients of this parameter cannot be reduced. `position`:
  // its place in the optimizer's parameter groups, for the message.
  void check_dtype(const at::Tensor& parameter, std::size_t position) const;

  std::size_t size() const { return parameters_.size(); }
  Parameter& operator[](std::size_t index) { return parameters_[index]; }
  const Parameter& operator[](std::size_t index) const { return parameters_[index]; }
  const std::vector<Unit>& units() const { return units_; }
  // Whether a member of the unit requires a gradient.
  bool is_trainable(const Unit& unit) const;

 private:
  std::optional<std::string> name_given_to(const at::Tensor& parameter) const;
  void name_parameters(std::size_t first);
  void add_units(std::size_t first);
  std::vector<std::vector<std::size_t>> groups() const;

  const DistributedOptimizerOptions& options_;
  std::vector<Parameter> parameters_;
  std::vector<Unit> units_;
  // LibTorch's optimizers find a parameter's state by its address, which must not become another's.
  std::vector<at::Tensor> removed_;
};

}  // namespace kolo::detail
