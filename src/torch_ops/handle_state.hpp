#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kolo/error.h"
#include "kolo/handle.h"
#include "torch_ops/session.hpp"

namespace kolo::detail {

template <typename Result>
struct HandleState {
  std::shared_ptr<Session> session;  // its engine answers even after shutdown()
  std::shared_ptr<Operation> operation;
  std::function<Result()> result;  // called when the operation has ended well
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

// Hands the operation to the session's engine; throws if it is refused.
template <typename Result>
BasicHandle<Result> submit_for(const std::shared_ptr<Session>& session,
                               std::shared_ptr<Operation> operation,
                               std::function<Result()> result) {
  keep_mode(*operation);
  throw_if_error(session->engine().submit(operation));
  return BasicHandle<Result>(std::make_unique<detail::HandleState<Result>>(
      detail::HandleState<Result>{session, std::move(operation), std::move(result)}));
}

// The same for a result that lies ready when the operation has ended.
template <typename Result>
BasicHandle<Result> submit(const std::shared_ptr<Session>& session,
                           std::shared_ptr<Operation> operation,
                           std::shared_ptr<const Result> result) {
  return submit_for<Result>(session, std::move(operation),
                            [result = std::move(result)] { return *result; });
}

}  // namespace kolo
