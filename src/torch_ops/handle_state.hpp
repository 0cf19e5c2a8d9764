#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "kolo/error.h"
#include "kolo/handle.h"
#include "torch_ops/session.hpp"

namespace kolo::detail {

template <typename Result>
struct HandleState {
  std::shared_ptr<Session> session;  // its engine answers even after shutdown()
  std::shared_ptr<Operation> operation;
  std::shared_ptr<Device> device;  // where its tensors are; null: on the host
  // When the operation has ended well: a tensor that was given, or what the operation fills, or
  // what is made then.
  std::variant<Result, std::shared_ptr<const Result>, std::function<Result()>> outcome;

  Result result() const {
    if (const auto* given = std::get_if<0>(&outcome)) return *given;
    if (const auto* filled = std::get_if<1>(&outcome)) return **filled;
    return std::get<2>(outcome)();
  }
};

}  // namespace kolo::detail

namespace kolo {

// Any thread may drive the engine; what an operation does with tensors there must not depend on
// that thread's mode, but on the mode of the thread that submits.
inline void keep_mode(Operation& operation) {
  const bool mode = c10::InferenceMode::is_enabled();
  if (operation.finish) {
    operation.finish = [mode, finish = std::move(operation.finish)] {
      const c10::InferenceMode guard(mode);
      finish();
    };
  }
  if (operation.make_result) {
    operation.make_result = [mode, make = std::move(operation.make_result)](
                                std::size_t index, const std::vector<std::int64_t>& rows) {
      const c10::InferenceMode guard(mode);
      return make(index, rows);
    };
  }
}

// Hands the operation to its session's engine; throws if it is refused.
template <typename Result>
BasicHandle<Result> submit(detail::HandleState<Result> state) {
  keep_mode(*state.operation);
  if (state.operation->descriptor.device != DeviceKind::kCpu) {
    throw_if_error(state.session->cuda_device().find(std::nullopt, state.device));
    finish_on_device(state.device, *state.operation);
  }
  throw_if_error(state.session->engine().submit(state.operation));
  return BasicHandle<Result>(std::make_unique<detail::HandleState<Result>>(std::move(state)));
}

// The same for a result that is there already, as the tensor that is worked on in place.
template <typename Result>
BasicHandle<Result> submit(const std::shared_ptr<Session>& session,
                           std::shared_ptr<Operation> operation, Result given) {
  return submit<Result>(
      detail::HandleState<Result>{session, std::move(operation), nullptr, std::move(given)});
}

// The same for a result that the operation fills.
template <typename Result>
BasicHandle<Result> submit(const std::shared_ptr<Session>& session,
                           std::shared_ptr<Operation> operation,
                           std::shared_ptr<const Result> result) {
  return submit<Result>(
      detail::HandleState<Result>{session, std::move(operation), nullptr, std::move(result)});
}

}  // namespace kolo
