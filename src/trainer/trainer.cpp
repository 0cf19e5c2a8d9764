#include "kolo/trainer.h"

#include <ATen/ATen.h>
#include <sys/resource.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "kolo/agreement.h"
#include "kolo/callbacks.h"
#include "kolo/data/sampler.h"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/mixed_precision.h"
#include "kolo/objects.h"
#include "kolo/operations.h"
#include "kolo/parameters.h"
#include "kolo/seed.h"
#include "kolo/stop.h"
#include "kolo/sync_batchnorm.h"
#include "trainer/batches.hpp"
#include "trainer/epoch_means.hpp"
#include "trainer/nonfinite.hpp"
#include "trainer/step_agreement.hpp"
#include "trainer/trainer_options.hpp"

namespace kolo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatchesPerFetch = 32;  // from a GPU

double resident_mib() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return std::nan("");
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// A line for each: its value and its name.
std::string text_of(const std::vector<std::pair<std::string, double>>& metrics) {
  std::ostringstream text;
  text.precision(17);
  for (const auto& [name, value] : metrics) text << value << ' ' << name << '\n';
  return text.str();
}
std::vector<std::pair<std::string, double>> metrics_of(const std::string& text) {
  std::vector<std::pair<std::string, double>> metrics;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos)
      metrics.emplace_back(line.substr(space + 1), std::strtod(line.c_str(), nullptr));
  }
  return metrics;
}

std::string list_of_names(const std::vector<std::pair<std::string, double>>& metrics) {
  std::string names;
  for (const auto& [name, value] : metrics) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none yet" : names;
}

// Puts a module and those within it into evaluation mode, and back into what they were.
class InEvaluation {
 public:
  explicit InEvaluation(torch::nn::Module& module) {
    for (const auto& part : module.modules(/*include_self=*/false))
      modes_.emplace_back(part.get(), part->is_training());
    modes_.emplace_back(&module, module.is_training());
    module.eval();
  }
  // Parents come before their children, and give them their mode, in the list of modules; the
  // module itself is the parent of all.
  ~InEvaluation() {
    modes_.back().first->train(modes_.back().second);
    modes_.pop_back();
    for (const auto& [part, was_training] : modes_) part->train(was_training);
  }
  InEvaluation(const InEvaluation&) = delete;
  InEvaluation& operator=(const InEvaluation&) = delete;

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
  const at::NoGradGuard no_grad_;
};

// Names that a program's metrics must not have.
bool is_reserved(const std::string& name) {
  static const std::vector<std::string> kNames{"loss", "learning_rate", "samples_per_second",
                                               "seconds", "memory_mib"};
  return name.empty() || name.rfind("valid_", 0) == 0 ||
         std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' '; }) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

double TrainingState::metric(const std::string& name) const {
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
  }
  throw InvalidArgumentError("there is no metric \"" + name +
                             "\"; there are: " + list_of_names(metrics));
}

void Callback::train_begin(Trainer& /*trainer*/) {}
void Callback::epoch_begin(Trainer& /*trainer*/) {}
void Callback::step_end(Trainer& /*trainer*/) {}
void Callback::epoch_end(Trainer& /*trainer*/) {}
void Callback::train_end(Trainer& /*trainer*/) {}
void Callback::add_to(const Trainer& /*trainer*/, Checkpoint& /*checkpoint*/,
                      const std::string& /*prefix*/) {}

// The module, the parts that train it, and the progress of the training.
struct Trainer::State {
  State(std::shared_ptr<torch::nn::Module> its_module, Forward its_forward, Function its_loss,
        const TrainerOptions& its_options)
      : options(its_options),
        device(trainer::device_of(its_options)),
        ranks(its_options.distributed() ? size() : 1),
        rank(is_initialized() ? kolo::rank() : 0),
        module(std::move(its_module)),
        forward(std::move(its_forward)),
        loss(std::move(its_loss)),
        scaler(GradScalerOptions().enabled(its_options.precision() == at::kHalf)) {}

