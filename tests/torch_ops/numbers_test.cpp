// Reductions of numbers at the limits of their dtypes.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

// Over shared memory and over messages.
class Numbers : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("KOLO_SHARED_MEMORY", GetParam(), 1), 0);
    init();
  }
  void TearDown() override {
    shutdown();
    ASSERT_EQ(unsetenv("KOLO_SHARED_MEMORY"), 0);
  }
};
INSTANTIATE_TEST_SUITE_P(SharedMemory, Numbers, testing::Values("1", "0"));

constexpr at::ScalarType kIntegers[] = {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong};

// Largest and least of an integer dtype.
std::pair<std::int64_t, std::int64_t> limits_of(at::ScalarType dtype) {
  if (dtype == at::kByte) return {255, 0};
  const int bits = static_cast<int>(8 * c10::elementSize(dtype));
  const auto most = static_cast<std::int64_t>(~std::uint64_t{0} >> (65 - bits));
  return {most, -most - 1};
}

// The largest float16 is 65,504, so the sum of two ranks' values overflows.
TEST_P(Numbers, AverageOfFloat16DoesNotOverflow) {
  for (const std::int64_t count : {1, 1000, 20000, 300000}) {
    const at::Tensor large = at::full({count}, 40000.0, at::kHalf);
    EXPECT_TRUE(allreduce(large).equal(large)) << count;
    EXPECT_TRUE(reducescatter(at::full({count * size()}, 40000.0, at::kHalf)).equal(large));
    const at::Tensor ranks = at::full({count}, 20000.0 + rank(), at::kHalf);
    EXPECT_NEAR(allreduce(ranks)[0].item<double>(), 20000 + (size() - 1) / 2.0, 16) << count;
  }
  EXPECT_EQ(allreduce(at::full({2}, 1e-3, at::kHalf))[1].item<double>(),
            at::full({1}, 1e-3, at::kHalf).item<double>());
  const at::Tensor sparse = at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong),
                                                  at::full({1, 2}, 40000.0, at::kHalf), {3, 2});
  EXPECT_TRUE(sparse_allreduce(sparse).to_dense().equal(sparse.to_dense()));
}

TEST_P(Numbers, CompressedGradientsDoNotOverflow) {
  const at::Tensor p = at::zeros({100}).requires_grad_();
  DistributedOptimizer<torch::optim::SGD> optimizer(
      std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0),
      DistributedOptimizerOptions().compression(Compression::Fp16));
  (p * 4e4).sum().backward();
  EXPECT_TRUE(p.grad().equal(at::full({100}, 4e4)));
}

// 1 + 2^-8 times 2^-20 needs more bits than the smallest numbers of float16 have: rounded to
// float16 before it is scaled back, it would be 1.
TEST_P(Numbers, ScaledHalvesAreRoundedOnceInSharedMemoryAndOnOneRank) {
  if (std::string(GetParam()) == "0" && size() > 1) {
    GTEST_SKIP() << "without shared memory each step is rounded";
  }
  const auto options =
      AllreduceOptions(ReduceOp::Sum).prescale_factor(0x1p-20).postscale_factor(0x1p20);
  for (const std::int64_t count : {1, 100000}) {
    const at::Tensor value = at::full({count}, 1 + 0x1p-8, at::kHalf);
    const at::Tensor sum = value * size();
    EXPECT_TRUE(allreduce(value, options).equal(sum));
    EXPECT_TRUE(reducescatter(value.repeat({size()}), options).equal(sum));
  }
}

