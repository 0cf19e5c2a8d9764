// on_rank_zero(), manual_seed_per_rank() and clip_grad_norm_().
#include <cmath>
#include <limits>
#include <set>

#include <torch/nn/utils/clip_grad.h>

#include "torch_ops/fixture.hpp"

namespace kolo {
namespace {

using testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;
using OnRankZero = WithKolo;
using Seeds = WithKolo;
using Clip = WithKolo;

TEST_F(OnRankZero, IsCalledThereAloneAndGivesAllItsResult) {
  int calls = 0;
  on_rank_zero([&] { ++calls; });
  const auto words = on_rank_zero([&] {
    ++calls;
    return std::vector<std::string>{"a", "rank " + std::to_string(rank())};
  });
  EXPECT_EQ(calls, rank() == 0 ? 2 : 0);
  EXPECT_EQ(words, (std::vector<std::string>{"a", "rank 0"}));
}

TEST_F(OnRankZero, OfAProcessSetItIsTheFirst) {
  const ProcessSet set = add_process_set({size() - 1});
  if (!set.included()) return;
  EXPECT_EQ(on_rank_zero([] { return rank(); }, OperationOptions().process_set(set)), size() - 1);
}

TEST_F(OnRankZero, AllHearOfWhatItThrows) {
  const auto act = [] { on_rank_zero([]() -> int { throw std::runtime_error("no such file"); }); };
  if (rank() == 0) {
    EXPECT_THAT(message_of<std::runtime_error>(act), HasSubstr("no such file"));
  } else {
    EXPECT_THAT(message_of<MismatchError>(act), HasSubstr("no such file"));
  }
  const auto odd = [] { on_rank_zero([] { throw 7; }); };  // NOLINT(hicpp-exception-baseclass)
  if (rank() == 0) {
    EXPECT_THROW(odd(), std::runtime_error);
  } else {
    EXPECT_THROW(odd(), MismatchError);
  }
  EXPECT_EQ(on_rank_zero([] { return 5; }), 5) << "goes on";
}

TEST_F(Seeds, DifferBetweenRanksAndNotBetweenRuns) {
  const std::uint64_t seed = manual_seed_per_rank(42);
  const double first = torch::rand({}, torch::kDouble).item<double>();
  EXPECT_EQ(manual_seed_per_rank(42), seed);
  EXPECT_EQ(torch::rand({}, torch::kDouble).item<double>(), first);
  const std::vector<double> all = allgather_object(first);
  EXPECT_EQ(std::set<double>(all.begin(), all.end()).size(), all.size());
  EXPECT_NE(manual_seed_per_rank(43), seed);
}

at::Tensor with_gradient(const at::Tensor& gradient) {
  const at::Tensor parameter = torch::zeros_like(gradient).requires_grad_();
  parameter.mutable_grad() = gradient.clone();
  return parameter;
}

// What one process with the whole vector does.
TEST_F(Clip, IsThatOfTheWholeVector) {
  torch::manual_seed(1);
  const at::Tensor same = torch::randn({5}, torch::kDouble);
  const at::Tensor rows = torch::randn({3 * size(), 2}, torch::kDouble);
  for (const double type : {2.0, 1.0, 3.5, std::numeric_limits<double>::infinity()}) {
    for (const double most : {0.5, 1000.0, 0.0}) {
      const std::vector<at::Tensor> whole = {with_gradient(same), with_gradient(rows)};
      const std::vector<at::Tensor> replicated = {with_gradient(same), torch::ones({2})};
      const std::vector<at::Tensor> sharded = {with_gradient(rows.narrow(0, 3 * rank(), 3))};
      const double wanted = torch::nn::utils::clip_grad_norm_(whole, most, type);
      EXPECT_NEAR(clip_grad_norm_(replicated, sharded, most, type), wanted, 1e-12);
      EXPECT_TRUE(replicated[0].grad().allclose(whole[0].grad(), 1e-12, 1e-12));
      EXPECT_TRUE(
          sharded[0].grad().allclose(whole[1].grad().narrow(0, 3 * rank(), 3), 1e-12, 1e-12));
    }
  }
}

// A rank may have no shard.
TEST_F(Clip, ShardsMayBeOfOneRankAlone) {
  const std::vector<at::Tensor> replicated = {with_gradient(torch::full({1}, 3.0F))};
  std::vector<at::Tensor> sharded;
  if (rank() == size() - 1) sharded = {with_gradient(torch::full({1}, 4.0F))};
  EXPECT_NEAR(clip_grad_norm_(replicated, sharded, 1.0), 5, 1e-6);
  EXPECT_NEAR(replicated[0].grad().item<double>(), 0.6, 1e-6);
}

TEST_F(Clip, NotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<at::Tensor> replicated = {with_gradient(torch::ones({1}))};
  const std::vector<at::Tensor> sharded = {
      with_gradient(torch::full({1}, rank() == 0 ? infinity : 1.0F))};
  EXPECT_EQ(clip_grad_norm_(replicated, sharded, 1.0), infinity);
  EXPECT_EQ(replicated[0].grad().item<float>(), 0);
}

// On one rank: the others do not wait.
TEST_F(Clip, WrongArguments) {
  const at::Tensor wrong = torch::ones({2, 2}).requires_grad_();
  wrong.mutable_grad() = torch::ones({2, 2}).to_sparse();
  const std::vector<at::Tensor> sharded = {rank() == size() - 1 ? wrong
                                                                : with_gradient(torch::ones({2}))};
  if (rank() == size() - 1) {
    EXPECT_THROW(clip_grad_norm_({}, sharded, 1.0), InvalidArgumentError);
  } else {
    EXPECT_THROW(clip_grad_norm_({}, sharded, 1.0), MismatchError);
  }
  EXPECT_THROW(clip_grad_norm_({}, {}, -1.0), InvalidArgumentError);
  EXPECT_THROW(clip_grad_norm_({}, {}, 1.0, 0), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo
