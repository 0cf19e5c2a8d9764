#include "kolo/trainer.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "core/types.hpp"
#include "kolo/agreement.h"
#include "kolo/callbacks.h"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/parameters.h"
#include "kolo/seed.h"
#include "kolo/sync_batchnorm.h"
#include "trainer/batches.hpp"
#include "trainer/epoch_means.hpp"
#include "trainer/metric_names.hpp"
#include "trainer/trainer_options.hpp"
#include "trainer/trainer_state.hpp"
#include "trainer/training_loop.hpp"

namespace kolo {
namespace {

// Puts a module and its submodules into evaluation mode, and later restores their modes.
class InEvaluation {
 public:
  explicit InEvaluation(torch::nn::Module& module) {
    for (const auto& part : module.modules(/*include_self=*/false))
      modes_.emplace_back(part.get(), part->is_training());
    modes_.emplace_back(&module, module.is_training());
    module.eval();
  }
  // A parent passes its mode on to its children. In the list, parents come before their children,
  // and the module itself, the parent of all, is restored first.
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

}  // namespace

double TrainingState::metric(const std::string& name) const {
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
  }
  throw InvalidArgumentError("there is no metric \"" + name +
                             "\"; there are: " + trainer::list_of_names(metrics));
}

void Callback::train_begin(Trainer& /*trainer*/) {}
void Callback::epoch_begin(Trainer& /*trainer*/) {}
void Callback::backward_begin(Trainer& /*trainer*/, const at::Tensor& /*loss*/) {}
void Callback::backward_end(Trainer& /*trainer*/) {}
void Callback::gradients_ready(Trainer& /*trainer*/) {}
void Callback::step_end(Trainer& /*trainer*/) {}
void Callback::epoch_end(Trainer& /*trainer*/) {}
void Callback::train_end(Trainer& /*trainer*/) {}
void Callback::add_to(const Trainer& /*trainer*/, Checkpoint& /*checkpoint*/,
                      const std::string& /*prefix*/) {}

at::Tensor accuracy(const at::Tensor& output, const at::Tensor& target) {
  if (output.dim() != 2 || target.dim() != 1 || target.size(0) != output.size(0)) {
    throw InvalidArgumentError("accuracy: the output's shape is " +
                               to_string(output.sizes().vec()) + " and the target's " +
                               to_string(target.sizes().vec()) + "; they must be [N, C] and [N]");
  }
  return output.argmax(1).eq(target).to(at::kFloat).mean();
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
  if (options.clip_grad_norm() > 0) callback<ClipGradNorm>(options.clip_grad_norm());
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
  if (state_->scheduler) {
    throw InvalidArgumentError(
        "Trainer::schedule(): there is a schedule already, which has changed the learning rates; "
        "call schedule() once");
  }
  if (state_->means) throw InvalidArgumentError("Trainer::schedule(): the training has begun");
  state_->scheduler =
      std::make_unique<optim::Scheduler>(optimizer(), std::move(rates), std::move(momentum));
  state_->interval = interval;
  return *this;
}

Trainer& Trainer::metric(const std::string& name, Function function) {
  const bool known = std::any_of(state_->metrics.begin(), state_->metrics.end(),
                                 [&](const auto& metric) { return metric.first == name; });
  if (known || trainer::is_reserved(name)) {
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
  optimizer();  // throws if there is none
  const Datasets sets = make();
  State& state = *state_;
  check_same_on_ranks(sets.train.size(), sets.valid.size());
  if (state.progress.step == 0) {
    if (is_initialized()) {
      manual_seed_per_rank(state.options.seed());
    } else {
      torch::manual_seed(state.options.seed());
    }
  }
  state.own_means().forget_losses();
  state.wish = trainer::Wish::GoOn;
  state.progress.stop_reason.clear();
  Loop loop(*this, sets);
  state.optimizer.zero_grad();
  state.call(*this, &Callback::train_begin);
  loop.run();
  state.call(*this, &Callback::train_end);
  return state.progress;
}

// With different numbers of batches or steps, ranks would wait for each other. With different
// seeds, their shares of the samples would overlap.
void Trainer::check_same_on_ranks(std::size_t train, std::size_t valid) const {
  if (state_->ranks == 1) return;
  const TrainerOptions& options = state_->options;
  const std::vector<std::int64_t> numbers{static_cast<std::int64_t>(train),
                                          static_cast<std::int64_t>(valid),
                                          options.epochs(),
                                          options.batch_size(),
                                          options.accumulate(),
                                          options.valid_batch_size(),
                                          options.drop_last() ? 1 : 0,
                                          options.shuffle() ? 1 : 0,
                                          options.sync_batchnorm() ? 1 : 0,
                                          options.name_nonfinite() ? 1 : 0,
                                          static_cast<std::int64_t>(options.precision()),
                                          static_cast<std::int64_t>(options.seed()),
                                          static_cast<std::int64_t>(state_->metrics.size()),
                                          std::bit_cast<std::int64_t>(options.clip_grad_norm())};
  check_in_sync("the Trainer's options, metrics, or the number of samples of its datasets",
                at::tensor(numbers, at::kLong));
}

std::vector<std::pair<std::string, double>> Trainer::evaluate(const data::Dataset& dataset) {
  if (dataset.size() == 0)
    throw InvalidArgumentError("Trainer::evaluate(): the dataset has no samples");
  State& state = *state_;
  check_same_on_ranks(0, dataset.size());
  const bool distributed = state.ranks > 1;
  const InEvaluation evaluation(*state.module);
  if (distributed) broadcast_parameters(state.module->named_buffers());
  trainer::EpochMeans means(state.metrics.size() + 1, state.device, trainer::kBatchesPerFetch);
  const auto ranks = static_cast<std::size_t>(state.ranks);
  const std::size_t rank = distributed ? static_cast<std::size_t>(state.rank) : 0;
  const std::int64_t own_size = state.options.valid_batch_size();
  trainer::for_each_batch_of_range(
      dataset, dataset.size() * rank / ranks, dataset.size() * (rank + 1) / ranks,
      {own_size > 0 ? own_size : state.options.batch_size(), state.options.workers(), false,
       state.device},
      [&](const data::Batch& batch) {
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

const optim::Scheduler* Trainer::scheduler() const {
  return state_->scheduler.get();
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

void Trainer::check_losses() {
  if (state_->loop != nullptr) state_->loop->check_losses();
}

void Trainer::finish(const std::string& reason) {
  state_->ask(trainer::Wish::Finish, reason);
}

void Trainer::add_to(Checkpoint& checkpoint) {
  State& state = *state_;
  checkpoint.add("model", state.module);
  if (state.optimizer.has_state_of_each_rank) {
    checkpoint.add_per_rank("optimizer", optimizer());
  } else {
    checkpoint.add("optimizer", optimizer());
  }
  if (state.scheduler) checkpoint.add("schedule", *state.scheduler);
  checkpoint.add("scaler", state.scaler);
  checkpoint.add("trainer.step", state.progress.step).add("trainer.epochs", state.epochs_done);
  checkpoint.add("trainer.samples", state.samples_done);
  checkpoint.add("trainer.finished", state.is_finished).add("trainer.order", state.order);
  checkpoint.add("trainer.metrics", state.metrics_text);
  checkpoint.add_per_rank("trainer.sums", state.own_means().sums());
  // Numbers callbacks so that those that options add in front do not count.
  for (std::size_t i = state.own_callbacks; i < state.callbacks.size(); ++i) {
    state.callbacks[i]->add_to(*this, checkpoint,
                               "callback" + std::to_string(i - state.own_callbacks));
  }
}

}  // namespace kolo
