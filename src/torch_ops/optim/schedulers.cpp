#include "kolo/optim/schedulers.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "kolo/error.h"
#include "kolo/optim/adamax.h"
#include "kolo/optim/lamb.h"
#include "kolo/optim/lars.h"
#include "kolo/optim/nadam.h"
#include "kolo/optim/radam.h"

namespace kolo::optim {
namespace {

constexpr double kPi = 3.14159265358979323846;

void require(bool right, const std::string& what) {
  if (!right) throw InvalidArgumentError(what);
}

void require_rising(const char* scheduler, const std::vector<std::int64_t>& milestones) {
  require(std::is_sorted(milestones.begin(), milestones.end()),
          std::string(scheduler) + ": the milestones must increase");
}

std::int64_t positive(const char* what, std::int64_t value) {
  require(value > 0, std::string(what) + " is " + std::to_string(value) + "; it must be above 0");
  return value;
}

std::vector<double> rates_of(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

template <class Options>
bool visit_momentum_of(torch::optim::OptimizerOptions& options,
                       const std::function<void(double&)>& visit) {
  auto* const mine = dynamic_cast<Options*>(&options);
  if (mine == nullptr) return false;
  if constexpr (requires { mine->momentum(); }) {
    visit(mine->momentum());
  } else {
    visit(std::get<0>(mine->betas()));
  }
  return true;
}

// Visits the momentum, or the first beta.
void visit_momentum(torch::optim::OptimizerOptions& options,
                    const std::function<void(double&)>& visit) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace): of both
  require(visit_momentum_of<SGDOptions>(options, visit) ||
              visit_momentum_of<RMSpropOptions>(options, visit) ||
              visit_momentum_of<LARSOptions>(options, visit) ||
              visit_momentum_of<AdamOptions>(options, visit) ||
              visit_momentum_of<AdamWOptions>(options, visit) ||
              visit_momentum_of<AdamaxOptions>(options, visit) ||
              visit_momentum_of<LAMBOptions>(options, visit) ||
              visit_momentum_of<NAdamOptions>(options, visit) ||
              visit_momentum_of<RAdamOptions>(options, visit),
          "Scheduler: the optimizer has neither momentum nor betas");
}

std::vector<double> momenta_of(torch::optim::Optimizer& optimizer) {
  std::vector<double> momenta;
  for (auto& group : optimizer.param_groups())
    visit_momentum(group.options(), [&](const double& value) { momenta.push_back(value); });
  return momenta;
}

// Follows half a period of a cosine: from `from`, at 0, to `to`, at 1.
double along_cosine(double from, double to, double at) {
  return to + (from - to) * (1 + std::cos(kPi * at)) / 2;
}

}  // namespace

Scheduler::Scheduler(torch::optim::Optimizer& optimizer, Schedule schedule, Schedule momentum)
    : LRScheduler(optimizer),
      optimizer_(optimizer),
      schedule_(std::move(schedule)),
      momentum_(std::move(momentum)),
      bases_(rates_of(optimizer)),
      momentum_bases_(momentum_ == nullptr ? std::vector<double>() : momenta_of(optimizer)) {
  require(schedule_ != nullptr, "Scheduler: there is no schedule");
  const std::vector<double> first = rates(0);
  for (std::size_t i = 0; i < first.size(); ++i)
    optimizer.param_groups()[i].options().set_lr(first[i]);
  set_momenta(0);
}

void Scheduler::set_momenta(std::int64_t epoch) {
  for (std::size_t i = 0; i < momentum_bases_.size(); ++i) {
    const double momentum = momentum_(momentum_bases_[i], epoch);
    visit_momentum(optimizer_.param_groups()[i].options(),
                   [&](double& value) { value = momentum; });
  }
}

std::vector<double> Scheduler::rates(std::int64_t epoch) const {
  std::vector<double> all;
  all.reserve(bases_.size());
  for (const double base : bases_) all.push_back(schedule_(base, epoch));
  return all;
}

// Returns the rates that LibTorch sets; LibTorch also counts the step.
std::vector<double> Scheduler::get_lrs() {
  set_momenta(epoch() + 1);
  return rates(epoch() + 1);
}

LambdaLR::LambdaLR(std::function<double(std::int64_t)> factor) : factor_(std::move(factor)) {
  require(factor_ != nullptr, "LambdaLR: there is no function");
}
double LambdaLR::operator()(double base, std::int64_t epoch) const {
  return base * factor_(epoch);
}

StepLR::StepLR(std::int64_t step_size, double gamma)
    : step_size_(positive("StepLR: step_size", step_size)), gamma_(gamma) {}
double StepLR::operator()(double base, std::int64_t epoch) const {
  const std::int64_t passed = epoch / step_size_;
  return base * std::pow(gamma_, static_cast<double>(passed));
}

MultiStepLR::MultiStepLR(std::vector<std::int64_t> milestones, double gamma)
    : milestones_(std::move(milestones)), gamma_(gamma) {
  require_rising("MultiStepLR", milestones_);
}
double MultiStepLR::operator()(double base, std::int64_t epoch) const {
  const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), epoch);
  return base * std::pow(gamma_, static_cast<double>(passed - milestones_.begin()));
}

ExponentialLR::ExponentialLR(double gamma) : gamma_(gamma) {}
double ExponentialLR::operator()(double base, std::int64_t epoch) const {
  return base * std::pow(gamma_, static_cast<double>(epoch));
}

ConstantLR::ConstantLR(double factor, std::int64_t total_iters)
    : factor_(factor), total_iters_(total_iters) {
  require(factor >= 0 && factor <= 1,
          "ConstantLR: factor is " + std::to_string(factor) + "; it must be between 0 and 1");
}
double ConstantLR::operator()(double base, std::int64_t epoch) const {
  return epoch < total_iters_ ? base * factor_ : base;
}

