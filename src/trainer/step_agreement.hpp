// The ranks' agreement, in every step of a Trainer, whether to continue.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kolo/handle.h"

namespace kolo::trainer {

// A rank's request. All ranks follow the strongest one; later values are stronger.
enum class Wish : std::uint8_t {
  GoOn = 0,
  Stop = 1,    // continues later, from a checkpoint
  Finish = 2,  // nothing is left to do
};

// Makes all ranks stop after the same step, and fail in the same one. The messages travel at the
// same time as the gradients.
class StepAgreement {
 public:
  struct Answer {
    Wish wish = Wish::GoOn;               // the strongest one
    std::optional<int> rank_of_bad_loss;  // the highest rank whose loss is not finite
  };

  // `alone`: exchanges nothing.
  explicit StepAgreement(bool alone);
  // Collective, like answer(), which must follow.
  void tell(Wish wish, bool has_bad_loss);
  Answer answer();

 private:
  const bool alone_;
  const int rank_;
  const at::Tensor flags_;  // int32 [2]: a Wish; 1 + the rank of a bad loss
  std::optional<Handle> handle_;
};

}  // namespace kolo::trainer
