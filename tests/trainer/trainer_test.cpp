// The Trainer: metrics, files, stopping, errors.
#include "kolo/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "torch_ops/fixture.hpp"
#include "trainer/epoch_means.hpp"
#include "trainer/trainer_fixture.hpp"
#include "trainer/training_reference.hpp"

namespace kolo {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::at_step;
using testing_support::difference;
using testing_support::kFeatures;
using testing_support::make_model;
using testing_support::make_samples;
using testing_support::message_of;
using testing_support::quiet;
using testing_support::Trained;
using testing_support::TrainerTest;

torch::Tensor absolute_error(const torch::Tensor& output, const torch::Tensor& target) {
  return (output - target).abs().mean();
}

TEST_F(TrainerTest, MetricsAreMeansOverTheSamplesOfAllRanks) {
  Trained trained(quiet().epochs(1).batch_size(2).valid_batch_size(3));
  trained.trainer.metric("error", absolute_error);
  // Ranks evaluate 3 or 4 samples each, in batches of 3.
  const auto count = static_cast<std::size_t>(3 * size() + 1);
  const data::Dataset valid = make_samples(static_cast<std::int64_t>(count));
  const TrainingState& state = trained.trainer.train(make_samples(8 * size()), valid);
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  const data::Batch batch = valid.get_batch(all);
  const torch::NoGradGuard no_grad;
  const torch::Tensor output = trained.model->forward(batch.data);
  EXPECT_NEAR(state.metric("valid_loss"), torch::mse_loss(output, batch.target).item<double>(),
              1e-12);
  EXPECT_NEAR(state.metric("valid_error"), absolute_error(output, batch.target).item<double>(),
              1e-12);
  EXPECT_GT(state.metric("samples_per_second"), 0);
  EXPECT_GT(state.metric("memory_mib"), 10);
  EXPECT_EQ(trained.trainer.evaluate(valid).front().second, state.metric("valid_loss"));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { state.metric("accuracy"); }),
              HasSubstr("loss, error, valid_loss, valid_error, learning_rate"));
}

TEST_F(TrainerTest, EachEpochHasMetricsOfItsOwn) {
  struct Losses : Callback {
    void epoch_end(Trainer& trainer) override {
      seen.push_back(trainer.state().metric("loss"));
      means.push_back(trainer.evaluate(samples).front().second);
    }
    data::Dataset samples = make_samples(4 * size());
    std::vector<double> seen;
    std::vector<double> means;
  };
  // The rate is 0 after the first step: the epochs from then on have the loss that the model has
  // after it.
  const auto losses = std::make_shared<Losses>();
  const torch::nn::Sequential model = make_model();
  Trainer trainer(model, torch::nn::MSELoss(), quiet().epochs(3).batch_size(4));
  trainer.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
  trainer.schedule(optim::LambdaLR([](std::int64_t epoch) { return epoch == 0 ? 1.0 : 0.0; }));
  trainer.callback(losses);
  trainer.train(losses->samples);
  ASSERT_EQ(losses->seen.size(), 3U);
  EXPECT_GT(losses->seen[0], losses->seen[1]) << "a step was made between them";
  EXPECT_NEAR(losses->seen[1], losses->means[0], 1e-12);
  EXPECT_NEAR(losses->seen[2], losses->means[0], 1e-12);
}

TEST_F(TrainerTest, ValidationUsesTheBuffersOfRankZero) {
  torch::nn::Sequential model = make_model(/*batch_norm=*/true);
  Trained trained(quiet().batch_size(4), model);
  const data::Dataset valid = make_samples(6);
  const double loss = trained.trainer.train(make_samples(8 * size()), valid).metric("valid_loss");
  broadcast_parameters(model->named_buffers());
  model->eval();
  const torch::NoGradGuard no_grad;
  const data::Batch batch = valid.get_batch({0, 1, 2, 3, 4, 5});
  const torch::Tensor output = model->forward(batch.data);
  EXPECT_NEAR(loss, torch::mse_loss(output, batch.target).item<double>(), 1e-12);
}

