// Ranks that do not mean the same collective: sizes that differ are an error on both, and no memory
// is touched. (Negotiation keeps this from happening; here it is left out.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/shm/backend.hpp"

namespace kolo::shm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr float kUntouched = 7777;

// Two ranks on one node, played by one thread.
class Sizes : public testing::Test {
 protected:
  using Make = std::function<std::unique_ptr<Work>(Backend& backend, int rank, std::size_t elements,
                                                   void* data)>;

  Sizes() : nodes_(make_local_nodes(2, 64 << 20)) {
    for (const auto& node : nodes_) backends_.push_back(make_backend(node, {0, 1}, 0, 0, nullptr));
  }

  // Each rank makes the work for so many elements of the memory that it has.
  void expect_refusal(std::size_t elements, std::size_t others, bool in_arena, const Make& make) {
    SCOPED_TRACE(std::to_string(elements) + " and " + std::to_string(others) + " elements, " +
                 (in_arena ? "shared" : "private"));
    const std::vector<std::size_t> sizes = {elements, others};
    std::vector<std::shared_ptr<std::byte[]>> memory;
    std::vector<std::unique_ptr<Work>> works;
    const std::size_t room = 2 * std::max(elements, others) * sizeof(float);
    for (int rank = 0; rank < 2; ++rank) {
      memory.push_back(in_arena ? backends_[rank]->make_buffer(room)
                                : std::shared_ptr<std::byte[]>(new std::byte[room]));
      auto* const data = reinterpret_cast<float*>(memory.back().get());
      std::fill(data, data + room / sizeof(float), kUntouched);
      works.push_back(make(*backends_[rank], rank, sizes[rank], data));
      ASSERT_TRUE(works.back()->start().is_ok());
    }
    std::vector<Status> ends(2);
    std::vector<Progress> progress(2, Progress::kWaiting);
    for (int turn = 0; turn < 100; ++turn) {
      for (int rank = 0; rank < 2; ++rank) {
        if (progress[rank] == Progress::kFailed) continue;
        progress[rank] = works[rank]->step(ends[rank]);
        ASSERT_NE(progress[rank], Progress::kDone) << "on rank " << rank;
      }
    }
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(progress[rank], Progress::kFailed) << "on rank " << rank;
      EXPECT_THAT(ends[rank].message(), HasSubstr("do not mean the same collective"));
      const auto* const data = reinterpret_cast<const float*>(memory[rank].get());
      EXPECT_THAT(std::vector<float>(data, data + room / sizeof(float)), Each(kUntouched));
    }
    failed_.insert(failed_.end(), memory.begin(), memory.end());
    for (auto& work : works) kept_.push_back(std::move(work));
    ++turn_.sequence;
  }

  void expect_refusals(const Make& make) {
    for (const bool in_arena : {true, false}) {
      for (const auto& [elements, others] : std::vector<std::pair<std::size_t, std::size_t>>{
               {100, 101}, {100, 5000}, {5000, 9000}, {300'000, 4}})
        expect_refusal(elements, others, in_arena, make);
    }
  }

  Turn turn_;

 private:
  const std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::shared_ptr<std::byte[]>> failed_;  // as the engine does
  std::vector<std::unique_ptr<Work>> kept_;
};

TEST_F(Sizes, OfAnAllreduce) {
  expect_refusals([this](Backend& backend, int /*rank*/, std::size_t elements, void* data) {
    return backend.make(turn_, collective::Allreduce{data, elements, {}});
  });
}

TEST_F(Sizes, OfAReducescatter) {
  expect_refusals([this](Backend& backend, int /*rank*/, std::size_t elements, void* data) {
    return backend.make(turn_, collective::Reducescatter{data, {0, elements / 2, elements}, {}});
  });
}

TEST_F(Sizes, OfAnAllgather) {
  expect_refusals([this](Backend& backend, int /*rank*/, std::size_t elements, void* data) {
    const std::size_t bytes = elements * sizeof(float);
    return backend.make(turn_, collective::Allgather{data, {0, bytes, 2 * bytes}});
  });
}

}  // namespace
}  // namespace kolo::shm
