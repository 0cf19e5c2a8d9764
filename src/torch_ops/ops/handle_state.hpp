#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "kolo/error.h"
#include "kolo/handle.h"
#include "torch_ops/ops/requests.hpp"

namespace kolo::detail {

// Tensors that an operation works on in place. Nothing else may change them before the operation
// has ended.
class Watched {
 public:
  Watched() = default;
  explicit Watched(at::TensorList tensors) {
    for (const at::Tensor& tensor : tensors) versions_.push_back(version_of(tensor));
    count_ = versions_.size();
  }

  // Called when the operation has ended, with the constructor's tensors. Later changes of them do
  // not matter.
  void release(at::TensorList tensors);
  // After release(): throws InvalidArgumentError, once, if a tensor was changed too early.
  void check(const Submission& submission);

 private:
  // Marks tensors that are not watched: a view counts changes of its whole storage, and a tensor
  // made in inference mode counts none.
  static constexpr std::int64_t kNone = -1;
  static std::int64_t version_of(const at::Tensor& tensor) {
    const bool is_view = !tensor.has_storage() || tensor.storage().nbytes() != tensor.nbytes();
    return is_view || tensor.is_inference() ? kNone : tensor._version();
  }

  c10::SmallVector<std::int64_t, 1> versions_;  // before release()
  std::optional<std::size_t> changed_;          // position of the first one
  std::size_t count_ = 0;                       // number of tensors
};

template <typename Result>
struct HandleState : Submission {
  // The result after success: a given tensor, an object that the operation fills, or a function
  // that makes it.
  std::variant<Result, std::shared_ptr<const Result>, std::function<Result()>> outcome;
  Watched watched = {};

  Result result() const {
    if (const auto* given = std::get_if<0>(&outcome)) return *given;
    if (const auto* filled = std::get_if<1>(&outcome)) return **filled;
    return std::get<2>(outcome)();
  }
};

}  // namespace kolo::detail

namespace kolo {

// Returns the submission's handle. `outcome`: one of those in HandleState.
template <typename Result, typename Outcome>
BasicHandle<Result> handle_of(Submission submission, Outcome outcome) {
  return BasicHandle<Result>(std::make_unique<detail::HandleState<Result>>(
      detail::HandleState<Result>{std::move(submission), std::move(outcome)}));
}

// Submits an operation whose result already exists, such as the tensor that it works on.
template <typename Result>
BasicHandle<Result> submit(const Call& call, std::shared_ptr<Operation> operation, Result given) {
  return handle_of<Result>(submit(call, std::move(operation)), std::move(given));
}

// Submits an operation that fills its result.
template <typename Result>
BasicHandle<Result> submit(const Call& call, std::shared_ptr<Operation> operation,
                           std::shared_ptr<const Result> result) {
  return handle_of<Result>(submit(call, std::move(operation)), std::move(result));
}

// Submits an operation and waits for its result, which already exists.
template <typename Result>
Result run(const Call& call, std::shared_ptr<Operation> operation, Result given) {
  const Engine::WaitsAtOnce waits;
  return submit(call, std::move(operation), std::move(given)).wait();
}

}  // namespace kolo
