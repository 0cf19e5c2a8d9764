#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "kolo/callbacks.h"
#include "kolo/error.h"

namespace kolo {

EarlyStopping::EarlyStopping(std::string metric, std::int64_t patience, Better better,
                             double min_delta)
    : metric_(std::move(metric)),
      patience_(patience),
      sign_(better == Better::Lower ? 1 : -1),
      min_delta_(min_delta),
      best_(std::numeric_limits<double>::infinity()) {
  if (patience < 1) {
    throw InvalidArgumentError("EarlyStopping: patience is " + std::to_string(patience) +
                               "; it must be at least 1");
  }
  if (!(min_delta >= 0)) {
    throw InvalidArgumentError("EarlyStopping: min_delta is " + std::to_string(min_delta) +
                               "; it must be at least 0");
  }
}

void EarlyStopping::train_begin(Trainer& trainer) {
  trainer.state().metric(metric_);  // throws if it does not exist
}

void EarlyStopping::epoch_end(Trainer& trainer) {
  const double value = sign_ * trainer.state().metric(metric_);
  if (value < best_ - min_delta_ || (std::isinf(best_) && std::isfinite(value))) {
    best_ = value;
    epochs_without_ = 0;
    return;
  }
  if (++epochs_without_ < patience_) return;
  trainer.finish(metric_ + " has not become better than " + std::to_string(sign_ * best_) + " in " +
                 std::to_string(epochs_without_) + " epochs");
}

void EarlyStopping::add_to(const Trainer& /*trainer*/, Checkpoint& checkpoint,
                           const std::string& prefix) {
  checkpoint.add(prefix + ".best", best_).add(prefix + ".epochs_without", epochs_without_);
}

TimeLimit::TimeLimit(std::chrono::duration<double> limit) : limit_(limit) {
  if (!(limit.count() > 0)) {
    throw InvalidArgumentError("TimeLimit: the limit is " + std::to_string(limit.count()) +
                               " s; it must be above 0");
  }
}

void TimeLimit::train_begin(Trainer& /*trainer*/) {
  begin_ = std::chrono::steady_clock::now();
}

void TimeLimit::step_end(Trainer& trainer) {
  if (std::chrono::steady_clock::now() - begin_ < limit_) return;
  trainer.stop("the time limit of " + std::to_string(limit_.count()) + " s is over");
}

ReduceLROnPlateau::ReduceLROnPlateau(std::string metric, const ReduceLROnPlateauOptions& options)
    : metric_(std::move(metric)),
      options_(options),
      best_((options.better() == Better::Lower ? 1 : -1) *
            std::numeric_limits<double>::infinity()) {
  const auto require = [](bool holds, const char* option, double value, const char* allowed) {
    if (holds) return;
    throw InvalidArgumentError(std::string("ReduceLROnPlateau: ") + option + " is " +
                               std::to_string(value) + "; it must be " + allowed);
  };
  require(options.factor() > 0 && options.factor() < 1, "factor", options.factor(),
          "above 0 and below 1");
  require(options.patience() >= 0, "patience", options.patience(), "at least 0");
  require(options.cooldown() >= 0, "cooldown", options.cooldown(), "at least 0");
  require(options.threshold() >= 0, "threshold", options.threshold(), "at least 0");
  require(options.min_lr() >= 0, "min_lr", options.min_lr(), "at least 0");
  require(options.eps() >= 0, "eps", options.eps(), "at least 0");
}

void ReduceLROnPlateau::train_begin(Trainer& trainer) {
  trainer.state().metric(metric_);  // throws if it does not exist
  if (trainer.scheduler() != nullptr) {
    throw InvalidArgumentError(
        "ReduceLROnPlateau: the Trainer has a schedule(), which would set the learning rate anew; "
        "use one of them");
  }
}

// The formulas are those of Python. LibTorch's ReduceLROnPlateauScheduler has others: for
// Better::Higher it takes no value below 0 for an improvement, and it multiplies by an absolute
// threshold.
bool ReduceLROnPlateau::is_better(double value) const {
  const double threshold = options_.threshold();
  const bool is_relative = options_.threshold_is_relative();
  if (options_.better() == Better::Lower)
    return value < (is_relative ? best_ * (1 - threshold) : best_ - threshold);
  return value > (is_relative ? best_ * (1 + threshold) : best_ + threshold);
}

void ReduceLROnPlateau::reduce_rates(torch::optim::Optimizer& optimizer) const {
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    const double old_rate = group.options().get_lr();
    const double rate = std::max(old_rate * options_.factor(), options_.min_lr());
    if (old_rate - rate > options_.eps()) group.options().set_lr(rate);
  }
}

void ReduceLROnPlateau::epoch_end(Trainer& trainer) {
  const double value = trainer.state().metric(metric_);
  if (is_better(value)) {
    best_ = value;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= options_.patience()) return;
  reduce_rates(trainer.optimizer());
  cooldown_left_ = options_.cooldown();
  bad_epochs_ = 0;
}

void ReduceLROnPlateau::add_to(const Trainer& /*trainer*/, Checkpoint& checkpoint,
                               const std::string& prefix) {
  checkpoint.add(prefix + ".best", best_)
      .add(prefix + ".bad_epochs", bad_epochs_)
      .add(prefix + ".cooldown_left", cooldown_left_);
}

}  // namespace kolo
