// An arena that is too small for the program: what does not fit lies elsewhere, and all goes on.
#include <cstdlib>
#include <numeric>

#include "fixture.hpp"

namespace kolo {
namespace {

std::vector<int> everyone() {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(SmallArena, WhatDoesNotFitLiesElsewhere) {
  setenv("KOLO_ARENA_BYTES", "33554432", 1);
  init();
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 20; ++i) tensors.push_back(at::full({1 << 19}, static_cast<float>(i)));
  EXPECT_TRUE(is_shared(tensors.front()));
  EXPECT_FALSE(is_shared(tensors.back()));
  EXPECT_EQ(arena_statistics().capacity, 33554432U);
  EXPECT_GT(arena_statistics().refusals, 0U);
  // Each rank has shared and private ones in its own places.
  if (rank() == 1) std::reverse(tensors.begin(), tensors.end());
  for (int i = 0; i < 20; ++i) {
    const int mine = rank() == 1 ? 19 - i : i;
    at::Tensor& tensor = tensors[static_cast<std::size_t>(i)];
    EXPECT_TRUE(tensor.eq(mine).all().item<bool>());
    allreduce_(tensor, AllreduceOptions("t" + std::to_string(i)).op(ReduceOp::Sum));
    EXPECT_TRUE(tensor.eq(size() == 2 ? 19 : mine).all().item<bool>());
  }
  const at::Tensor all = allgather(tensors.front());
  EXPECT_EQ(all.size(0), size() * (1 << 19));
  tensors.clear();
  EXPECT_TRUE(is_shared(at::ones({1 << 19}))) << "there is room again";

  // Full to the last block, and many large collectives of private memory at the same time.
  std::vector<at::Tensor> filling;
  do {
    filling.push_back(at::ones({1 << 18}));
  } while (is_shared(filling.back()));
  const ProcessSet others = add_process_set(everyone());
  std::vector<Handle> handles;
  for (int i = 0; i < 16; ++i) {
    tensors.push_back(at::full({1 << 21}, static_cast<float>(rank() + i)));
    EXPECT_FALSE(is_shared(tensors.back()));
    handles.push_back(
        allreduce_async_(tensors.back(), AllreduceOptions("full" + std::to_string(i))
                                             .op(ReduceOp::Sum)
                                             .process_set(i % 2 == 0 ? others : ProcessSet())));
  }
  for (int i = 0; i < 16; ++i) {
    handles[static_cast<std::size_t>(i)].wait();
    const int sum = size() * i + size() * (size() - 1) / 2;
    EXPECT_TRUE(tensors[static_cast<std::size_t>(i)].eq(sum).all().item<bool>());
  }
  shutdown();
}

}  // namespace
}  // namespace kolo
