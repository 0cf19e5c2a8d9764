// Compression and gradient_predivide_factor, by gradients that do not survive every dtype.
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using CompressedGradients = WithKolo;
using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Every rank has the gradient; the average must be what is wanted, to a bit where it is no sum of
// three that is rounded.
struct Case {
  const char* what;
  at::ScalarType dtype;
  Compression compression;
  bool predivided;  // by the number of ranks
  double gradient;
  double wanted;
};

void check(const Case& c, int groups) {
  SCOPED_TRACE(std::string(c.what) + ", groups " + std::to_string(groups));
  const at::Tensor p = torch::zeros({3}, c.dtype).requires_grad_();
  const at::Tensor beside = torch::zeros({2}, at::kDouble).requires_grad_();
  DistributedSgd optimizer(std::vector<at::Tensor>{p, beside}, torch::optim::SGDOptions(1.0),
                           DistributedOptimizerOptions()
                               .compression(c.compression)
                               .num_groups(groups)
                               .gradient_predivide_factor(c.predivided ? size() : 1));
  for (int step = 0; step < 4; ++step) {  // by name, by number, in buckets
    optimizer.zero_grad();
    ((p * c.gradient).sum().to(at::kDouble) + beside.sum()).backward();
    optimizer.synchronize();
    EXPECT_EQ(p.grad().scalar_type(), c.dtype) << "as before";
    EXPECT_TRUE(p.grad().to(at::kDouble).allclose(torch::full({3}, c.wanted, at::kDouble), 3e-7, 0))
        << p.grad()[0].item<double>() << " instead of " << c.wanted << " in step " << step;
    EXPECT_TRUE(beside.grad().equal(torch::ones({2}, at::kDouble)));
  }
}

TEST_F(CompressedGradients, TravelInTheDtypeThatIsChosen) {
  const double middle = 1 + 1.0 / 512;  // float16 has it, bfloat16 rounds it to 1
  const double fine = 1 + 1.0 / 4096;   // neither has it
  const double large = 49152;           // of float16 once, but not twice; of bfloat16 easily
  const auto cut = [](double value) { return size() > 1 ? 1 : value; };  // nothing of one travels
  const double huge = std::ldexp(1.5, 127);  // of float32 once, but not twice
  for (const Case& c : std::initializer_list<Case>{
           {"none", at::kFloat, Compression::None, false, fine, fine},
           {"none of float64", at::kDouble, Compression::None, false, fine, fine},
           {"fp16 keeps", at::kFloat, Compression::Fp16, false, middle, middle},
           {"fp16 rounds", at::kFloat, Compression::Fp16, false, fine, cut(fine)},
           {"fp16 of float64", at::kDouble, Compression::Fp16, false, fine, cut(fine)},
           {"fp16 does not overflow", at::kFloat, Compression::Fp16, false, large, large},
           {"fp16 predivided", at::kFloat, Compression::Fp16, true, large, large},
           {"bf16 rounds", at::kFloat, Compression::Bf16, false, middle, cut(middle)},
           {"bf16 of float64", at::kDouble, Compression::Bf16, false, middle, cut(middle)},
           {"bf16 has the range", at::kFloat, Compression::Bf16, false, large, large},
           {"half stays half", at::kHalf, Compression::Bf16, false, middle, middle},
           {"bfloat16 stays", at::kBFloat16, Compression::Fp16, false, 3 * large, 3 * large},
           {"float32 overflows", at::kFloat, Compression::None, false, huge,
            size() > 1 ? kInfinity : huge},
           {"float32 predivided", at::kFloat, Compression::None, true, huge, huge}}) {
    for (const int groups : {0, 1}) check(c, groups);
  }
}

// Sends the gradient, and a second time what came back. Counts calls.
struct Twice : GradientCompressor {
  std::vector<at::Tensor> compress(const at::Tensor& gradient) override {
    ++compressed;
    return {gradient.clone(), at::ones({1})};
  }
  std::vector<at::Tensor> compress_again(const std::vector<at::Tensor>& reduced) override {
    return {reduced[0] * 2};
  }
  at::Tensor decompress(const std::vector<at::Tensor>& reduced) override {
    return reduced.at(0) / 2;
  }
  inline static int compressed = 0;
};

DistributedOptimizerOptions with(Compression compression) {
  return DistributedOptimizerOptions().compression(std::move(compression));
}

template <class Compressor>
Compression own() {
  return Compression([](const at::Tensor&) { return std::make_unique<Compressor>(); });
}

