// A Trainer on several ranks does what one process does with the batches of all of them.
#include "torch_ops/fixture.hpp"
#include "trainer/trained_model.hpp"

namespace kolo {
namespace {

using testing_support::difference;
using testing_support::make_model;
using testing_support::make_samples;
using testing_support::quiet;

constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kEpochs = 3;

template <class Optimizer, class Options>
struct Case {
  using Base = Optimizer;
  using BaseOptions = Options;
};

template <class T>
class TrainerEquality : public testing_support::WithKolo {};

namespace o = torch::optim;
namespace k = kolo::optim;
using Optimizers =
    testing::Types<Case<o::SGD, o::SGDOptions>, Case<o::Adam, o::AdamOptions>,
                   Case<o::AdamW, o::AdamWOptions>, Case<o::Adagrad, o::AdagradOptions>,
                   Case<o::RMSprop, o::RMSpropOptions>, Case<k::FusedSGD, o::SGDOptions>,
                   Case<k::FusedAdam, o::AdamOptions>, Case<k::FusedAdamW, o::AdamWOptions>,
                   Case<k::Adadelta, k::AdadeltaOptions>, Case<k::Adamax, k::AdamaxOptions>,
                   Case<k::ASGD, k::ASGDOptions>, Case<k::LAMB, k::LAMBOptions>,
                   Case<k::LARS, k::LARSOptions>, Case<k::NAdam, k::NAdamOptions>,
                   Case<k::RAdam, k::RAdamOptions>, Case<k::Rprop, k::RpropOptions>>;

struct Names {
  template <class Case>
  static std::string GetName(int /*index*/) {
    const std::string name = c10::demangle(typeid(typename Case::Base).name());
    return name.substr(name.rfind(':') + 1);
  }
};
TYPED_TEST_SUITE(TrainerEquality, Optimizers, Names);

TYPED_TEST(TrainerEquality, RanksWithBatchesAreOneProcessWithTheWholeBatch) {
  // The last batch and the last step of an epoch are not full.
  const data::Dataset samples = make_samples(size() * (4 * kBatch + 2));
  for (const bool batch_norm : {false, true}) {
    for (const int accumulate : {1, 2}) {
      // Where BatchNorm's statistics are those of one pass, one process accumulates as well.
      const std::int64_t passes_alone = batch_norm ? accumulate : 1;
      const auto train = [&](const TrainerOptions& options) {
        const torch::nn::Sequential model = make_model(batch_norm);
        Trainer trainer(model, torch::nn::MSELoss(), options);
        trainer.optimizer<typename TypeParam::Base>(typename TypeParam::BaseOptions(1e-2));
        trainer.schedule(optim::StepLR(1, 0.5));
        const TrainingState state = trainer.train(samples, samples);
        EXPECT_EQ(state.epoch, kEpochs);
        EXPECT_EQ(state.step, kEpochs * (accumulate == 1 ? 5 : 3));
        return std::pair(model, state);
      };
      const auto [shared, shared_state] = train(quiet()
                                                    .epochs(kEpochs)
                                                    .batch_size(kBatch)
                                                    .accumulate(accumulate)
                                                    .sync_batchnorm(batch_norm));
      const auto [alone, alone_state] =
          train(quiet()
                    .epochs(kEpochs)
                    .batch_size(size() * kBatch * accumulate / passes_alone)
                    .accumulate(passes_alone)
                    .distributed(false));
      EXPECT_LT(difference(*shared, *alone), 1e-10) << batch_norm << " " << accumulate;
      EXPECT_GT(difference(*shared, *make_model(batch_norm)), 1e-5) << "nothing was learned";
      for (const char* metric : {"loss", "valid_loss", "learning_rate"}) {
        EXPECT_NEAR(shared_state.metric(metric), alone_state.metric(metric), 1e-10)
            << metric << " " << batch_norm << " " << accumulate;
      }
    }
  }
}

}  // namespace
}  // namespace kolo
