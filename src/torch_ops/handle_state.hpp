#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>

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

// Hands the operation to the session's engine; throws if it is refused.
template <typename Result>
BasicHandle<Result> submit_for(const std::shared_ptr<Session>& session,
                               std::shared_ptr<Operation> operation,
                               std::function<Result()> result) {
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
