// CPU tensors in memory that the ranks of the node share.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "fixture.hpp"

namespace kolo {
namespace {

constexpr std::int64_t kLarge = 1 << 20;  // elements

bool is_off(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string(value) == "0";
}

bool memory_is_shared() {
  return local_size() > 1 && !is_off("KOLO_SHARED_MEMORY") && !is_off("KOLO_ARENA");
}

void expect_sums_right(at::Tensor tensor, const std::string& name) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    tensor.fill_(rank() + 1 + repeat);
    allreduce_(tensor, AllreduceOptions(name).op(ReduceOp::Sum));
    const int expected = size() * (size() + 1) / 2 + repeat * size();
    ASSERT_TRUE(tensor.eq(expected).all().item<bool>()) << tensor[0].item<float>();
  }
}

// The only test that sees the process before its first init().
TEST(Arena, TensorsAreBornInItWhileKoloRuns) {
  const at::Tensor before = at::ones({kLarge});
  EXPECT_FALSE(is_shared(before));
  EXPECT_EQ(arena_statistics().capacity, 0U);
  at::Tensor kept;
  for (int session = 0; session < 3; ++session) {
    init();
    const bool shared = memory_is_shared();
    const at::Tensor tensor = at::ones({kLarge});
    EXPECT_EQ(is_shared(tensor), shared);
    EXPECT_FALSE(is_shared(at::ones({100}))) << "too small";
    EXPECT_FALSE(is_shared(at::Tensor()));
    if (shared) {
      EXPECT_GE(arena_statistics().allocated, kLarge * sizeof(float));
    }
    expect_sums_right(tensor, "new");
    expect_sums_right(before, "old");
    expect_sums_right(at::ones({kLarge + 3}).narrow(0, 3, kLarge), "view");
    if (kept.defined()) {
      EXPECT_TRUE(kept.eq(7).all().item<bool>());
    }
    kept = at::full({kLarge}, 7.0F);
    shutdown();
    EXPECT_TRUE(kept.eq(7).all().item<bool>()) << "a tensor that outlives the session";
    kept.add_(1).sub_(1);
    EXPECT_FALSE(is_shared(at::ones({kLarge}))) << "kolo does not run";
    EXPECT_EQ(is_shared(kept.clone()), false);
  }
}

class ArenaOf : public testing_support::WithKolo {};

TEST_F(ArenaOf, MemoryIsKeptAndGivenBackWhenAsked) {
  if (!memory_is_shared()) GTEST_SKIP() << "no memory is shared";
  trim_arena();
  const std::size_t before = arena_statistics().allocated;
  const at::Tensor stays = at::full({kLarge}, 5.0F);
  { const at::Tensor goes = at::ones({4 * kLarge}); }
  EXPECT_GE(arena_statistics().kept, 4 * kLarge * sizeof(float));
  EXPECT_GE(trim_arena(), 4 * kLarge * sizeof(float));
  EXPECT_EQ(arena_statistics().allocated, before + kLarge * sizeof(float));
  EXPECT_TRUE(stays.eq(5).all().item<bool>());
  expect_sums_right(at::ones({4 * kLarge}), "after");
}

TEST_F(ArenaOf, ThreadsMayHandTensorsOver) {
  std::vector<at::Tensor> made(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < made.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        made[t] = at::full({20'000 + 1000 * i}, static_cast<float>(i));
        made[t] = made[t] + made[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const at::Tensor& tensor : made) EXPECT_TRUE(tensor.eq(98).all().item<bool>());
}

// A child sees its parent's tensors, changes none of them, and ends without kolo's and MPI's help.
TEST_F(ArenaOf, AForkedChildChangesNothing) {
  const at::Tensor tensor = at::full({kLarge}, 3.0F);
  const pid_t child = fork();
  if (child == 0) {
    float* const data = tensor.data_ptr<float>();
    if (is_initialized() || data[77] != 3) _exit(2);
    for (std::int64_t i = 0; i < kLarge; ++i) data[i] = 9;
    const at::Tensor own = tensor.clone();
    if (own.data_ptr<float>()[5] != 9) _exit(3);
    std::exit(0);  // runs what was registered to run at exit
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(tensor.eq(3).all().item<bool>());
  barrier();
  expect_sums_right(tensor, "after a fork");
}

// Whoever drives the engine, a result has the mode of the thread that asked for it.
TEST_F(ArenaOf, ResultsHaveTheModeOfTheirOwnThread) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const std::string name = std::to_string(repeat);
    Handle mine = allgather_async(at::ones({3}), "g" + name);
    std::thread([&] {
      const c10::InferenceMode inference;
      EXPECT_TRUE(allgather(at::ones({3}), "h" + name).is_inference());
    }).join();
    EXPECT_FALSE(mine.wait().is_inference());
  }
}

}  // namespace
}  // namespace kolo