  std::size_t batches_per_fetch() const {
    return device.is_cpu() || options.name_nonfinite() ? 1 : kBatchesPerFetch;
  }
  void ask(trainer::Wish asked, const std::string& reason) {
    if (asked <= wish) return;
    wish = asked;
    progress.stop_reason = reason.empty() ? "the program asked to stop" : reason;
  }
  at::Tensor output_of(const data::Batch& batch) const;
  std::vector<at::Tensor> numbers_of(const at::Tensor& output, const data::Batch& batch) const;
  data::Batch on_device(const data::Batch& batch) const;
  std::vector<at::Tensor> trained_parameters() const;
  void call(Trainer& trainer, void (Callback::*function)(Trainer&), bool last);
  void call(Trainer& trainer, void (Callback::*function)(Trainer&)) {
    for (const bool last : {false, true}) call(trainer, function, last);
  }
  trainer::EpochMeans& own_means() {
    if (!means) means.emplace(metrics.size() + 1, device, batches_per_fetch());
    return *means;
  }

  const TrainerOptions options;
  const at::Device device;
  const int ranks;
  const int rank;
  const std::shared_ptr<torch::nn::Module> module;
  const Forward forward;
  const Function loss;
  AnyOptimizer optimizer;
  GradScaler scaler;
  std::unique_ptr<optim::Scheduler> scheduler;
  Interval interval = Interval::Epoch;
  std::vector<std::pair<std::string, Function>> metrics;
  std::vector<std::shared_ptr<Callback>> callbacks;
  TrainingState progress;
  std::int64_t epochs_done = 0;
  std::int64_t samples_done = 0;  // in the epoch under way, by all ranks
  std::optional<trainer::EpochMeans> means;
  trainer::Wish wish = trainer::Wish::GoOn;  // this rank's
  bool is_finished = false;                  // by finish()
  std::string order;                         // what decides the order of the samples, in words
  std::string metrics_text;                  // progress.metrics, for a checkpoint
  std::size_t own_callbacks = 0;             // the first ones, which options have added
};

data::Batch Trainer::State::on_device(const data::Batch& batch) const {
  const auto moved = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  return {moved(batch.data), moved(batch.target)};
}

at::Tensor Trainer::State::output_of(const data::Batch& batch) const {
  if (options.precision() == at::kFloat) return forward(batch.data);
  const AutocastGuard autocast(device.type(), options.precision());
  return forward(batch.data).to(at::kFloat);
}

// Returns the optimizer's parameters, each once, even if two modules share one.
std::vector<at::Tensor> Trainer::State::trained_parameters() const {
  std::vector<at::Tensor> parameters;
  std::set<const c10::TensorImpl*> known;
  for (const auto& group : optimizer.base->param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (known.insert(parameter.unsafeGetTensorImpl()).second) parameters.push_back(parameter);
    }
  }
  return parameters;
}

std::vector<at::Tensor> Trainer::State::numbers_of(const at::Tensor& output,
                                                   const data::Batch& batch) const {
  std::vector<at::Tensor> numbers{loss(output, batch.target)};
  const at::NoGradGuard no_grad;
  for (const auto& [name, function] : metrics)
    numbers.push_back(function(output.detach(), batch.target));
  return numbers;
}

void Trainer::State::call(Trainer& trainer, void (Callback::*function)(Trainer&), bool last) {
  for (const std::shared_ptr<Callback>& callback : callbacks) {
    if (callback->is_last() == last) (*callback.*function)(trainer);
  }
}

// Runs the epochs of one call of train().
class Trainer::Loop {
 public:
  Loop(Trainer& trainer, const Datasets& sets)
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
    if (state_.order.empty()) state_.order = own_order();
  }

  void run();

 private:
  DistributedSampler::Options share() const {
    DistributedSampler::Options share;
    share.num_replicas = state_.ranks;
    share.rank = state_.ranks == 1 ? 0 : state_.rank;
    share.shuffle = options_.shuffle();
    share.seed = options_.seed();
    return share;
  }

  // How many samples of this rank an epoch uses that goes on at `position`.
  std::int64_t usable_samples(std::int64_t position) const {
    const auto all = static_cast<std::int64_t>(sampler_.size());
    if (!options_.drop_last()) return all;
    return position + (all - position) / options_.batch_size() * options_.batch_size();
  }

  std::string own_order() const {
    std::ostringstream words;
    words << sets_.train.size() << " samples, seed " << options_.seed()
          << (options_.shuffle() ? ", shuffled" : ", in their own order");
    return words.str();
  }

  std::int64_t samples_per_step() const { return options_.batch_size() * options_.accumulate(); }
  std::int64_t steps_for(std::int64_t samples) const {
    return (samples + samples_per_step() - 1) / samples_per_step();
  }

  void begin();
  trainer::Wish wish() const {
    return stop_signal_caught() ? std::max(state_.wish, trainer::Wish::Stop) : state_.wish;
  }
  void heed(const trainer::StepAgreement::Answer& answer);
  void look_at_losses();
  // Returns whether the epoch came to its end.
  bool run_epoch();
  void use(const data::Batch& batch);
  void backward(const data::Batch& batch);
  void end_step();
  void fail_for_bad_loss(int rank);
  void end_epoch(double seconds, std::int64_t first_sample);

  Trainer& trainer_;
  State& state_;
  const TrainerOptions& options_;
  const Datasets& sets_;
  const DistributedSampler sampler_;
  trainer::StepAgreement agreement_;
  // Numbers of samples of this rank.
  std::int64_t samples_ = 0;       // of the epoch
  std::int64_t position_ = 0;      // used in this epoch
  std::int64_t step_samples_ = 0;  // of the step under way
  std::int64_t step_used_ = 0;     // used in it
  data::Batch last_batch_;         // the one with the bad loss if there is one; for name_nonfinite
  bool has_bad_loss_ = false;      // on this rank
  bool stops_ = false;             // all ranks have agreed to
};

