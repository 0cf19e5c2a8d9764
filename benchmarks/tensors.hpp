// A contender's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/models.hpp"
#include "benchmarks/pattern.hpp"

namespace kolo::bench {

// Where they lie: where LibTorch puts tensors while kolo runs, which is kolo's arena if ranks share
// a node (and the tensor is not small), or where its stock allocator would.
enum class Memory { kArena, kPrivate };
const char* name_of(Memory memory);  // "arena"

// What kolo's tensors have in this job.
Memory usual_memory();

// float32, not initialised.
at::Tensor floats(const std::vector<std::int64_t>& shape, Memory memory);

class Tensors {
 public:
  // One for each parameter.
  Tensors(const std::vector<Parameter>& parameters, Memory memory);

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