// Gradients are rank + 1. What is equal on all ranks is its own average.
TEST_F(CompressedGradients, AProgramsOwnCompressionGivesTheAverage) {
  const double mean = (size() + 1) / 2.0;
  for (const int groups : {0, 2}) {
    for (const ReduceOp op : {ReduceOp::Average, ReduceOp::Sum}) {
      const std::vector<at::Tensor> all = {torch::zeros({3}).requires_grad_(),
                                           torch::zeros({4, 5}, at::kDouble).requires_grad_(),
                                           torch::zeros({40000}).requires_grad_()};
      DistributedSgd optimizer(all, torch::optim::SGDOptions(1.0),
                               with(own<Twice>()).op(op).num_groups(groups));
      // The second exchange adds up what is equal on all ranks already.
      const double wanted = op == ReduceOp::Sum ? mean * size() * size() : mean;
      Twice::compressed = 0;
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        for (int passes = 1; passes <= 2; ++passes) {
          ((all[0].sum() + all[2].sum()).to(at::kDouble) + all[1].sum() * (rank() + 1) -
           (all[0].sum() + all[2].sum()).to(at::kDouble) * (-rank()))
              .backward();
          for (const at::Tensor& parameter : all) {
            EXPECT_TRUE(parameter.grad().allclose(
                torch::full_like(parameter, passes * (size() == 1 ? 1.0 : wanted))))
                << parameter.grad().flatten()[0].item<double>() << " in step " << step;
          }
        }
        optimizer.step();
      }
      EXPECT_EQ(Twice::compressed, size() == 1 ? 0 : 3 * 3 * 2) << "nothing of one travels";
    }
  }
}

// Sends the gradient as it is, and uses its memory for something else.
struct Overwrites : GradientCompressor {
  std::vector<at::Tensor> compress(const at::Tensor& gradient) override {
    at::Tensor sent = gradient.clone();
    at::Tensor(gradient).fill_(-1);
    return {sent};
  }
  at::Tensor decompress(const std::vector<at::Tensor>& reduced) override { return reduced[0]; }
};

// The average of rank + 1, and no error about a gradient that changes in flight.
TEST_F(CompressedGradients, ACompressorMayWriteToTheGradient) {
  const at::Tensor parameter = torch::zeros({3}).requires_grad_();
  DistributedSgd optimizer(std::vector<at::Tensor>{parameter}, torch::optim::SGDOptions(1.0),
                           with(own<Overwrites>()));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    (parameter.sum() * (rank() + 1)).backward();
    EXPECT_TRUE(parameter.grad().equal(torch::full({3}, (size() + 1) / 2.0)));
    optimizer.step();
  }
}

// PowerSGD of rank 1 (Vogels, Karimireddy and Jaggi 2019), as docs/training.md has it.
struct RankOne : GradientCompressor {
  std::vector<at::Tensor> compress(const at::Tensor& gradient) override {
    if (!error.defined()) {
      error = at::zeros_like(gradient);
      right = at::ones({gradient.size(1)}, gradient.options());
    }
    matrix = gradient + error;
    return {matrix.mv(right)};
  }
  std::vector<at::Tensor> compress_again(const std::vector<at::Tensor>& reduced) override {
    left = reduced[0] / reduced[0].norm();
    return {matrix.t().mv(left)};
  }
  at::Tensor decompress(const std::vector<at::Tensor>& reduced) override {
    right = reduced[0].clone();
    at::Tensor result = at::outer(left, right);
    error = matrix - result;
    return result;
  }
  at::Tensor error, matrix, left, right;
};

// An average of rank 1 comes back as it is. Of any other the error is sent later, so that the mean
// of the results over many steps is the average gradient.
TEST_F(CompressedGradients, ALowRankCompressionWithErrorFeedback) {
  if (size() == 1) GTEST_SKIP() << "gradients of a rank alone are not compressed";
  const at::Tensor p = torch::zeros({6, 4}, at::kDouble).requires_grad_();
  torch::manual_seed(1);
  const at::Tensor low =
      torch::outer(torch::randn({6}, at::kDouble), torch::randn({4}, at::kDouble));
  const at::Tensor any = torch::randn({6, 4}, at::kDouble);
  for (const bool is_low : {true, false}) {
    DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(0.0),
                             with(own<RankOne>()));
    const at::Tensor& gradient = is_low ? low : any;
    const at::Tensor wanted = gradient * (size() + 1) / 2.0;
    at::Tensor sum = at::zeros_like(p);
    constexpr int kSteps = 300;
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      (p * gradient * (rank() + 1)).sum().backward();
      EXPECT_TRUE(!is_low || p.grad().allclose(wanted, 1e-9)) << "step " << step;
      sum += p.grad();
      optimizer.step();
    }
    EXPECT_LT((sum / kSteps - wanted).norm().item<double>(), 0.05 * wanted.norm().item<double>());
  }
}

