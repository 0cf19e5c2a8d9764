#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "kolo/handle.h"
#include "torch_ops/session.hpp"

namespace kolo::detail {

struct HandleState {
  std::shared_ptr<Session> session;  // its engine answers even after shutdown()
  std::shared_ptr<Operation> operation;
  at::Tensor result;
};

}  // namespace kolo::detail

namespace kolo {

// Hands the operation to the session's engine; throws if it is refused.
Handle submit(const std::shared_ptr<Session>& session, std::shared_ptr<Operation> operation,
              at::Tensor result);

}  // namespace kolo
