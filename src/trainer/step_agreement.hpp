// Agreement of the ranks in every step of a Trainer: whether to go on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kolo/handle.h"

namespace kolo::trainer {

// Request of a rank. All ranks follow the strongest one; later values are stronger.
enum class Wish : std::uint8_t {
  GoOn = 0,
  Stop = 1,    // to go on later, from a checkpoint
  Finish = 2,  // there is nothing left to do
};

// All ranks stop after the same step, and all fail in the same one, while what they tell travels
// with the gradients.
class StepAgreement {
 public:
  struct Answer {
    Wish wish = Wish::GoOn;               // the strongest
    std::optional<int> rank_of_bad_loss;  // the last one whose loss is not finite
  };

  // `alone`: nothing is exchanged.
  explicit StepAgreement(bool alone);
  // Collective, as answer() is, which follows it.
  void tell(Wish wish, bool has_bad_loss);
  Answer answer();

 private:
  const bool alone_;
  const int rank_;
  const at::Tensor flags_;  // int32 [2]: a Wish; 1 + the rank of a bad loss
  std::optional<Handle> handle_;
};

}  // namespace kolo::trainer
