#include "kolo/handle.h"

#include "kolo/operations.h"
#include "torch_ops/ops/handle_state.hpp"

namespace kolo {
namespace {

template <typename Result>
detail::HandleState<Result>& checked(const std::unique_ptr<detail::HandleState<Result>>& state) {
  if (state) return *state;
  throw InvalidArgumentError("this kolo::Handle was moved from and belongs to no operation");
}

void use(const at::Tensor& result) {
  use_on_device(result);
}
void use(const std::vector<at::Tensor>& results) {
  for (const at::Tensor& result : results) use_on_device(result);
}
void use(const AlltoallResult& result) {
  use_on_device(result.output);
}

at::TensorList tensors_in(const at::Tensor& result) {
  return result;
}
at::TensorList tensors_in(const std::vector<at::Tensor>& results) {
  return results;
}
at::TensorList tensors_in(const AlltoallResult& result) {
  return result.output;
}

}  // namespace

void detail::Watched::release(at::TensorList tensors) {
  const auto versions = std::exchange(versions_, {});
  for (std::size_t i = 0; i < versions.size() && !changed_; ++i)
    if (versions[i] != kNone && versions[i] != tensors[i]._version()) changed_ = i;
}

void detail::Watched::check(const Submission& submission) {
  const auto changed = std::exchange(changed_, {});
  if (!changed) return;
  const Operation& operation = *submission.operation;
  throw InvalidArgumentError(
      std::string(name_of(operation.descriptor.kind)) + " of '" + operation.name + "' on rank " +
      std::to_string(submission.session->topology().rank) + ": " +
      (count_ == 1 ? "the tensor" : "tensor " + std::to_string(*changed) + " of the group") +
      " was changed before wait() returned, while the operation worked on it in place; its values "
      "are undefined");
}

template <typename Result>
BasicHandle<Result>::BasicHandle(std::unique_ptr<detail::HandleState<Result>> state)
    : state_(std::move(state)) {}
template <typename Result>
BasicHandle<Result>::BasicHandle(BasicHandle&& other) noexcept = default;
template <typename Result>
BasicHandle<Result>& BasicHandle<Result>::operator=(BasicHandle&& other) noexcept = default;
template <typename Result>
BasicHandle<Result>::~BasicHandle() = default;

template <typename Result>
Result BasicHandle<Result>::wait(std::optional<Seconds> timeout) {
  detail::HandleState<Result>& state = checked(state_);
  std::optional<Clock::duration> limit;
  if (timeout) limit = seconds(timeout->count());
  WaitsOnDevice results;
  state.wait(limit, results);
  Result result = state.result();
  state.watched.release(tensors_in(result));
  state.watched.check(state);
  if (state.device != nullptr) use(result);
  return result;
}

template <typename Result>
bool BasicHandle<Result>::ready() {
  detail::HandleState<Result>& state = checked(state_);
  if (!state.session->engine().ready(state.operation)) return false;
  if (const auto* given = std::get_if<0>(&state.outcome)) state.watched.release(tensors_in(*given));
  return true;
}

template class BasicHandle<at::Tensor>;
template class BasicHandle<std::vector<at::Tensor>>;
template class BasicHandle<AlltoallResult>;

}  // namespace kolo
