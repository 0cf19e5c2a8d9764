#include "benchmarks/tensors.hpp"

#include <kolo/memory.h>
#include <torch/torch.h>

#include <cstdlib>
#include <new>

namespace kolo::bench {

const char* name_of(Memory memory) {
  return memory == Memory::kArena ? "arena" : "private";
}

Memory usual_memory() {
  return is_shared(torch::empty({1 << 20})) ? Memory::kArena : Memory::kPrivate;
}

at::Tensor floats(const std::vector<std::int64_t>& shape, Memory memory) {
  if (memory == Memory::kArena) return torch::empty(shape, torch::kFloat32);
  constexpr std::size_t kAlignment = 64;  // as LibTorch's allocator
  std::size_t bytes = sizeof(float);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  void* const data = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (data == nullptr) throw std::bad_alloc();
  return torch::from_blob(
      data, shape, [](void* memory_of_it) { std::free(memory_of_it); }, torch::kFloat32);
}

Tensors::Tensors(const std::vector<Parameter>& parameters, Memory memory) {
  for (const Parameter& parameter : parameters) {
    items_.push_back(
        {parameter.name, floats(parameter.shape, memory), parameter.elements(), elements_});
    elements_ += parameter.elements();
  }
}

void Tensors::fill(const Pattern& pattern) const {
  for (const Item& item : items_) pattern.fill(item.data(), item.elements, item.offset);
}

std::string Tensors::check(const Pattern& pattern, int rank) const {
  for (const Item& item : items_) {
    const auto difference = pattern.first_difference(item.data(), item.elements, item.offset);
    if (difference) return describe(*difference, "'" + item.name + "'", rank);
  }
  return "";
}

}  // namespace kolo::bench