void Trainer::Loop::run() {
  begin();
  TrainingState& progress = state_.progress;
  while (state_.epochs_done < options_.epochs() && !state_.is_finished && !stops_) {
    progress.epoch = state_.epochs_done + 1;
    if (!run_epoch()) break;
  }
  if (stops_) look_at_losses();
  const bool is_complete = state_.epochs_done >= options_.epochs();
  progress.is_over = is_complete || state_.is_finished;
  if (is_complete) progress.stop_reason.clear();
}

// Runs after the callbacks' train_begin(), which may have restored a checkpoint.
void Trainer::Loop::begin() {
  TrainingState& progress = state_.progress;
  const std::string order = own_order();
  if (state_.order != order && state_.samples_done > 0) {
    throw MismatchError("Trainer: the checkpoint is from the middle of an epoch of " +
                        state_.order + "; this training has " + order +
                        ", so it cannot go on with the samples that are left");
  }
  state_.order = order;
  progress.epoch = state_.epochs_done;
  progress.learning_rate = state_.optimizer.base->param_groups().front().options().get_lr();
  if (progress.metrics.empty()) progress.metrics = metrics_of(state_.metrics_text);
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

// Checks the losses that no step has checked yet (on a GPU). Collective.
void Trainer::Loop::look_at_losses() {
  state_.means->fetch();
  agreement_.tell(wish(), state_.means->bad_loss().has_value());
  heed(agreement_.answer());
}

bool Trainer::Loop::run_epoch() {
  TrainingState& progress = state_.progress;
  step_used_ = 0;
  // Among other ranks than before, the last samples that were repeated may make it too large.
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
        {options_.batch_size(), options_.workers(), options_.drop_last()},
        [this](const data::Batch& batch) {
          use(batch);
          return !stops_;
        });
  }
  // After the last step, too: validation may take long, and comes when the training goes on.
  if (stops_) return false;
  look_at_losses();
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
  backward(state_.on_device(batch));
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
  state_.scaler.scale(share == 1 ? loss : loss * share).backward();
}

void Trainer::Loop::end_step() {
  TrainingState& progress = state_.progress;
  heed(agreement_.answer());
  torch::optim::Optimizer& optimizer = *state_.optimizer.base;
  state_.optimizer.synchronize();
  if (options_.clip_grad_norm() > 0) {
    if (options_.precision() == at::kHalf) state_.scaler.unscale_(optimizer);
    torch::nn::utils::clip_grad_norm_(state_.trained_parameters(), options_.clip_grad_norm());
  }
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

// On all ranks at once, as computing the loss may be collective.
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
  std::vector<std::pair<std::string, double>> metrics;
  const std::vector<double> means = state_.means->means(distributed);
  metrics.emplace_back("loss", means.front());
  for (std::size_t i = 0; i < state_.metrics.size(); ++i)
    metrics.emplace_back(state_.metrics[i].first, means[i + 1]);
  if (sets_.valid.size() > 0) {
    for (const auto& [name, value] : trainer_.evaluate(sets_.valid))
      metrics.emplace_back("valid_" + name, value);
  }
  at::Tensor memory = at::full({1}, resident_mib(), at::kDouble);
  if (distributed) allreduce_(memory, AllreduceOptions("kolo.trainer.memory").op(ReduceOp::Max));
  const auto used = static_cast<double>((samples_ - first_sample) * state_.ranks);
  metrics.emplace_back("learning_rate", progress.learning_rate);
  metrics.emplace_back("samples_per_second", used / seconds);
  metrics.emplace_back("seconds", seconds);
  metrics.emplace_back("memory_mib", memory.item<double>());
  progress.metrics = std::move(metrics);
  state_.metrics_text = text_of(progress.metrics);
  ++state_.epochs_done;
  state_.samples_done = 0;
  if (state_.scheduler && state_.interval == Interval::Epoch) state_.scheduler->step();
  state_.call(trainer_, &Callback::epoch_end, /*last=*/false);
  agreement_.tell(wish(), false);
  heed(agreement_.answer());
  state_.call(trainer_, &Callback::epoch_end, /*last=*/true);
}

