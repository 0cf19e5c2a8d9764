// Learning rate schedules, with the names, arguments and values of Python's
// torch.optim.lr_scheduler. A schedule is a function of the epoch; a Scheduler applies it to an
// optimizer.
//
//   using namespace kolo::optim;
//   Scheduler scheduler(optimizer, warm_up(5, CosineAnnealingLR(epochs - 5)));
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     train(epoch);
//     scheduler.step();
//   }
//
// An epoch is whatever the program counts by: it calls step() after each optimizer step, or after
// each pass over the data. Nothing here is collective. For LibTorch's ReduceLROnPlateauScheduler,
// give step() the metric of all ranks: kolo::average(metric).
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kolo::optim {

// Returns the learning rate in an epoch, 0 or more, of a parameter group whose rate was `base` when
// the scheduler was made. Any function can be used; those below throw InvalidArgumentError, when
// they are made, for arguments that are out of range.
using Schedule = std::function<double(double base, std::int64_t epoch)>;

// Sets the learning rates of an optimizer's groups by a schedule. As in Python, and unlike
// LibTorch's own schedulers, the constructor sets the rates of epoch 0 and the first step() those
// of epoch 1. Rates depend on nothing but the epoch and the groups' rates when the scheduler was
// made, so one that Checkpoint restores goes on with the same bits. One thread at a time.
class Scheduler : public torch::optim::LRScheduler {
 public:
  // The optimizer must outlive the scheduler, and must not get further groups. The current rates of
  // its groups are the bases, so make the scheduler before an optimizer's state is loaded.
  // InvalidArgumentError for a null schedule. `momentum` sets the groups' momentum (the first beta
  // of Adam and similar optimizers) in the same way, relative to their current momentum. If it is
  // null, the momentum does not change. InvalidArgumentError for an optimizer without momentum.
  Scheduler(torch::optim::Optimizer& optimizer, Schedule schedule, Schedule momentum = nullptr);
  // The number of calls of step() so far.
  std::int64_t epoch() const { return step_count_; }

 private:
  std::vector<double> rates(std::int64_t epoch) const;
  void set_momenta(std::int64_t epoch);
  std::vector<double> get_lrs() override;

  torch::optim::Optimizer& optimizer_;
  const Schedule schedule_;
  const Schedule momentum_;                   // may be null
  const std::vector<double> bases_;           // by group
  const std::vector<double> momentum_bases_;  // by group
};

// base * factor(epoch).
class LambdaLR {
 public:
  // `factor`: returns the factor of an epoch.
  explicit LambdaLR(std::function<double(std::int64_t)> factor);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  std::function<double(std::int64_t)> factor_;
};

// base * gamma^(epoch / step_size), with integer division.
class StepLR {
 public:
  // `step_size`: epochs, at least 1.
  explicit StepLR(std::int64_t step_size, double gamma = 0.1);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  std::int64_t step_size_;
  double gamma_;
};

// base * gamma^n, where n is the number of milestones up to this epoch. Milestones must ascend.
class MultiStepLR {
 public:
  // `milestones`: epochs.
  explicit MultiStepLR(std::vector<std::int64_t> milestones, double gamma = 0.1);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  std::vector<std::int64_t> milestones_;
  double gamma_;
};

// base * gamma^epoch.
class ExponentialLR {
 public:
  // `gamma`: the factor of one epoch.
  explicit ExponentialLR(double gamma);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  double gamma_;
};

// base * factor before epoch total_iters, base from then on. factor is in [0, 1].
class ConstantLR {
 public:
  // `total_iters`: epochs.
  explicit ConstantLR(double factor = 1.0 / 3, std::int64_t total_iters = 5);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  double factor_;
  std::int64_t total_iters_;
};

// Changes linearly from base * start_factor, in (0, 1], to base * end_factor, in [0, 1], which it
// reaches in epoch total_iters and then keeps.
class LinearLR {
 public:
  // `total_iters`: epochs, at least 1.
  explicit LinearLR(double start_factor = 1.0 / 3, double end_factor = 1.0,
                    std::int64_t total_iters = 5);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  double start_factor_;
  double end_factor_;
  std::int64_t total_iters_;
};

// base * (1 - epoch / total_iters)^power, and 0 from epoch total_iters on.
class PolynomialLR {
 public:
  // `total_iters`: epochs, at least 1.
  explicit PolynomialLR(std::int64_t total_iters = 5, double power = 1.0);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  std::int64_t total_iters_;
  double power_;
};

// eta_min + (base - eta_min) * (1 + cos(pi * epoch / t_max)) / 2: down to eta_min in epoch t_max,
// and up again after it. Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983.
class CosineAnnealingLR {
 public:
  // `t_max`: epochs, at least 1.
  explicit CosineAnnealingLR(std::int64_t t_max, double eta_min = 0);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  std::int64_t t_max_;
  double eta_min_;
};

// Like CosineAnnealingLR, but jumps from eta_min back to base. The first period has t_0 epochs;
// each further period has t_mult times as many as the one before. Loshchilov and Hutter 2017.
class CosineAnnealingWarmRestarts {
 public:
  // `t_0`: epochs, at least 1; `t_mult`: at least 1.
  explicit CosineAnnealingWarmRestarts(std::int64_t t_0, std::int64_t t_mult = 1,
                                       double eta_min = 0);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  std::int64_t t_0_;
  std::int64_t t_mult_;
  double eta_min_;
};

// Options of OneCycleLR; the defaults are Python's.
struct OneCycleOptions {
  double pct_start = 0.3;         // the part of the cycle in which the rate rises, in [0, 1]
  bool linear = false;            // anneals in straight lines; otherwise along a cosine
  double div_factor = 25;         // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last one is the first one / final_div_factor
  bool three_phase = false;  // falls to the first rate as fast as it rose, then to the last one
};

// Rises to max_lr and falls again within total_steps: Smith and Topin 2018,
// https://arxiv.org/abs/1708.07120. The groups' own rates are not used. Call step() after each
// optimizer step; more than total_steps calls throw InvalidArgumentError. Python also cycles
// momenta; here that is a schedule of its own:
//
//   Scheduler scheduler(optimizer, OneCycleLR(0.1, steps), OneCycleMomentum(steps));
class OneCycleLR {
 public:
  // `total_steps`: at least 1.
  OneCycleLR(double max_lr, std::int64_t total_steps, const OneCycleOptions& options = {});
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  friend class OneCycleMomentum;
  // Describes a phase by its end, and the rate at its end.
  struct Phase {
    double end;
    double rate;
  };
  // The values at the start, at the top and at the end.
  OneCycleLR(std::int64_t total_steps, const OneCycleOptions& options, double first, double top,
             double last);

  std::int64_t total_steps_;
  bool linear_;
  double first_rate_;
  std::vector<Phase> phases_;
};

// The momentum that belongs to OneCycleLR: falls from max_momentum to base_momentum while the rate
// rises, and rises again while it falls. The groups' own momenta are not used.
class OneCycleMomentum {
 public:
  // Uses pct_start, linear and three_phase of the options, as OneCycleLR does.
  explicit OneCycleMomentum(std::int64_t total_steps, const OneCycleOptions& options = {},
                            double base_momentum = 0.85, double max_momentum = 0.95);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  OneCycleLR cycle_;
};

// Applies schedules one after the other: each begins, with its epoch 0, in the epoch of a
// milestone. There is one milestone fewer than schedules. Milestones must ascend.
class SequentialLR {
 public:
  // `milestones`: epochs.
  SequentialLR(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones);
  // See Schedule.
  double operator()(double base, std::int64_t epoch) const;

 private:
  std::vector<Schedule> schedules_;
  std::vector<std::int64_t> milestones_;
};

// Returns a schedule that rises from base * start_factor for `steps` epochs, and continues with
// `then`, which begins with its epoch 0.
SequentialLR warm_up(std::int64_t steps, Schedule then, double start_factor = 0.01);

}  // namespace kolo::optim
