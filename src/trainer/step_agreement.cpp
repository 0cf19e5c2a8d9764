#include "trainer/step_agreement.hpp"

#include <ATen/ATen.h>

#include "kolo/init.h"
#include "kolo/operations.h"

namespace kolo::trainer {

StepAgreement::StepAgreement(bool alone)
    : alone_(alone), rank_(alone ? 0 : rank()), flags_(at::zeros({2}, at::kInt)) {}

void StepAgreement::tell(Wish wish, bool has_bad_loss) {
  auto* const flags = flags_.mutable_data_ptr<std::int32_t>();
  flags[0] = static_cast<std::int32_t>(wish);
  flags[1] = has_bad_loss ? rank_ + 1 : 0;
  if (!alone_)
    handle_ = allreduce_async_(flags_, AllreduceOptions("kolo.trainer").op(ReduceOp::Max));
}

StepAgreement::Answer StepAgreement::answer() {
  if (handle_) handle_->wait();
  handle_.reset();
  const auto* const flags = flags_.const_data_ptr<std::int32_t>();
  Answer answer;
  answer.wish = static_cast<Wish>(flags[0]);
  if (flags[1] != 0) answer.rank_of_bad_loss = flags[1] - 1;
  return answer;
}

}  // namespace kolo::trainer