TEST_F(TrainerTest, TheModuleTrainsInTrainingModeAndIsEvaluatedInEvaluationMode) {
  struct WithModes : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& input) {
      modes.insert({is_training(), torch::GradMode::is_enabled()});
      return weight * input.sum(1, true);
    }
    torch::Tensor weight = register_parameter("weight", torch::ones({1}, torch::kDouble));
    std::set<std::pair<bool, bool>> modes;
  };
  const auto model = std::make_shared<WithModes>();
  Trainer trainer(model, torch::nn::MSELoss(), quiet());
  trainer.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.01));
  trainer.train(make_samples(4));
  EXPECT_THAT(model->modes, ElementsAre(std::pair(true, true)));
  model->modes.clear();
  trainer.evaluate(make_samples(4));
  EXPECT_THAT(model->modes, ElementsAre(std::pair(false, false)));
  EXPECT_TRUE(model->is_training());
  // A module that the program has frozen stays as it is.
  torch::nn::Sequential frozen = make_model(true);
  frozen[1]->eval();
  Trained trained(quiet(), frozen);
  trained.trainer.train(make_samples(8), make_samples(4));
  EXPECT_FALSE(frozen[1]->is_training());
  EXPECT_TRUE(frozen[0]->is_training());
  EXPECT_TRUE(frozen->is_training());
}

TEST_F(TrainerTest, WorkersChangeNothing) {
  const data::Dataset samples = make_samples(11 * size());
  Trained plain(quiet().epochs(2).batch_size(2));
  plain.trainer.train(samples, samples);
  Trained with_workers(quiet().epochs(2).batch_size(2).workers(3));
  with_workers.trainer.train(samples, samples);
  EXPECT_EQ(difference(*plain.model, *with_workers.model), 0);
}

TEST(TrainerAlone, OneProcessDoesNotStartKolo) {
  Trained trained(quiet().epochs(2).distributed(false));
  EXPECT_EQ(trained.trainer.train(make_samples(64), make_samples(9)).step, 4);
  EXPECT_TRUE(trained.trainer.is_root());
  EXPECT_FALSE(is_initialized());
}

TEST_F(TrainerTest, RanksThatTrainByThemselves) {
  Trained trained(quiet().distributed(false));
  EXPECT_EQ(trained.trainer.train(make_samples(64)).step, 2) << "all samples are its own";
  if (size() == 1) return;
  trained.trainer.callback<Checkpoints>(folder_);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { trained.trainer.train(make_samples(64)); }),
              HasSubstr("distributed(true)"));
  EXPECT_THROW(Trained(quiet().distributed(false).precision(at::kHalf)), InvalidArgumentError);
}

TEST_F(TrainerTest, ADatasetFactoryIsCalledOnceInEachRank) {
  int calls = 0;
  Trained trained(quiet().epochs(3));
  trained.trainer.train([&] {
    ++calls;
    return Datasets{make_samples(8), {}};
  });
  EXPECT_EQ(calls, 1);
}

TEST_F(TrainerTest, DropLastLeavesOutBatchesThatAreNotFull) {
  Trained trained(quiet().epochs(2).batch_size(4).drop_last(true));
  EXPECT_EQ(trained.trainer.train(make_samples(11 * size())).step, 4);
  Trained none(quiet().batch_size(12).drop_last(true));
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { none.trainer.train(make_samples(11 * size())); }),
      HasSubstr("drop_last"));
}

TEST_F(TrainerTest, ClippingBoundsTheStep) {
  Trained trained(quiet().batch_size(4).clip_grad_norm(1e-3));
  const torch::nn::Sequential before = make_model();
  trained.trainer.train(make_samples(4 * size()));
  double squares = 0;
  for (std::size_t i = 0; i < before->parameters().size(); ++i) {
    const torch::Tensor change = before->parameters()[i] - trained.model->parameters()[i];
    squares += change.pow(2).sum().item<double>();
  }
  EXPECT_NEAR(std::sqrt(squares), 0.05 * 1e-3, 1e-8);
}

TEST_F(TrainerTest, LowerPrecision) {
  for (const at::ScalarType precision : {at::kBFloat16, at::kHalf}) {
    torch::nn::Sequential model = make_model();
    model->to(torch::kFloat);
    Trained trained(quiet().epochs(8).batch_size(8).precision(precision), model);
    const data::Dataset samples = make_samples(64 * size());
    const data::Dataset floats(samples.size(), [&](std::size_t i) {
      const data::Batch one = samples.get_batch({i});
      return data::Batch(one.data[0].to(torch::kFloat), one.target[0].to(torch::kFloat));
    });
    const double before = trained.trainer.evaluate(floats).front().second;
    EXPECT_LT(trained.trainer.train(floats).metric("loss"), 0.8 * before) << precision;
    check_in_sync(trained.model);
  }
}

