// Checkpoints of a Trainer, and trainings that go on from them.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "trainer/trainer_fixture.hpp"

namespace kolo {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::at_step;
using testing_support::difference;
using testing_support::make_model;
using testing_support::make_samples;
using testing_support::message_of;
using testing_support::quiet;
using testing_support::Trained;
using testing_support::TrainerTest;

// Options that a resumed training is tested with.
struct Variant {
  const char* name;
  bool batch_norm = false;
  int workers = 0;
  at::ScalarType precision = at::kFloat;
  bool plateau = false;  // lowers the learning rate, instead of a schedule
  ReduceOp op = ReduceOp::Average;
};

// A training of 4 epochs with all the state that a checkpoint must keep.
struct Resumable {
  explicit Resumable(const std::string& folder, const Variant& variant)
      : model(make_model(variant.batch_norm, 0.3)),
        trainer((model->to(dtype(variant)), model), torch::nn::MSELoss(),
                quiet()
                    .epochs(4)
                    .batch_size(2)
                    .accumulate(2)
                    .sync_batchnorm(variant.batch_norm)
                    .workers(variant.workers)
                    .precision(variant.precision)) {
    trainer.optimizer<torch::optim::Adam>(torch::optim::AdamOptions(0.01),
                                          DistributedOptimizerOptions().op(variant.op));
    if (variant.plateau) {
      // No epoch is so much better, so the rate changes after the third.
      trainer.callback<ReduceLROnPlateau>("loss",
                                          ReduceLROnPlateauOptions().patience(1).threshold(0.99));
    } else {
      trainer.schedule(optim::CosineAnnealingLR(40), Interval::Step);
    }
    trainer.callback<Checkpoints>(folder);
    trainer.callback<CsvLog>(folder + "/metrics.csv");
  }
  static at::ScalarType dtype(const Variant& variant) {
    return variant.precision == at::kFloat ? at::kDouble : at::kFloat;
  }
  torch::nn::Sequential model;
  Trainer trainer;
};

class ResumedTraining : public TrainerTest, public testing::WithParamInterface<Variant> {};
INSTANTIATE_TEST_SUITE_P(
    , ResumedTraining,
    testing::Values(Variant{"Plain"}, Variant{"SyncBatchNorm", true}, Variant{"Workers", false, 2},
                    Variant{"Float16", false, 0, at::kHalf},
                    Variant{"Plateau", false, 0, at::kFloat, true},
                    // Each rank has its own moments.
                    Variant{"Adasum", false, 0, at::kFloat, false, ReduceOp::Adasum}),
    [](const auto& one) { return one.param.name; });

TEST_P(ResumedTraining, HasTheSameBits) {
  const Variant& variant = GetParam();
  const data::Dataset doubles = make_samples(14 * size());  // 4 steps an epoch, of 4, 4, 4, 2
  const data::Dataset samples(doubles.size(), [&](std::size_t index) -> data::Batch {
    const data::Batch one = doubles.get_batch({index});
    return {one.data[0].to(Resumable::dtype(variant)), one.target[0].to(Resumable::dtype(variant))};
  });
  Resumable unbroken(folder_ + "/unbroken", variant);
  const TrainingState whole = unbroken.trainer.train(samples);
  EXPECT_EQ(whole.step, 16);
  EXPECT_EQ(whole.stop_reason, "");
  EXPECT_TRUE(whole.is_over);
  EXPECT_LT(whole.learning_rate, 0.01);
  const std::vector<std::string> rows = lines_of("unbroken/metrics.csv");
  const std::string broken = folder_ + "/broken";
  // Amid an epoch, at the end of one, and right before the end of one.
  for (const std::int64_t stop : {2, 4, 7}) {
    Resumable first(broken, variant);
    first.trainer.callback(at_step(stop, [&](Trainer& trainer) {
      if (rank() == size() - 1) trainer.stop("enough");  // one rank alone
    }));
    const TrainingState& stopped = first.trainer.train(samples);
    EXPECT_GE(stopped.step, stop);
    EXPECT_LE(stopped.step, stop + 1);
    EXPECT_FALSE(stopped.is_over);
    EXPECT_EQ(stopped.stop_reason, rank() == size() - 1 ? "enough" : "another rank asked to stop");
  }
  Resumable last(broken, variant);
  const TrainingState& state = last.trainer.train(samples);
  EXPECT_EQ(state.step, 16);
  EXPECT_EQ(difference(*unbroken.model, *last.model), 0);
  EXPECT_EQ(state.metric("loss"), whole.metric("loss"));
  EXPECT_EQ(state.learning_rate, whole.learning_rate);
  barrier();
  const std::vector<std::string> own_rows = lines_of("broken/metrics.csv");
  ASSERT_EQ(own_rows.size(), rows.size()) << "no epoch twice, none left out";
  const auto values = [](const std::string& row) { return row.substr(0, row.find(",", 12)); };
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(values(own_rows[i]), values(rows[i]));
  // Nothing is left to do.
  Resumable again(broken, variant);
  const TrainingState& over = again.trainer.train(samples);
  EXPECT_EQ(over.step, 16);
  EXPECT_EQ(over.epoch, 4);
  EXPECT_TRUE(over.is_over);
  EXPECT_EQ(over.metric("loss"), whole.metric("loss"));
  EXPECT_EQ(difference(*unbroken.model, *again.model), 0);
}

TEST_F(TrainerTest, AnEpochDoesNotGoOnWithOtherSamples) {
  const auto run = [&](std::int64_t count, bool stops) {
    Trained trained(quiet().batch_size(2));
    trained.trainer.callback<Checkpoints>(folder_);
    if (stops) trained.trainer.callback(at_step(1, [](Trainer& trainer) { trainer.stop(""); }));
    return trained.trainer.train(make_samples(count)).step;
  };
  EXPECT_EQ(run(8 * size(), true), 2);
  EXPECT_THAT(message_of<MismatchError>([&] { run(10 * size(), false); }),
              AllOf(HasSubstr(std::to_string(8 * size()) + " samples, seed 5, shuffled"),
                    HasSubstr("this training has " + std::to_string(10 * size()) + " samples")));
  EXPECT_EQ(run(8 * size(), false), 4);
}

struct CountsSteps : Callback {
  explicit CountsSteps(std::int64_t& its_count) : count(its_count) {}
  void step_end(Trainer& /*trainer*/) override { ++count; }
  std::int64_t& count;
};

// The second Trainer lies where the first one did.
TEST_F(TrainerTest, ACheckpointsObjectServesOneTrainerAfterAnother) {
  const auto checkpoints = std::make_shared<Checkpoints>(folder_);
  std::optional<Trained> trained;
  double loss = 0;
  std::vector<std::int64_t> steps;  // of each Trainer's own
  for (const std::int64_t epochs : {1, 2, 2}) {
    trained.emplace(quiet().epochs(epochs).batch_size(4));
    trained->trainer.callback(checkpoints);
    trained->trainer.callback(std::make_shared<CountsSteps>(steps.emplace_back()));
    const TrainingState& state = trained->trainer.train(make_samples(8 * size()));
    EXPECT_EQ(state.step, 2 * epochs);
    loss = state.metric("loss");
  }
  EXPECT_THAT(steps, ElementsAre(2, 2, 0));
  // A second train() goes on with what the program has made of the model since.
  trained->model->parameters()[0].detach().fill_(0.125);
  trained->trainer.train(make_samples(8 * size()));
  EXPECT_TRUE(trained->model->parameters()[0].eq(0.125).all().item<bool>());
  Trained unbroken(quiet().epochs(2).batch_size(4));
  unbroken.trainer.train(make_samples(8 * size()));
  EXPECT_EQ(unbroken.trainer.state().metric("loss"), loss);
}

TEST_F(TrainerTest, ASkippedCheckpointIsMadeUpFor) {
  const auto run = [&] {
    Trained trained(quiet().epochs(3).batch_size(2));
    trained.trainer.callback<Checkpoints>(
        folder_,
        CheckpointsOptions().every_steps(1).files(CheckpointOptions().busy(CheckpointBusy::Skip)));
    return trained.trainer.train(make_samples(8 * size())).step;
  };
  EXPECT_EQ(run(), 12);
  Trained trained(quiet().epochs(3).batch_size(2));
  trained.trainer.callback<Checkpoints>(folder_);
  EXPECT_EQ(trained.trainer.train(make_samples(8 * size())).step, 12) << "the last one was saved";
}

TEST_F(TrainerTest, CheckpointsAreWrittenEverySoManySteps) {
  Trained trained(quiet().epochs(2).batch_size(2));
  trained.trainer.callback<Checkpoints>(
      folder_,
      CheckpointsOptions().every_epochs(0).every_steps(3).files(CheckpointOptions().keep_last(9)));
  trained.trainer.train(make_samples(8 * size()));  // 8 steps
  if (rank() != 0) return;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    files.push_back(entry.path().filename().string());
  std::sort(files.begin(), files.end());
  EXPECT_THAT(files, ElementsAre(HasSubstr("0003."), HasSubstr("0006."), HasSubstr("0008.")))
      << "the last one because the training has ended";
}

TEST_F(TrainerTest, WhatHasFinishedEarlyIsOver) {
  for (int run = 0; run < 2; ++run) {
    Trained trained(quiet().epochs(9).batch_size(4));
    trained.trainer.callback<Checkpoints>(folder_);
    trained.trainer.callback<EarlyStopping>("learning_rate", 2);
    const TrainingState& state = trained.trainer.train(make_samples(8 * size()));
    EXPECT_EQ(state.epoch, 3) << run;
    EXPECT_TRUE(state.is_over) << run;
  }
}

// Trains, and returns what was printed.
std::string console_of(Trainer& trainer, const data::Dataset& samples) {
  testing::internal::CaptureStdout();
  trainer.train(samples);
  return testing::internal::GetCapturedStdout();
}

TEST_F(TrainerTest, TheConsoleSaysThatNothingIsLeftToTrain) {
  const data::Dataset samples = make_samples(8 * size());
  const std::string nothing =
      rank() == 0 ? "nothing is left to train: the training has ended after step 4\n" : "";
  Trained trained(quiet().verbose(true).epochs(2).batch_size(4));
  trained.trainer.callback<Checkpoints>(folder_);
  const std::string text = console_of(trained.trainer, samples);
  EXPECT_EQ(text.find("epoch 2/2: loss ") != std::string::npos, rank() == 0) << text;
  EXPECT_THAT(text, Not(HasSubstr("nothing is left")));
  EXPECT_EQ(console_of(trained.trainer, samples), nothing) << "train() is called again";
  Trained again(quiet().verbose(true).epochs(2).batch_size(4));
  again.trainer.callback<Checkpoints>(folder_);
  EXPECT_EQ(console_of(again.trainer, samples), nothing) << "the checkpoint is complete";
}

TEST_F(TrainerTest, AFolderOfCheckpointsIsNotMixedWithAnotherTraining) {
  const auto options = CheckpointsOptions().resume(false);
  Trained first(quiet());
  first.trainer.callback<Checkpoints>(folder_, options);
  first.trainer.train(make_samples(8));
  Trained second(quiet());
  second.trainer.callback<Checkpoints>(folder_, options);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { second.trainer.train(make_samples(8)); }),
              HasSubstr("resume(true)"));
}