TEST_P(Numbers, AverageOfIntegersIsExact) {
  const std::int64_t n = size();
  for (const at::ScalarType dtype : kIntegers) {
    const auto [most, least] = limits_of(dtype);
    // The elements: the largest value everywhere; the least; the least but on rank 0; the rank.
    const at::Tensor mine =
        at::tensor({most, least, rank() == 0 ? most : least, std::int64_t{rank()}}, at::kLong)
            .to(dtype);
    // Rounded towards zero. The sum may leave int64.
    const auto average = [&](std::int64_t value, std::int64_t of_rank_0) {
      return static_cast<std::int64_t>((static_cast<__int128>(value) * (n - 1) + of_rank_0) / n);
    };
    const at::Tensor wanted =
        at::tensor({most, least, average(least, most), (n - 1) / 2}, at::kLong).to(dtype);
    EXPECT_TRUE(allreduce(mine).equal(wanted)) << dtype << allreduce(mine);
    at::Tensor in_place = mine.clone().reshape({2, 2}).t();
    allreduce_(in_place);
    EXPECT_TRUE(in_place.equal(wanted.reshape({2, 2}).t())) << dtype;
    const auto group = grouped_allreduce({mine, at::full({3}, rank(), at::kFloat)});
    EXPECT_TRUE(group[0].equal(wanted)) << dtype;
    EXPECT_TRUE(group[1].equal(at::full({3}, static_cast<float>(n - 1) / 2))) << dtype;
    const at::Tensor shares = reducescatter(mine.unsqueeze(0).expand({n, 4}));
    EXPECT_TRUE(shares.equal(wanted.unsqueeze(0))) << dtype;
    const at::Tensor sparse = sparse_allreduce(
        at::sparse_coo_tensor(at::ones({1, 1}, at::kLong), mine.unsqueeze(0), {3, 4}));
    EXPECT_EQ(sparse.scalar_type(), dtype);
    EXPECT_TRUE(sparse.to_dense()[1].equal(wanted)) << dtype;
  }
}

TEST_P(Numbers, ScaledIntegersStayInRange) {
  for (const at::ScalarType dtype : kIntegers) {
    const auto [most, least] = limits_of(dtype);
    const at::Tensor mine = at::tensor({most, least, std::int64_t{5}}, at::kLong).to(dtype);
    const at::Tensor three_halves = at::tensor({most, least, std::int64_t{7}}, at::kLong).to(dtype);
    EXPECT_TRUE(allreduce(mine, AllreduceOptions().postscale_factor(1.5)).equal(three_halves));
    EXPECT_TRUE(allreduce(mine, AllreduceOptions().prescale_factor(1.5)).equal(three_halves));
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      EXPECT_THAT(message_of<InvalidArgumentError>(
                      [&] { allreduce(mine, AllreduceOptions("bad").prescale_factor(bad)); }),
                  HasSubstr("give a finite factor"));
      EXPECT_THROW(reducescatter(mine, AllreduceOptions("bad").postscale_factor(bad)),
                   InvalidArgumentError);
    }
  }
  EXPECT_TRUE(allreduce(at::ones({2}), AllreduceOptions().postscale_factor(HUGE_VAL))
                  .equal(at::full({2}, HUGE_VAL)))
      << "a floating-point factor may be infinite";
}

TEST_P(Numbers, AveragesOfDifferentIntegersAreAMismatch) {
  if (size() == 1) return;
  const at::Tensor mine = at::ones({4, 3}, rank() == 0 ? at::kInt : at::kLong);
  EXPECT_THAT(message_of<MismatchError>([&] { allreduce(mine, "x"); }),
              HasSubstr("dtype: int32 on rank 0; int64 on rank"));
  const at::Tensor other = at::ones({4, rank() == 0 ? 2 : 3}, at::kInt);
  EXPECT_THAT(message_of<MismatchError>([&] { allreduce(other, "x"); }),
              HasSubstr("shape: [4, 2] on rank 0; [4, 3] on rank"));
}

TEST_P(Numbers, BuffersThatLieDifferentlyAreAveraged) {
  torch::nn::BatchNorm2d net(3);
  const at::Tensor image = at::full({1, 3, 2, 2}, static_cast<float>(rank()));
  net->register_buffer("image",
                       rank() == 0 ? image : image.contiguous(at::MemoryFormat::ChannelsLast));
  average_buffers(net);
  EXPECT_TRUE(net->named_buffers()["image"].equal(at::full({1, 3, 2, 2}, (size() - 1) / 2.0F)));
}

}  // namespace
}  // namespace kolo