// --- callbacks ---

TEST_F(TrainerTest, CallbacksAreCalledAtEachPoint) {
  struct Notes : Callback {
    void train_begin(Trainer&) override { text += "train "; }
    void epoch_begin(Trainer&) override { text += "epoch "; }
    void backward_begin(Trainer& trainer, const torch::Tensor& loss) override {
      const bool has_graph = loss.requires_grad() && loss.numel() == 1;
      text += has_graph && trainer.state().step == steps ? "backward( " : "wrong ";
    }
    void backward_end(Trainer&) override { text += ") "; }
    void gradients_ready(Trainer& trainer) override {
      text += trainer.state().step == steps ? "gradients " : "wrong ";
    }
    void step_end(Trainer& trainer) override {
      text += trainer.state().step == ++steps ? "step " : "wrong ";
    }
    void epoch_end(Trainer&) override { text += "end-of-epoch "; }
    void train_end(Trainer&) override { text += "end"; }
    std::string text;
    std::int64_t steps = 0;
  };
  const auto notes = std::make_shared<Notes>();
  Trained trained(quiet().batch_size(2).accumulate(2));
  trained.trainer.callback(notes);
  trained.trainer.train(make_samples(6 * size()));
  EXPECT_EQ(notes->text,
            "train epoch backward( ) backward( ) gradients step backward( ) gradients step "
            "end-of-epoch end");
}

// One that clips as the option does, written as a program would.
TEST_F(TrainerTest, ACallbackMayChangeGradients) {
  struct Clip : Callback {
    void gradients_ready(Trainer& trainer) override {
      double squares = 0;
      for (const torch::Tensor& parameter : trainer.module().parameters())
        squares += parameter.grad().pow(2).sum().item<double>();
      norms.push_back(std::sqrt(squares));
      for (const torch::Tensor& parameter : trainer.module().parameters())
        parameter.mutable_grad().mul_(std::min(1.0, 0.1 / (norms.back() + 1e-6)));
    }
    std::vector<double> norms;
  };
  const auto clip = std::make_shared<Clip>();
  const data::Dataset samples = make_samples(16 * size());
  Trained by_option(quiet().epochs(3).batch_size(4).clip_grad_norm(0.1));
  by_option.trainer.train(samples);
  Trained by_callback(quiet().epochs(3).batch_size(4));
  by_callback.trainer.callback(clip);
  by_callback.trainer.train(samples);
  Trained unclipped(quiet().epochs(3).batch_size(4));
  unclipped.trainer.train(samples);
  EXPECT_LT(difference(*by_option.model, *by_callback.model), 1e-12);
  EXPECT_GT(difference(*by_option.model, *unclipped.model), 1e-3);
  EXPECT_NO_THROW(check_in_sync("the norms", torch::tensor(clip->norms, torch::kDouble)))
      << "the gradients are the reduced ones";
}

// With at::kHalf the loss is scaled by 65536, and the gradients that a callback sees are not.
TEST_F(TrainerTest, ACallbackSeesGradientsThatAreNotScaled) {
  struct Largest : Callback {
    void gradients_ready(Trainer& trainer) override {
      for (const torch::Tensor& parameter : trainer.module().parameters())
        largest = std::max(largest, parameter.grad().abs().max().item<double>());
    }
    double largest = 0;
  };
  const auto largest = std::make_shared<Largest>();
  torch::nn::Sequential model = make_model();
  model->to(torch::kFloat);
  Trained trained(quiet().batch_size(4).precision(at::kHalf), model);
  trained.trainer.callback(largest);
  trained.trainer.train({torch::full({4 * size(), kFeatures}, 0.1), torch::zeros({4 * size(), 1})});
  EXPECT_GT(largest->largest, 0);
  EXPECT_LT(largest->largest, 10);
}

// --- files ---

