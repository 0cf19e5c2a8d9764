#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "torch_ops/optimizer/parameter_table.hpp"
#include "torch_ops/optimizer/seen_tensor.hpp"

namespace kolo::detail {

// Separates the part of each gradient that was reduced before, and is equal on all ranks, from what
// this rank has added since. Only the new part is reduced; then the two are added.
class ReducedParts {
 public:
  // The table must outlive the object.
  explicit ReducedParts(const ParameterTable& table) : table_(table) {}

  // Makes room for parameters that were added to the table.
  void grow() { entries_.resize(table_.size()); }

  // Marks all gradients that exist as reduced, whatever the program has done to them since the
  // reduction. Whoever calls it must see to it that set_aside() comes before the next addition.
  void mark_all();
  // No gradient counts as reduced any more.
  void unmark_all();

  // Takes the parameter's gradient away if it is a reduced one. Leaves it in place if it has
  // changed since it was marked: it is the rank's own contribution to the next reduction.
  void set_aside(std::size_t index);
  // Does so for all gradients that share memory. Call it before a pass adds to one of them: views
  // of one tensor have one counter of changes.
  void set_shared_aside();
  bool is_aside(std::size_t index) const { return entries_[index].aside.defined(); }
  // Adds what the parameter's gradient is now to `factor` times the part that was set aside. The
  // sum becomes the gradient.
  void put_back(std::size_t index, double factor);

 private:
  struct Entry {
    SeenTensor reduced;  // recognises a gradient that is equal on all ranks
    at::Tensor aside;    // undefined: nothing was set aside
  };

  const ParameterTable& table_;
  std::vector<Entry> entries_;  // by parameter
  bool any_marked_ = false;     // false: surely none is
};

}  // namespace kolo::detail