Trainer::Trainer(std::shared_ptr<torch::nn::Module> module, Forward forward, Function loss,
                 const TrainerOptions& options) {
  trainer::check(options);
  if (loss == nullptr) throw InvalidArgumentError("Trainer: the loss is null");
  if (options.distributed()) init();
  state_ = std::make_unique<State>(std::move(module), std::move(forward), std::move(loss), options);
  if (options.precision() == at::kHalf && !options.distributed() && is_initialized() &&
      size() > 1) {
    throw InvalidArgumentError(
        "TrainerOptions: distributed is false in a job of " + std::to_string(size()) +
        " ranks; with the precision at::kHalf all ranks decide together which steps to skip");
  }
  torch::nn::Module& trained = *state_->module;
  trained.to(state_->device);
  if (options.sync_batchnorm() && state_->ranks > 1) convert_sync_batchnorm(state_->module);
  if (state_->ranks > 1) broadcast_parameters(trained);
  if (options.verbose()) callback<ConsoleLog>();
  if (!options.log_directory().empty()) {
    callback<CsvLog>(options.log_directory() + "/metrics.csv");
    callback<JsonLog>(options.log_directory() + "/metrics.jsonl");
    callback<TensorBoardLog>(options.log_directory());
  }
  state_->own_callbacks = state_->callbacks.size();
}

Trainer::~Trainer() = default;

DistributedOptimizerOptions Trainer::named(const DistributedOptimizerOptions& reduction) const {
  return detail::with_names_of(module(), reduction);
}

void Trainer::set_optimizer(AnyOptimizer optimizer) {
  if (state_->scheduler) {
    throw InvalidArgumentError(
        "Trainer::optimizer(): schedule() refers to the optimizer that there was; give the "
        "optimizer first, and once");
  }
  state_->optimizer = std::move(optimizer);
}

Trainer& Trainer::schedule(optim::Schedule rates, Interval interval, optim::Schedule momentum) {
  state_->scheduler =
      std::make_unique<optim::Scheduler>(optimizer(), std::move(rates), std::move(momentum));
  state_->interval = interval;
  return *this;
}

Trainer& Trainer::metric(const std::string& name, Function function) {
  const bool known = std::any_of(state_->metrics.begin(), state_->metrics.end(),
                                 [&](const auto& metric) { return metric.first == name; });
  if (known || is_reserved(name)) {
    throw InvalidArgumentError("Trainer::metric(): \"" + name +
                               "\" is the name of a metric already, or no name for one");
  }
  if (state_->means) throw InvalidArgumentError("Trainer::metric(): the training has begun");
  if (function == nullptr)
    throw InvalidArgumentError("Trainer::metric(): the function of \"" + name + "\" is null");
  state_->metrics.emplace_back(name, std::move(function));
  return *this;
}

Trainer& Trainer::callback(std::shared_ptr<Callback> callback) {
  if (callback == nullptr) throw InvalidArgumentError("Trainer::callback(): the callback is null");
  state_->callbacks.push_back(std::move(callback));
  return *this;
}

const TrainingState& Trainer::train(const data::Dataset& train, const data::Dataset& valid) {
  return this->train([&] { return Datasets{train, valid}; });
}

const TrainingState& Trainer::train(const std::function<Datasets()>& make) {
  optimizer();  // there is one
  const Datasets sets = make();
  State& state = *state_;
  check_sizes(sets.train.size(), sets.valid.size());
  if (state.progress.step == 0) {
    if (is_initialized()) {
      manual_seed_per_rank(state.options.seed());
    } else {
      torch::manual_seed(state.options.seed());
    }
  }
  state.own_means();
  state.wish = trainer::Wish::GoOn;
  state.progress.stop_reason.clear();
  Loop loop(*this, sets);
  state.optimizer.zero_grad();
  state.call(*this, &Callback::train_begin);
  loop.run();
  state.call(*this, &Callback::train_end);
  return state.progress;
}