TEST_F(TrainerTest, RankZeroWritesTheMetrics) {
  const std::string own = folder_ + "/logs";
  Trained trained(quiet().epochs(2).batch_size(4).log_directory(own));
  const TrainingState& state = trained.trainer.train(make_samples(8 * size()));
  barrier();
  const std::vector<std::string> csv = lines_of("logs/metrics.csv");
  ASSERT_EQ(csv.size(), 3U);
  EXPECT_EQ(csv[0], "epoch,step,loss,learning_rate,samples_per_second,seconds,memory_mib");
  std::istringstream row(csv[2]);
  char comma = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double loss = 0;
  row >> epoch >> comma >> step >> comma >> loss;
  EXPECT_EQ(epoch, 2);
  EXPECT_EQ(step, 4);
  EXPECT_EQ(loss, state.metric("loss"));
  const std::vector<std::string> json = lines_of("logs/metrics.jsonl");
  ASSERT_EQ(json.size(), 2U);
  EXPECT_THAT(json[0], AllOf(HasSubstr(R"({"epoch": 1, "step": 2, "loss": )"), HasSubstr("}")));
  int event_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(own))
    event_files += entry.path().filename().string().rfind("events.out.tfevents", 0) == 0 ? 1 : 0;
  EXPECT_EQ(event_files, 1) << "rank 0's";
}

// --- stopping ---

TEST_F(TrainerTest, EarlyStoppingWaitsForItsPatience) {
  const auto epochs_with = [](Better better) {
    Trained trained(quiet().epochs(9).batch_size(4));
    trained.trainer.callback<EarlyStopping>("learning_rate", 3, better);
    trained.trainer.schedule(optim::ExponentialLR(0.5));
    return trained.trainer.train(make_samples(8 * size())).epoch;
  };
  EXPECT_EQ(epochs_with(Better::Lower), 9) << "better each time";
  EXPECT_EQ(epochs_with(Better::Higher), 4) << "the first, and three that are not better";
}

TEST_F(TrainerTest, TheTimeIsLimited) {
  Trained trained(quiet().epochs(1'000'000));
  trained.trainer.callback<TimeLimit>(std::chrono::milliseconds(200));
  const TrainingState& state = trained.trainer.train(make_samples(8 * size()));
  EXPECT_GE(state.step, 1);
  EXPECT_FALSE(state.is_over);
  EXPECT_THAT(state.stop_reason, testing::AnyOf(HasSubstr("time limit"), HasSubstr("another")));
}

// Keeps the learning rate after each epoch.
struct Rates : Callback {
  void epoch_end(Trainer& trainer) override {
    rates.push_back(trainer.optimizer().param_groups()[0].options().get_lr());
  }
  std::vector<double> rates;
};

TEST_F(TrainerTest, APlateauLowersTheLearningRateAsInPython) {
  for (const test::TrainingReference& reference : test::plateau_references()) {
    ReduceLROnPlateauOptions options;
    double times = 1;  // of the metric
    for (const auto& [name, value] : reference.options) {
      SCOPED_TRACE(name + " " + std::to_string(value));
      if (name == "patience") options.patience(static_cast<int>(value));
      if (name == "factor") options.factor(value);
      if (name == "min_lr") options.min_lr(value);
      if (name == "cooldown") options.cooldown(static_cast<int>(value));
      if (name == "threshold") options.threshold(value);
      if (name == "threshold_is_relative") options.threshold_is_relative(value != 0);
      if (name == "eps") options.eps(value);
      if (name == "higher_is_better") options.better(Better::Higher);
      if (name == "times") times = value;
    }
    const auto epochs = static_cast<std::int64_t>(test::kPlateauMetric.size());
    torch::nn::Sequential model = make_model();
    Trainer trainer(model, torch::nn::MSELoss(), quiet().epochs(epochs).batch_size(4));
    trainer.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(test::kPlateauRate));
    trainer.metric("given", [&](const torch::Tensor&, const torch::Tensor&) {
      const auto epoch = static_cast<std::size_t>(trainer.state().epoch - 1);
      return torch::tensor(times * test::kPlateauMetric[epoch], torch::kDouble);
    });
    trainer.callback<ReduceLROnPlateau>("given", options);
    const auto rates = std::make_shared<Rates>();
    trainer.callback(rates);
    trainer.train(make_samples(4 * size()));
    ASSERT_EQ(rates->rates.size(), reference.values.size());
    for (std::size_t i = 0; i < rates->rates.size(); ++i) {
      EXPECT_EQ(rates->rates[i], reference.values[i])
          << "epoch " << i + 1 << " of case " << testing::PrintToString(reference.options);
    }
  }
}

