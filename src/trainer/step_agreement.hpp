// What ranks tell each other in every step of a Trainer.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kolo/handle.h"

namespace kolo::trainer {

// All ranks stop after the same step, and all fail in the same one, while what they tell travels
// with the gradients.
class StepAgreement {
 public:
  struct Answer {
    bool stop = false;                    // a rank wants to stop
    std::optional<int> rank_of_bad_loss;  // the last one whose loss is not finite
  };

  // `alone`: nothing is exchanged.
  explicit StepAgreement(bool alone);
  // Collective, as answer() is, which follows it.
  void tell(bool stop, bool has_bad_loss);
  Answer answer();

 private:
  const bool alone_;
  const int rank_;
  const at::Tensor flags_;  // int32 [2]: stop; 1 + the rank of a bad loss
  std::optional<Handle> handle_;
};

}  // namespace kolo::trainer