// Ranks with different numbers of batches or steps would wait for each other. With different seeds
// their shares of the samples would overlap.
void Trainer::check_sizes(std::size_t train, std::size_t valid) const {
  if (state_->ranks == 1) return;
  const TrainerOptions& options = state_->options;
  const std::vector<std::int64_t> numbers{static_cast<std::int64_t>(train),
                                          static_cast<std::int64_t>(valid),
                                          options.epochs(),
                                          options.batch_size(),
                                          options.accumulate(),
                                          options.drop_last() ? 1 : 0,
                                          options.shuffle() ? 1 : 0,
                                          static_cast<std::int64_t>(options.seed()),
                                          static_cast<std::int64_t>(state_->metrics.size())};
  check_in_sync("the Trainer's options, metrics, or the number of samples of its datasets",
                at::tensor(numbers, at::kLong));
}

std::vector<std::pair<std::string, double>> Trainer::evaluate(const data::Dataset& dataset) {
  if (dataset.size() == 0)
    throw InvalidArgumentError("Trainer::evaluate(): the dataset has no samples");
  State& state = *state_;
  check_sizes(0, dataset.size());
  const bool distributed = state.ranks > 1;
  const InEvaluation evaluation(*state.module);
  if (distributed) broadcast_parameters(state.module->named_buffers());
  trainer::EpochMeans means(state.metrics.size() + 1, state.device, kBatchesPerFetch);
  const auto ranks = static_cast<std::size_t>(state.ranks);
  const std::size_t rank = distributed ? static_cast<std::size_t>(state.rank) : 0;
  const std::int64_t own_size = state.options.valid_batch_size();
  trainer::for_each_batch_of_range(
      dataset, dataset.size() * rank / ranks, dataset.size() * (rank + 1) / ranks,
      {own_size > 0 ? own_size : state.options.batch_size(), state.options.workers(), false},
      [&](const data::Batch& read) {
        const data::Batch batch = state.on_device(read);
        means.add(state.numbers_of(state.output_of(batch), batch), batch.data.size(0), 0);
        return true;
      });
  const std::vector<double> values = means.means(distributed);
  std::vector<std::pair<std::string, double>> named{{"loss", values.front()}};
  for (std::size_t i = 0; i < state.metrics.size(); ++i)
    named.emplace_back(state.metrics[i].first, values[i + 1]);
  return named;
}

const TrainingState& Trainer::state() const {
  return state_->progress;
}

const TrainerOptions& Trainer::options() const {
  return state_->options;
}

torch::nn::Module& Trainer::module() const {
  return *state_->module;
}

torch::optim::Optimizer& Trainer::optimizer() const {
  if (state_->optimizer.base == nullptr) {
    throw InvalidArgumentError(
        "Trainer: there is no optimizer yet; call optimizer<torch::optim::Adam>(options), say");
  }
  return *state_->optimizer.base;
}

at::Device Trainer::device() const {
  return state_->device;
}

bool Trainer::is_root() const {
  return state_->rank == 0;
}

void Trainer::stop(const std::string& reason) {
  state_->ask(trainer::Wish::Stop, reason);
}

void Trainer::finish(const std::string& reason) {
  state_->ask(trainer::Wish::Finish, reason);
}

void Trainer::add_to(Checkpoint& checkpoint) {
  State& state = *state_;
  checkpoint.add("model", state.module).add("optimizer", optimizer());
  if (state.scheduler) checkpoint.add("schedule", *state.scheduler);
  checkpoint.add("scaler", state.scaler);
  checkpoint.add("trainer.step", state.progress.step).add("trainer.epochs", state.epochs_done);
  checkpoint.add("trainer.samples", state.samples_done);
  checkpoint.add("trainer.finished", state.is_finished).add("trainer.order", state.order);
  checkpoint.add("trainer.metrics", state.metrics_text);
  checkpoint.add_per_rank("trainer.sums", state.own_means().sums());
  // Numbers that do not change when options add callbacks in front.
  for (std::size_t i = state.own_callbacks; i < state.callbacks.size(); ++i) {
    state.callbacks[i]->add_to(*this, checkpoint,
                               "callback" + std::to_string(i - state.own_callbacks));
  }
}

}  // namespace kolo