// A callback may base its decisions on any of them.
TEST_F(TrainerTest, MetricsAreTheSameOnAllRanks) {
  Trained trained(quiet());
  trained.trainer.train(make_samples(8 * size()), make_samples(4 * size()));
  std::vector<double> values;
  for (const auto& [name, value] : trained.trainer.state().metrics) values.push_back(value);
  EXPECT_NO_THROW(check_in_sync("metrics", torch::tensor(values, torch::kDouble)));
}

// --- errors ---

// Trains until the last rank's model computes what is not finite.
std::string message_of_bad_loss(bool batch_norm, double weight) {
  const torch::nn::Sequential model = make_model(batch_norm);
  Trainer trainer(model, torch::nn::MSELoss(),
                  quiet().epochs(2).batch_size(2).name_nonfinite(true).sync_batchnorm(batch_norm));
  trainer.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.01));
  trainer.callback(at_step(3, [&](Trainer&) {
    const torch::NoGradGuard no_grad;
    if (rank() == size() - 1) model->named_parameters()["last.weight"].fill_(weight);
  }));
  const std::string message = message_of<Error>([&] { trainer.train(make_samples(8 * size())); });
  EXPECT_EQ(trainer.state().step, 3) << "the step was not made";
  return message;
}

TEST_F(TrainerTest, ABadLossNamesStepRankAndModule) {
  for (const bool batch_norm : {false, true}) {
    // A finite weight makes an infinite output, or a loss that is.
    EXPECT_THAT(
        message_of_bad_loss(batch_norm, 1e308),
        AllOf(
            HasSubstr("is inf on rank " + std::to_string(size() - 1) + " in step 4, epoch 1"),
            testing::AnyOf(HasSubstr("infinite is that of aten::addmm in module \"last\""),
                           HasSubstr("infinite is that of aten::mse_loss after module \"last\""))));
    const std::string message =
        message_of_bad_loss(batch_norm, std::numeric_limits<double>::infinity());
    EXPECT_THAT(message,
                HasSubstr("on rank " + std::to_string(size() - 1) + " in step 4, epoch 1"));
    EXPECT_THAT(message, testing::AnyOf(HasSubstr("parameter \"last.weight\" is infinite"),
                                        HasSubstr("NaN is that of aten::")));
  }
}

TEST_F(TrainerTest, LossesThatAreFetchedLateAreFoundToo) {
  trainer::EpochMeans means(1, at::kCPU, 4);
  const auto add = [&](double loss, std::int64_t step) {
    means.add({torch::full({}, loss, torch::kDouble)}, 2, step);
  };
  add(1, 1);
  add(std::nan(""), 2);
  add(std::numeric_limits<double>::infinity(), 3);
  EXPECT_FALSE(means.bad_loss().has_value()) << "not fetched";
  means.fetch();
  ASSERT_TRUE(means.bad_loss().has_value());
  EXPECT_TRUE(std::isnan(means.bad_loss()->value));
  EXPECT_EQ(means.bad_loss()->step, 2) << "the first one";
}

TEST_F(TrainerTest, ALossThatWasNotFiniteDoesNotEndTheNextTraining) {
  Trained trained(quiet().batch_size(4));
  const auto is_bad = std::make_shared<bool>(true);
  const data::Dataset good = make_samples(8 * size());
  const data::Dataset samples(good.size(), [&](std::size_t index) -> data::Batch {
    data::Batch one = good.get_batch({index});
    if (*is_bad) one.target = one.target * std::nan("");
    return {one.data[0], one.target[0]};
  });
  EXPECT_THAT(message_of<Error>([&] { trained.trainer.train(samples); }), HasSubstr("is nan"));
  *is_bad = false;
  const TrainingState& state = trained.trainer.train(samples);
  EXPECT_EQ(state.step, 2);
  EXPECT_TRUE(std::isfinite(state.metric("loss")));
}