// In the step and phase that is chosen, on one rank.
struct Fails : GradientCompressor {
  std::vector<at::Tensor> compress(const at::Tensor& gradient) override {
    fail_in("first");
    return {gradient.clone()};
  }
  std::vector<at::Tensor> compress_again(const std::vector<at::Tensor>& reduced) override {
    fail_in("second");
    return {reduced[0].clone()};
  }
  at::Tensor decompress(const std::vector<at::Tensor>& reduced) override { return reduced[0]; }
  static void fail_in(const std::string& phase) {
    if (phase != fails || rank() != size() - 1) return;
    if (strange) throw 7;
    throw std::runtime_error("no room for " + phase);
  }
  inline static std::string fails;
  inline static bool strange = false;
};

TEST_F(CompressedGradients, AnExceptionOfACompressorReachesAllRanks) {
  if (size() == 1) GTEST_SKIP() << "gradients of a rank alone are not compressed";
  const std::vector<at::Tensor> all = {torch::zeros({3}).requires_grad_(),
                                       torch::zeros({3}).requires_grad_()};
  DistributedSgd optimizer(all, torch::optim::SGDOptions(0.0), with(own<Fails>()));
  const auto backward = [&] {
    optimizer.zero_grad();
    ((all[0] + all[1]).sum() * (rank() + 1)).backward();
  };
  for (const std::string phase : {"first", "second"}) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      Fails::fails = phase;
      if (rank() == size() - 1) {
        EXPECT_THAT(message_of<std::runtime_error>(backward), HasSubstr("no room for " + phase));
      } else {
        EXPECT_THAT(message_of<MismatchError>(backward), HasSubstr("no room for " + phase));
      }
      Fails::fails.clear();
      backward();
      EXPECT_TRUE(all[1].grad().allclose(torch::full({3}, (size() + 1) / 2.0))) << "it goes on";
      optimizer.step();
    }
    Fails::fails = phase;
    Fails::strange = true;
    if (rank() == size() - 1) {
      EXPECT_THROW(backward(), int);
    } else {
      EXPECT_THAT(message_of<MismatchError>(backward),
                  HasSubstr("an exception that is not a std::exception"));
    }
    Fails::fails.clear();
    Fails::strange = false;
    backward();
    optimizer.step();
  }
}

// On one rank, in the step that is chosen, gives a tensor that cannot be sent.
struct GivesNothing : GradientCompressor {
  std::vector<at::Tensor> compress(const at::Tensor& gradient) override {
    return {now && rank() == size() - 1 ? at::Tensor() : gradient.clone()};
  }
  at::Tensor decompress(const std::vector<at::Tensor>& reduced) override { return reduced[0]; }
  inline static bool now = false;
};

// The rank reports that once. A second report would meet the next step.
TEST_F(CompressedGradients, ATensorThatCannotBeSentFailsOneStepAlone) {
  if (size() == 1) GTEST_SKIP() << "gradients of a rank alone are not compressed";
  const std::vector<at::Tensor> all = {torch::zeros({3}).requires_grad_(),
                                       torch::zeros({3}).requires_grad_()};
  DistributedSgd optimizer(all, torch::optim::SGDOptions(0.0), with(own<GivesNothing>()));
  const auto backward = [&] {
    optimizer.zero_grad();
    ((all[0] + all[1]).sum() * (rank() + 1)).backward();
  };
  for (int repeat = 0; repeat < 3; ++repeat) {
    GivesNothing::now = true;
    if (rank() == size() - 1) {
      EXPECT_THAT(message_of<InvalidArgumentError>(backward), HasSubstr("undefined"));
    } else {
      EXPECT_THAT(message_of<MismatchError>(backward), HasSubstr("undefined"));
    }
    GivesNothing::now = false;
    for (int good = 0; good < 3; ++good) {
      ASSERT_NO_THROW(backward());
      EXPECT_TRUE(all[1].grad().allclose(torch::full({3}, (size() + 1) / 2.0)));
      optimizer.step();
    }
  }
}

}  // namespace
}  // namespace kolo
