#include "benchmarks/tensors.hpp"

#include <torch/torch.h>

#include <sstream>

namespace kolo::bench {

Tensors::Tensors(const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) {
    items_.push_back({parameter.name, torch::empty(parameter.shape, torch::kFloat32),
                      parameter.elements(), elements_});
    elements_ += parameter.elements();
  }
}

void Tensors::fill(const Pattern& pattern) const {
  for (const Item& item : items_) pattern.fill(item.data(), item.elements, item.offset);
}

std::string Tensors::check(const Pattern& pattern, int rank) const {
  for (const Item& item : items_) {
    const auto difference = pattern.first_difference(item.data(), item.elements, item.offset);
    if (!difference) continue;
    std::ostringstream text;
    text << "element " << difference->index << " of '" << item.name << "' on rank " << rank
         << " is " << difference->found << ", expected " << difference->expected;
    return text.str();
  }
  return "";
}

}  // namespace kolo::bench