TEST_F(TrainerTest, ClippingCountsWhatTheOptimizerHas) {
  torch::nn::Sequential model = make_model();
  Trainer trainer(model, torch::nn::MSELoss(), quiet().batch_size(4).clip_grad_norm(1e-3));
  const std::vector<torch::Tensor> last = model[model->size() - 1]->parameters();
  trainer.optimizer<torch::optim::SGD>({torch::optim::OptimizerParamGroup(last)},
                                       torch::optim::SGDOptions(0.05));
  const torch::nn::Sequential before = make_model();
  trainer.train(make_samples(4 * size()));
  double squares = 0;
  for (std::size_t i = 0; i < before->parameters().size(); ++i) {
    const torch::Tensor change = before->parameters()[i] - model->parameters()[i];
    squares += change.pow(2).sum().item<double>();
  }
  EXPECT_NEAR(std::sqrt(squares), 0.05 * 1e-3, 1e-8) << "the others' gradients are not in the norm";
}

TEST_F(TrainerTest, WhatIsWrongInOptionsIsNamed) {
  const auto message = [](const TrainerOptions& options) {
    return message_of<InvalidArgumentError>([&] { const Trained trained(options); });
  };
  EXPECT_THAT(message(quiet().epochs(-1)), HasSubstr("epochs is -1"));
  EXPECT_THAT(message(quiet().batch_size(0)), HasSubstr("batch_size is 0; it must be at least 1"));
  EXPECT_THAT(message(quiet().accumulate(0)), HasSubstr("accumulate"));
  EXPECT_THAT(message(quiet().workers(-1)), HasSubstr("workers"));
  EXPECT_THAT(message(quiet().valid_batch_size(-1)), HasSubstr("valid_batch_size"));
  EXPECT_THAT(message(quiet().clip_grad_norm(std::nan(""))), HasSubstr("clip_grad_norm"));
  EXPECT_THAT(message(quiet().precision(at::kLong)), HasSubstr("precision is Long"));
  EXPECT_THAT(message(quiet().device("gpu")), HasSubstr("device is \"gpu\""));
  EXPECT_THAT(message(quiet().device("meta")), HasSubstr("device is \"meta\""));
  EXPECT_THAT(message(quiet().device("cuda:99")),
              HasSubstr("device is \"cuda:99\"; it must be one"));
  const auto plateau = [](const ReduceLROnPlateauOptions& options) {
    return message_of<InvalidArgumentError>([&] { ReduceLROnPlateau("loss", options); });
  };
  const ReduceLROnPlateauOptions good;
  EXPECT_THAT(plateau(ReduceLROnPlateauOptions(good).factor(1)), HasSubstr("factor is 1"));
  EXPECT_THAT(plateau(ReduceLROnPlateauOptions(good).patience(-1)), HasSubstr("patience is -1"));
  EXPECT_THAT(plateau(ReduceLROnPlateauOptions(good).cooldown(-1)), HasSubstr("cooldown"));
  EXPECT_THAT(plateau(ReduceLROnPlateauOptions(good).threshold(std::nan(""))),
              HasSubstr("threshold"));
  EXPECT_THAT(plateau(ReduceLROnPlateauOptions(good).min_lr(-1)), HasSubstr("min_lr"));
  EXPECT_THAT(plateau(ReduceLROnPlateauOptions(good).eps(-1)), HasSubstr("eps"));
}

TEST_F(TrainerTest, WhatIsMissingOrThereTwiceIsSaid) {
  EXPECT_THROW(Trainer(make_model(), nullptr, quiet()), InvalidArgumentError);
  EXPECT_THROW(Trainer(std::shared_ptr<torch::nn::LinearImpl>(), torch::nn::MSELoss(), quiet()),
               InvalidArgumentError);
  Trainer trainer(make_model(), torch::nn::MSELoss(), quiet());
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { trainer.train(make_samples(4)); }),
              HasSubstr("no optimizer"));
  EXPECT_THROW(trainer.schedule(optim::StepLR(1)), InvalidArgumentError);
  trainer.metric("error", absolute_error);
  EXPECT_THROW(trainer.metric("error", absolute_error), InvalidArgumentError);
  for (const char* name : {"loss", "seconds", "valid_loss", "", "two\nlines"})
    EXPECT_THROW(trainer.metric(name, absolute_error), InvalidArgumentError) << name;
  EXPECT_THROW(trainer.callback(nullptr), InvalidArgumentError);
  trainer.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
  EXPECT_THROW(trainer.train(data::Dataset()), InvalidArgumentError);
  EXPECT_THROW(trainer.evaluate(data::Dataset()), InvalidArgumentError);
  EXPECT_THROW(EarlyStopping("loss", 0), InvalidArgumentError);
  EXPECT_THROW(TimeLimit(std::chrono::seconds(0)), InvalidArgumentError);
}

