#pragma once

#include <cstdint>
#include <string>

#include "kolo/data/sampler.h"
#include "kolo/trainer.h"
#include "trainer/step_agreement.hpp"
#include "trainer/trainer_state.hpp"

namespace kolo {

// Runs the epochs of one train() call.
class Trainer::Loop {
 public:
  // Throws InvalidArgumentError if the training dataset has no batch for each rank.
  Loop(Trainer& trainer, const Datasets& sets);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();
  // See Trainer.
  void check_losses();

 private:
  DistributedSampler::Options share() const;
  std::int64_t usable_samples(std::int64_t position) const;
  std::string own_order() const;
  std::int64_t samples_per_step() const { return options_.batch_size() * options_.accumulate(); }
  std::int64_t steps_for(std::int64_t samples) const {
    return (samples + samples_per_step() - 1) / samples_per_step();
  }

  void name_metrics();
  void begin();
  trainer::Wish wish() const;
  void heed(const trainer::StepAgreement::Answer& answer);
  void heed_losses_and_wishes();
  // Returns whether the epoch was completed.
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
  // Counts of this rank's samples.
  std::int64_t samples_ = 0;       // that the epoch uses
  std::int64_t position_ = 0;      // used so far in this epoch
  std::int64_t step_samples_ = 0;  // in the current step
  std::int64_t step_used_ = 0;     // used so far in it
  data::Batch last_batch_;         // the one with a bad loss, if any; for name_nonfinite
  bool has_bad_loss_ = false;      // on this rank
  bool stops_ = false;             // all ranks have agreed to stop
};

}  // namespace kolo
