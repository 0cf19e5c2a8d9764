// A training that was saved and goes on in another process gives the bits of one that was not.
#include <random>

#include "checkpoint/trained.hpp"
#include "shared_folder.hpp"
#include "torch_ops/fixture.hpp"

namespace kolo::testing_support {
namespace {

using torch::optim::Adagrad;
using torch::optim::AdagradOptions;
using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::LBFGS;
using torch::optim::RMSprop;
using torch::optim::RMSpropOptions;
using torch::optim::SGD;
using torch::optim::SGDOptions;

struct Case {
  const char* name;
  MakeOptimizer make;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

class Resume : public WithKolo, public testing::WithParamInterface<Case> {};

void expect_same_bits(const std::vector<torch::Tensor>& left,
                      const std::vector<torch::Tensor>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i)
    EXPECT_TRUE(torch::equal(left[i], right[i])) << "tensor " << i << " on rank " << rank();
}

// Broken after a random number of steps, several times; what is in memory is lost each time.
TEST_P(Resume, GivesTheSameBits) {
  constexpr int kSteps = 40;
  Training unbroken(GetParam().make);
  unbroken.advance(kSteps);
  const auto expected = unbroken.bits();

  const SharedFolder folder;
  std::minstd_rand random(7);  // the same on all ranks
  int done = 0;
  for (int part = 0; done < kSteps; ++part) {
    Training training(GetParam().make, part == 0 ? 1 : 55 + static_cast<std::uint64_t>(part));
    Checkpoint checkpoint(folder.path(), CheckpointOptions().asynchronous(part % 2 == 0));
    training.add_to(checkpoint);
    const auto restored = checkpoint.restore();
    ASSERT_EQ(restored.has_value(), part > 0);
    if (restored) {
      EXPECT_EQ(restored->step, done);
    }
    ASSERT_EQ(training.step, done);
    const int steps = std::min(kSteps - done, 1 + static_cast<int>(random() % 15));
    training.advance(steps);
    done += steps;
    EXPECT_TRUE(checkpoint.save(done));
    training.advance(2);  // lost
    if (done < kSteps) continue;
    checkpoint.wait();
    Training last(GetParam().make, 99);
    Checkpoint again(folder.path());
    last.add_to(again);
    ASSERT_TRUE(again.restore());
    expect_same_bits(last.bits(), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, Resume,
    testing::Values(
        Case{"SGD", distributed<SGD>(SGDOptions(0.1))},
        Case{"SGDWithMomentum", distributed<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true))},
        Case{"Adam", distributed<Adam>(AdamOptions(0.01))},
        Case{"AdamWithAmsgrad", distributed<Adam>(AdamOptions(0.01).amsgrad(true))},
        Case{"AdamW", distributed<AdamW>(AdamWOptions(0.01))},
        Case{"RMSprop", distributed<RMSprop>(RMSpropOptions(0.01).momentum(0.5).centered(true))},
        Case{"Adagrad", distributed<Adagrad>(AdagradOptions(0.05).lr_decay(0.01))},
        Case{"Adadelta", distributed<optim::Adadelta>(optim::AdadeltaOptions(1.0))},
        Case{"Adamax", distributed<optim::Adamax>(optim::AdamaxOptions(0.01))},
        Case{"ASGD", distributed<optim::ASGD>(optim::ASGDOptions(0.05).t0(10))},
        Case{"FusedSGD", distributed<optim::FusedSGD>(SGDOptions(0.1).momentum(0.9))},
        Case{"FusedAdam", distributed<optim::FusedAdam>(AdamOptions(0.01).amsgrad(true))},
        Case{"FusedAdamW", distributed<optim::FusedAdamW>(AdamWOptions(0.01))},
        Case{"LAMB", distributed<optim::LAMB>(optim::LAMBOptions(0.01))},
        Case{"LARS", distributed<optim::LARS>(optim::LARSOptions(1.0).momentum(0.9))},
        Case{"NAdam", distributed<optim::NAdam>(optim::NAdamOptions(0.01))},
        Case{"RAdam", distributed<optim::RAdam>(optim::RAdamOptions(0.01))},
        Case{"Rprop", distributed<optim::Rprop>(optim::RpropOptions(0.01))}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace kolo::testing_support