TEST_F(TrainerTest, AMetricThatDoesNotExistIsSaidBeforeTheFirstStep) {
  const auto failure = [&](const std::function<void(Trainer&)>& add, const data::Dataset& valid) {
    Trained trained(quiet());
    trained.trainer.metric("error", absolute_error);
    trained.trainer.callback(at_step(1, [](Trainer&) { FAIL() << "a step"; }));
    add(trained.trainer);
    return message_of<InvalidArgumentError>(
        [&] { trained.trainer.train(make_samples(8 * size()), valid); });
  };
  const auto stopping = [](Trainer& trainer) { trainer.callback<EarlyStopping>("valid_error"); };
  EXPECT_THAT(
      failure(stopping, {}),
      HasSubstr("there is no metric \"valid_error\"; there are: loss, error, learning_rate, "
                "samples_per_second, seconds, memory_mib"));
  const data::Dataset valid = make_samples(2 * size());
  EXPECT_THAT(failure([](Trainer& trainer) { trainer.callback<ReduceLROnPlateau>("los"); }, valid),
              HasSubstr("no metric \"los\"; there are: loss, error, valid_loss, valid_error, "));
  const auto best = CheckpointsOptions().metric("accuracy");
  EXPECT_THAT(
      failure([&](Trainer& trainer) { trainer.callback<Checkpoints>(folder_, best); }, valid),
      HasSubstr("no metric \"accuracy\""));

  Trained trained(quiet().epochs(2));
  trained.trainer.metric("error", absolute_error);
  stopping(trained.trainer);
  const TrainingState& state = trained.trainer.train(make_samples(8 * size()), valid);
  EXPECT_EQ(state.epoch, 2);
  for (const auto& [name, value] : state.metrics) EXPECT_TRUE(std::isfinite(value)) << name;
}

TEST_F(TrainerTest, AScheduleAndAPlateauExcludeEachOther) {
  Trained trained(quiet());
  EXPECT_EQ(trained.trainer.scheduler(), nullptr);
  trained.trainer.schedule(optim::StepLR(1));
  EXPECT_NE(trained.trainer.scheduler(), nullptr);
  EXPECT_THROW(trained.trainer.schedule(optim::StepLR(1)), InvalidArgumentError) << "twice";
  trained.trainer.callback<ReduceLROnPlateau>("loss");
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { trained.trainer.train(make_samples(8 * size())); }),
      HasSubstr("ReduceLROnPlateau: the Trainer has a schedule()"));
}

TEST_F(TrainerTest, RanksHaveEqualDatasetsAndOptions) {
  if (size() == 1) return;
  Trained trained(quiet());
  EXPECT_THAT(message_of<MismatchError>([&] { trained.trainer.train(make_samples(8 + rank())); }),
              HasSubstr("the number of samples of its datasets"));
  // Without the comparison they would make different numbers of steps, and wait for each other.
  for (const TrainerOptions& options :
       {quiet().batch_size(2 + rank()), quiet().epochs(1 + rank()), quiet().accumulate(1 + rank()),
        quiet().seed(rank() + 1U), quiet().valid_batch_size(1 + rank()),
        quiet().sync_batchnorm(rank() == 0), quiet().name_nonfinite(rank() == 0),
        quiet().clip_grad_norm(1 + rank())}) {
    Trained other(options);
    EXPECT_THAT(message_of<MismatchError>([&] { other.trainer.train(make_samples(24)); }),
                HasSubstr("the Trainer's options"));
  }
}

// On each rank its own sixth sample.
TEST_F(TrainerTest, WhatASampleThrowsLeavesTrain) {
  const auto ranks = static_cast<std::size_t>(size());
  for (const int workers : {0, 2}) {
    Trained trained(quiet().workers(workers).batch_size(2).shuffle(false));
    const data::Dataset samples(8 * ranks, [&](std::size_t index) -> data::Batch {
      if (index / ranks == 5) throw std::runtime_error("the sample cannot be read");
      return {torch::ones({kFeatures}, torch::kDouble), torch::ones({1}, torch::kDouble)};
    });
    std::string message;
    try {
      trained.trainer.train(samples);
    } catch (const std::exception& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("the sample cannot be read"));
    EXPECT_EQ(trained.trainer.state().step, 2) << "and the batches before it were trained";
  }
}