LinearLR::LinearLR(double start_factor, double end_factor, std::int64_t total_iters)
    : start_factor_(start_factor),
      end_factor_(end_factor),
      total_iters_(positive("LinearLR: total_iters", total_iters)) {
  require(start_factor > 0 && start_factor <= 1, "LinearLR: start_factor is " +
                                                     std::to_string(start_factor) +
                                                     "; it must be above 0 and at most 1");
  require(end_factor >= 0 && end_factor <= 1,
          "LinearLR: end_factor is " + std::to_string(end_factor) + "; it must be between 0 and 1");
}
double LinearLR::operator()(double base, std::int64_t epoch) const {
  const auto done = static_cast<double>(std::min(epoch, total_iters_));
  const double part = done / static_cast<double>(total_iters_);
  return base * (start_factor_ + (end_factor_ - start_factor_) * part);
}

PolynomialLR::PolynomialLR(std::int64_t total_iters, double power)
    : total_iters_(positive("PolynomialLR: total_iters", total_iters)), power_(power) {}
double PolynomialLR::operator()(double base, std::int64_t epoch) const {
  const auto done = static_cast<double>(std::min(epoch, total_iters_));
  return base * std::pow(1 - done / static_cast<double>(total_iters_), power_);
}

CosineAnnealingLR::CosineAnnealingLR(std::int64_t t_max, double eta_min)
    : t_max_(positive("CosineAnnealingLR: t_max", t_max)), eta_min_(eta_min) {}
double CosineAnnealingLR::operator()(double base, std::int64_t epoch) const {
  return along_cosine(base, eta_min_, static_cast<double>(epoch) / static_cast<double>(t_max_));
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(std::int64_t t_0, std::int64_t t_mult,
                                                         double eta_min)
    : t_0_(positive("CosineAnnealingWarmRestarts: t_0", t_0)),
      t_mult_(positive("CosineAnnealingWarmRestarts: t_mult", t_mult)),
      eta_min_(eta_min) {}
double CosineAnnealingWarmRestarts::operator()(double base, std::int64_t epoch) const {
  std::int64_t length = t_0_;
  std::int64_t since = epoch;
  if (t_mult_ == 1) since %= t_0_;
  while (since >= length) {
    since -= length;
    length *= t_mult_;
  }
  return along_cosine(base, eta_min_, static_cast<double>(since) / static_cast<double>(length));
}

OneCycleLR::OneCycleLR(double max_lr, std::int64_t total_steps, const OneCycleOptions& options)
    : OneCycleLR(total_steps, options, max_lr / options.div_factor, max_lr,
                 max_lr / options.div_factor / options.final_div_factor) {}
OneCycleLR::OneCycleLR(std::int64_t total_steps, const OneCycleOptions& options, double first,
                       double top, double last)
    : total_steps_(positive("OneCycleLR: total_steps", total_steps)),
      linear_(options.linear),
      first_rate_(first) {
  require(options.pct_start >= 0 && options.pct_start <= 1, "OneCycleLR: pct_start is " +
                                                                std::to_string(options.pct_start) +
                                                                "; it must be between 0 and 1");
  const auto steps = static_cast<double>(total_steps);
  phases_.push_back({options.pct_start * steps - 1, top});
  if (options.three_phase) phases_.push_back({2 * options.pct_start * steps - 2, first});
  phases_.push_back({steps - 1, last});
}
double OneCycleLR::operator()(double /*base*/, std::int64_t epoch) const {
  require(epoch <= total_steps_, "OneCycleLR: step() was called " + std::to_string(epoch) +
                                     " times, but total_steps is " + std::to_string(total_steps_));
  // Epoch total_steps follows the last optimizer step.
  const auto now = static_cast<double>(std::min(epoch, total_steps_ - 1));
  double begin = 0;
  double from = first_rate_;
  for (const Phase& phase : phases_) {
    if (now <= phase.end || &phase == &phases_.back()) {
      const double at = phase.end == begin ? 1 : (now - begin) / (phase.end - begin);
      return linear_ ? from + (phase.rate - from) * at : along_cosine(from, phase.rate, at);
    }
    begin = phase.end;
    from = phase.rate;
  }
  return from;
}

OneCycleMomentum::OneCycleMomentum(std::int64_t total_steps, const OneCycleOptions& options,
                                   double base_momentum, double max_momentum)
    : cycle_(total_steps, options, max_momentum, base_momentum, max_momentum) {}
double OneCycleMomentum::operator()(double base, std::int64_t epoch) const {
  return cycle_(base, epoch);
}

SequentialLR::SequentialLR(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones)
    : schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  require(!schedules_.empty() && milestones_.size() + 1 == schedules_.size(),
          "SequentialLR: there are " + std::to_string(schedules_.size()) + " schedules and " +
              std::to_string(milestones_.size()) + " milestones; give one milestone fewer");
  require_rising("SequentialLR", milestones_);
  for (const Schedule& schedule : schedules_)
    require(schedule != nullptr, "SequentialLR: a schedule is null");
}
double SequentialLR::operator()(double base, std::int64_t epoch) const {
  const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), epoch);
  const auto index = static_cast<std::size_t>(passed - milestones_.begin());
  return schedules_[index](base, index == 0 ? epoch : epoch - milestones_[index - 1]);
}

SequentialLR warm_up(std::int64_t steps, Schedule then, double start_factor) {
  return SequentialLR({LinearLR(start_factor, 1.0, steps), std::move(then)}, {steps});
}

}  // namespace kolo::optim
