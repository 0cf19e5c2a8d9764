// Compression and gradient_predivide_factor, by gradients that do not survive every dtype.
#include <limits>

#include "fixture.hpp"

namespace kolo {
namespace {

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

}  // namespace
}  // namespace kolo