// The last rank evaluates the last samples.
TEST_F(TrainerTest, ASampleThatCannotBeEvaluatedIsNamed) {
  const auto count = static_cast<std::size_t>(4 * size());
  const data::Dataset samples(count, [&](std::size_t index) -> data::Batch {
    if (index % 4 == 2) throw std::runtime_error("it cannot be read");
    return {torch::ones({kFeatures}, torch::kDouble), torch::ones({1}, torch::kDouble)};
  });
  Trained trained(quiet().batch_size(2));
  EXPECT_THAT(message_of<DataError>([&] { trained.trainer.evaluate(samples); }),
              HasSubstr("sample " + std::to_string(4 * rank() + 2) + " of epoch 0"));
}

// The second of four samples is classified wrongly.
TEST_F(TrainerTest, AccuracyIsTheShareThatIsRight) {
  const torch::Tensor output = torch::tensor({{0.1, 0.9}, {0.8, 0.2}, {3.0, -1.0}, {-2.0, -1.0}});
  EXPECT_EQ(accuracy(output, torch::tensor({1, 1, 0, 1})).item<double>(), 0.75);
}

// The job ends on all ranks with what was thrown.
TEST_F(TrainerTest, WhatACallbackThrowsLeavesTrain) {
  struct Throws : Callback {
    void step_end(Trainer& trainer) override {
      if (trainer.state().step == 2) throw std::runtime_error("the disk is full");
    }
  };
  Trained trained(quiet().batch_size(2));
  trained.trainer.callback<Throws>();
  try {
    trained.trainer.train(make_samples(size() * 8));
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the disk is full"));
  }
}

// --- datasets ---

TEST_F(TrainerTest, DatasetsOfAllKindsGiveTheSameBatches) {
  const torch::Tensor rows = torch::arange(12, torch::kDouble).reshape({6, 2});
  const torch::Tensor sums = rows.sum(1);
  struct Own : torch::data::datasets::Dataset<Own> {
    Own(torch::Tensor its_rows, torch::Tensor its_sums)
        : rows(std::move(its_rows)), sums(std::move(its_sums)) {}
    torch::data::Example<> get(std::size_t index) override {
      return {rows[static_cast<std::int64_t>(index)], sums[static_cast<std::int64_t>(index)]};
    }
    std::optional<std::size_t> size() const override { return rows.size(0); }
    torch::Tensor rows;
    torch::Tensor sums;
  };
  const Own own(rows, sums);
  Own for_map = own;
  const std::vector<data::Dataset> all{
      {rows, sums},
      {6, [&](std::size_t i) { return Own(rows, sums).get(i); }},
      own,
      for_map.map(torch::data::transforms::Stack<>()),
  };
  for (const data::Dataset& dataset : all) {
    EXPECT_EQ(dataset.size(), 6U);
    const data::Batch batch = dataset.get_batch({4, 1});
    EXPECT_TRUE(torch::equal(batch.data, torch::stack({rows[4], rows[1]})));
    EXPECT_TRUE(torch::equal(batch.target, torch::stack({sums[4], sums[1]})));
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { dataset.get_batch({6}); }),
                HasSubstr("no sample 6 among 6"));
    EXPECT_THROW(dataset.get_batch({}), InvalidArgumentError);
  }
  struct Fewer : torch::data::datasets::BatchDataset<Fewer, data::Batch> {
    data::Batch get_batch(c10::ArrayRef<std::size_t> indices) override {
      return {torch::ones({static_cast<std::int64_t>(indices.size()) - 1, 2}), {}};
    }
    std::optional<std::size_t> size() const override { return 6; }
  };
  EXPECT_THAT(message_of<InvalidArgumentError>([] {
                data::Dataset(Fewer()).get_batch({1, 2, 3});
              }),
              HasSubstr("the dataset gave 2 samples for a batch of 3"));
  const data::Dataset without_targets(torch::data::datasets::TensorDataset({rows[0], rows[1]}));
  EXPECT_FALSE(without_targets.get_batch({1}).target.defined());
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { data::Dataset(rows, sums.slice(0, 1)); }),
              HasSubstr("6 samples and 5 targets"));
  EXPECT_THROW(data::Dataset(rows, torch::ones({})), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo
