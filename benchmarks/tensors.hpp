// A contender's tensors: private memory, as LibTorch's stock allocator gives it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "benchmarks/models.hpp"
#include "benchmarks/pattern.hpp"

namespace kolo::bench {

class Tensors {
 public:
  // float32, one for each parameter, not initialised.
  explicit Tensors(const std::vector<Parameter>& parameters);

  struct Item {
    std::string name;
    at::Tensor tensor;
    std::size_t elements = 0;
    std::size_t offset = 0;  // elements before it

    float* data() const { return tensor.data_ptr<float>(); }
  };
  const std::vector<Item>& items() const { return items_; }
  std::size_t elements() const { return elements_; }

  void fill(const Pattern& pattern) const;
  // Which element of which tensor is wrong on this rank; empty if none is.
  std::string check(const Pattern& pattern, int rank) const;

 private:
  std::vector<Item> items_;
  std::size_t elements_ = 0;
};

}  // namespace kolo::bench
