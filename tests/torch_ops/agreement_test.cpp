#include <cmath>
#include <limits>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Agreement = WithKolo;

TEST_F(Agreement, AverageOfNumbers) {
  const double mean = (size() - 1) / 2.0;
  EXPECT_DOUBLE_EQ(average(rank()), mean);
  EXPECT_DOUBLE_EQ(average(rank(), 7.0), mean) << "equal weights";
  // Rank r stands for r + 1 samples: the sum of r (r + 1) over the sum of r + 1.
  double sum = 0;
  double weights = 0;
  for (int r = 0; r < size(); ++r) {
    sum += r * (r + 1.0);
    weights += r + 1.0;
  }
  EXPECT_DOUBLE_EQ(average(rank(), rank() + 1.0), sum / weights);
  EXPECT_DOUBLE_EQ(average(rank() + 3.0, rank() == 0 ? 1.0 : 0.0), 3.0) << "only rank 0 counts";
  EXPECT_DOUBLE_EQ(average(rank(), 1.0, "by name"), mean);
  EXPECT_DOUBLE_EQ(average(rank() == 0 ? 2.0 : std::nan(""), rank() == 0 ? 5.0 : 0.0), 2.0)
      << "a rank without samples";
}

TEST_F(Agreement, AverageOfTensors) {
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    const at::Tensor mine = torch::full({2, 3}, rank() + 1.0, dtype);
    const at::Tensor mean = average(mine, 2.0);
    EXPECT_EQ(mean.scalar_type(), dtype);
    EXPECT_TRUE(mean.equal(torch::full({2, 3}, (size() + 1) / 2.0, dtype))) << mean;
    EXPECT_TRUE(mine.equal(torch::full({2, 3}, rank() + 1.0, dtype))) << "unchanged";
  }
  const at::Tensor trained = torch::ones({2}).requires_grad_();
  EXPECT_FALSE(average(trained * 2).requires_grad());
  // float16 has no 120,000.
  const at::Tensor large = torch::full({1}, 60000.0, torch::kHalf);
  EXPECT_TRUE(average(large).equal(large));
}

TEST_F(Agreement, WrongWeights) {
  const bool last = rank() == size() - 1;
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { average(1.0, last ? wrong : 1.0); }),
                HasSubstr("must be finite, at least 0, and not all 0"));
  }
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { average(1.0, 0.0); }),
              HasSubstr("the weight here is 0"));
  EXPECT_DOUBLE_EQ(average(1.0), 1.0) << "the next one works";
}

TEST_F(Agreement, AWrongValueOnOneRank) {
  const auto call = [&] {
    average(rank() == 0 ? torch::ones({1}, torch::kLong) : torch::ones({1}));
  };
  if (rank() == 0) {
    EXPECT_THAT(message_of<InvalidArgumentError>(call), HasSubstr("floating-point dtype"));
  } else {
    EXPECT_THAT(message_of<MismatchError>(call), HasSubstr("floating-point dtype"));
  }
  EXPECT_DOUBLE_EQ(average(1.0, 1.0, "after"), 1.0);
}

TEST_F(Agreement, Conditions) {
  EXPECT_TRUE(agree(true));
  EXPECT_FALSE(agree(false));
  EXPECT_EQ(agree(rank() == 0), size() == 1);
  EXPECT_FALSE(agree(rank() != 0));
  EXPECT_TRUE(!agree(rank() != size() - 1)) << "true on any rank";
}

}  // namespace
}  // namespace kolo
