#include "trainer/training_loop.hpp"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <utility>
#include <vector>

#include "kolo/callbacks.h"
#include "kolo/error.h"
#include "kolo/objects.h"
#include "kolo/operations.h"
#include "kolo/stop.h"
#include "trainer/batches.hpp"
#include "trainer/metric_names.hpp"
#include "trainer/nonfinite.hpp"

namespace kolo {
namespace {

using Clock = std::chrono::steady_clock;

double resident_mib() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return std::nan("");
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

Trainer::Loop::Loop(Trainer& trainer, const Datasets& sets)
    : trainer_(trainer),
      state_(*trainer.state_),
      options_(state_.options),
      sets_(sets),
      sampler_(sets.train.size(), share()),
      agreement_(state_.ranks == 1) {
  if (usable_samples(0) == 0) {
    throw InvalidArgumentError(
        "Trainer: there is no batch to train with: the dataset has " +
        std::to_string(sets_.train.size()) + " samples, and the batches of " +
        std::to_string(state_.ranks) + " ranks have " + std::to_string(options_.batch_size()) +
        (options_.drop_last() ? "; drop_last leaves out batches that are not full" : ""));
  }
  state_.progress.steps_per_epoch = steps_for(usable_samples(0));
  name_metrics();
  if (state_.order.empty()) state_.order = own_order();
  state_.loop = this;
}

Trainer::Loop::~Loop() {
  state_.loop = nullptr;
}

DistributedSampler::Options Trainer::Loop::share() const {
  DistributedSampler::Options share;
  share.num_replicas = state_.ranks;
  share.rank = state_.ranks == 1 ? 0 : state_.rank;
  share.shuffle = options_.shuffle();
  share.seed = options_.seed();
  return share;
}

// Returns how many of this rank's samples an epoch uses if it continues at `position`.
std::int64_t Trainer::Loop::usable_samples(std::int64_t position) const {
  const auto all = static_cast<std::int64_t>(sampler_.size());
  if (!options_.drop_last()) return all;
  return position + (all - position) / options_.batch_size() * options_.batch_size();
}

std::string Trainer::Loop::own_order() const {
  std::ostringstream words;
  words << sets_.train.size() << " samples, seed " << options_.seed()
        << (options_.shuffle() ? ", shuffled" : ", in their own order");
  return words.str();
}

// Sets the names of this training's metrics, without values yet. So callbacks find out at once
// whether a metric exists.
void Trainer::Loop::name_metrics() {
  std::vector<std::string> own;
  own.reserve(state_.metrics.size());
  for (const auto& [name, function] : state_.metrics) own.push_back(name);
  state_.progress.metrics.clear();
  for (std::string& name : trainer::names_of_metrics(own, sets_.valid.size() > 0))
    state_.progress.metrics.emplace_back(std::move(name), std::nan(""));
}

trainer::Wish Trainer::Loop::wish() const {
  return stop_signal_caught() ? std::max(state_.wish, trainer::Wish::Stop) : state_.wish;
}

void Trainer::Loop::run() {
  begin();
  TrainingState& progress = state_.progress;
  while (state_.epochs_done < options_.epochs() && !state_.is_finished && !stops_) {
    progress.epoch = state_.epochs_done + 1;
    if (!run_epoch()) break;
  }
  if (stops_) heed_losses_and_wishes();
  const bool is_complete = state_.epochs_done >= options_.epochs();
  progress.is_over = is_complete || state_.is_finished;
  if (is_complete) progress.stop_reason.clear();
}

// Runs after the callbacks' train_begin(), which may have restored a checkpoint.
void Trainer::Loop::begin() {
  TrainingState& progress = state_.progress;
  const std::string order = own_order();
  if (state_.order != order && state_.samples_done > 0) {
    throw MismatchError("Trainer: the training stopped in the middle of an epoch of " +
                        state_.order + "; this training has " + order +
                        ", so it cannot go on with the samples that are left");
  }
  state_.order = order;
  progress.epoch = state_.epochs_done;
  progress.learning_rate = state_.optimizer.base->param_groups().front().options().get_lr();
  if (!state_.metrics_text.empty()) progress.metrics = trainer::metrics_of(state_.metrics_text);
}

void Trainer::Loop::heed(const trainer::StepAgreement::Answer& answer) {
  if (answer.rank_of_bad_loss) fail_for_bad_loss(*answer.rank_of_bad_loss);
  if (answer.wish == trainer::Wish::GoOn) return;
  stops_ = true;
  state_.is_finished = answer.wish == trainer::Wish::Finish;
  if (!state_.progress.stop_reason.empty()) return;
  state_.progress.stop_reason =
      stop_signal_caught() ? "a signal asked to stop" : "another rank asked to stop";
}

// Also checks the losses that no step has checked yet, which happens on a GPU. Collective.
void Trainer::Loop::heed_losses_and_wishes() {
  state_.means->fetch();
  agreement_.tell(wish(), state_.means->bad_loss().has_value());
  heed(agreement_.answer());
}

// Leaves the ranks' wishes to the next step.
void Trainer::Loop::check_losses() {
  state_.means->fetch();
  agreement_.tell(trainer::Wish::GoOn, state_.means->bad_loss().has_value());
  heed(agreement_.answer());
}

bool Trainer::Loop::run_epoch() {
  TrainingState& progress = state_.progress;
  step_used_ = 0;
  // With another number of ranks than before, repeated last samples may make the quotient too
  // large.
  position_ =
      std::min(state_.samples_done / state_.ranks, static_cast<std::int64_t>(sampler_.size()));
  samples_ = usable_samples(position_);
  progress.step_in_epoch = position_ / samples_per_step();
  if (position_ == 0) state_.means->reset();
  state_.call(trainer_, &Callback::epoch_begin);
  const std::int64_t first_sample = position_;
  const Clock::time_point begin = Clock::now();
  if (position_ < samples_) {
    trainer::for_each_batch_of_epoch(
        sets_.train, sampler_, static_cast<std::uint64_t>(progress.epoch),
        static_cast<std::size_t>(position_),
        {options_.batch_size(), options_.workers(), options_.drop_last(), state_.device},
        [this](const data::Batch& batch) {
          use(batch);
          return !stops_;
        });
  }
  // Stops even after the epoch's last step: validation may take long, and runs when training
  // continues.
  if (stops_) return false;
  heed_losses_and_wishes();
  if (stops_) return false;
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  end_epoch(seconds.count(), first_sample);
  return true;
}

void Trainer::Loop::use(const data::Batch& batch) {
  const std::int64_t samples = batch.data.size(0);
  if (step_used_ == 0) step_samples_ = std::min(samples_per_step(), samples_ - position_);
  step_used_ += samples;
  position_ += samples;
  backward(batch);
  if (step_used_ == step_samples_) end_step();
}

void Trainer::Loop::backward(const data::Batch& batch) {
  const std::int64_t samples = batch.data.size(0);
  const std::vector<at::Tensor> numbers = state_.numbers_of(state_.output_of(batch), batch);
  state_.means->add(numbers, samples, state_.progress.step + 1);
  if (options_.name_nonfinite() && !has_bad_loss_) last_batch_ = batch;
  has_bad_loss_ = state_.means->bad_loss().has_value();
  if (step_used_ == step_samples_) agreement_.tell(wish(), has_bad_loss_);
  const double share = static_cast<double>(samples) / static_cast<double>(step_samples_);
  const at::Tensor& loss = numbers.front();
  state_.call([&](Callback& callback) { callback.backward_begin(trainer_, loss); });
  state_.scaler.scale(share == 1 ? loss : loss * share).backward();
  state_.call(trainer_, &Callback::backward_end);
}

void Trainer::Loop::end_step() {
  TrainingState& progress = state_.progress;
  heed(agreement_.answer());
  torch::optim::Optimizer& optimizer = *state_.optimizer.base;
  state_.optimizer.synchronize();
  if (options_.precision() == at::kHalf) state_.scaler.unscale_(optimizer);
  state_.call(trainer_, &Callback::gradients_ready);
  state_.scaler.step(optimizer);
  state_.scaler.update();
  state_.optimizer.zero_grad();
  step_used_ = 0;
  state_.samples_done = position_ * state_.ranks;
  ++progress.step;
  ++progress.step_in_epoch;
  progress.loss = state_.means->loss();
  progress.learning_rate = optimizer.param_groups().front().options().get_lr();
  if (state_.scheduler && state_.interval == Interval::Step) state_.scheduler->step();
  state_.call(trainer_, &Callback::step_end);
}

// Throws on all ranks at once, because computing the loss may be collective.
void Trainer::Loop::fail_for_bad_loss(int rank) {
  const auto& bad = state_.means->bad_loss();
  std::ostringstream message;
  message << "Trainer: the loss is " << (bad ? bad->value : 0.0) << " on rank " << rank
          << " in step " << (bad ? bad->step : 0) << ", epoch " << state_.progress.epoch << "; ";
  if (options_.name_nonfinite()) {
    const trainer::Bad kind =
        bad && std::isinf(bad->value) ? trainer::Bad::Infinite : trainer::Bad::NaN;
    message << trainer::first_nonfinite(*state_.module, kind, [this] {
      state_.loss(state_.output_of(last_batch_), last_batch_.target);
    });
  } else {
    message << "TrainerOptions::name_nonfinite names the module that it comes from";
  }
  throw Error(state_.ranks == 1 ? message.str() : broadcast_object(message.str(), rank));
}

void Trainer::Loop::end_epoch(double seconds, std::int64_t first_sample) {
  TrainingState& progress = state_.progress;
  const bool distributed = state_.ranks > 1;
  std::vector<double> values = state_.means->means(distributed);  // in the order of their names
  if (sets_.valid.size() > 0) {
    for (const auto& [name, value] : trainer_.evaluate(sets_.valid)) values.push_back(value);
  }
  const at::Tensor largest = at::tensor({seconds, resident_mib()}, at::kDouble);
  if (distributed) allreduce_(largest, AllreduceOptions("kolo.trainer.largest").op(ReduceOp::Max));
  const auto used = static_cast<double>((samples_ - first_sample) * state_.ranks);
  const double longest = largest[0].item<double>();
  values.insert(values.end(),
                {progress.learning_rate, used / longest, longest, largest[1].item<double>()});
  name_metrics();
  for (std::size_t i = 0; i < values.size(); ++i) progress.metrics[i].second = values[i];
  state_.metrics_text = trainer::text_of(progress.metrics);
  ++state_.epochs_done;
  state_.samples_done = 0;
  if (state_.scheduler && state_.interval == Interval::Epoch) state_.scheduler->step();
  state_.call(trainer_, &Callback::epoch_end, /*last=*/false);
  agreement_.tell(wish(), false);
  heed(agreement_.answer());
  state_.call(trainer_, &Callback::epoch_end, /*last=*/true);
}

}  // namespace kolo