TEST_F(TrainerTest, AFolderThatWasRefusedIsRefusedAgain) {
  Trained first(quiet());
  first.trainer.callback<Checkpoints>(folder_);
  first.trainer.train(make_samples(8));
  Trained second(quiet().epochs(2));
  second.trainer.callback(at_step(1, [](Trainer& trainer) { trainer.stop(""); }));
  second.trainer.train(make_samples(8));
  second.trainer.callback<Checkpoints>(folder_, CheckpointsOptions().resume(false));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { second.trainer.train(make_samples(8)); }),
                HasSubstr("resume(true)"));
  }
}

// With the same object, and the same number of steps.
TEST_F(TrainerTest, AnotherTrainingInAnEmptyFolderIsSaved) {
  const auto checkpoints =
      std::make_shared<Checkpoints>(folder_, CheckpointsOptions().resume(false).every_epochs(0));
  for (int run = 0; run < 2; ++run) {
    Trained trained(quiet());
    trained.trainer.callback(checkpoints);
    trained.trainer.train(make_samples(8));
    on_rank_zero([&] {
      EXPECT_FALSE(std::filesystem::is_empty(folder_));
      for (const auto& entry : std::filesystem::directory_iterator(folder_))
        std::filesystem::remove_all(entry.path());
    });
  }
}

TEST_F(TrainerTest, TheBestCheckpointsStay) {
  Trained trained(quiet().epochs(4).batch_size(4));
  trained.trainer.schedule(
      optim::LambdaLR([](std::int64_t epoch) { return epoch == 1 ? 0.1 : 1.0; }));
  trained.trainer.callback<Checkpoints>(folder_,
                                        CheckpointsOptions()
                                            .metric("learning_rate")
                                            .files(CheckpointOptions().keep_last(1).keep_best(1)));
  trained.trainer.train(make_samples(8 * size()));
  if (rank() != 0) return;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    files.push_back(entry.path().filename().string());
  std::sort(files.begin(), files.end());
  EXPECT_THAT(files, ElementsAre(HasSubstr("00004."), HasSubstr("00008.")))
      << "the second epoch's, which is the best, and the last one";
}

}  // namespace
}  // namespace kolo
