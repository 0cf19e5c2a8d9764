#include "kolo/handle.h"

#include "kolo/error.h"
#include "torch_ops/handle_state.hpp"

namespace kolo {

Handle::Handle(std::unique_ptr<detail::HandleState> state) : state_(std::move(state)) {}
Handle::Handle(Handle&& other) noexcept = default;
Handle& Handle::operator=(Handle&& other) noexcept = default;
Handle::~Handle() = default;

namespace {
detail::HandleState& checked(const std::unique_ptr<detail::HandleState>& state) {
  if (state) return *state;
  throw InvalidArgumentError("this kolo::Handle was moved from and belongs to no operation");
}
}  // namespace

at::Tensor Handle::wait(std::optional<Seconds> timeout) {
  detail::HandleState& state = checked(state_);
  std::optional<Clock::duration> limit;
  if (timeout) limit = seconds(timeout->count());
  throw_if_error(state.session->engine().wait(state.operation, limit));
  return state.result;
}

bool Handle::ready() {
  detail::HandleState& state = checked(state_);
  return state.session->engine().ready(state.operation);
}

bool Handle::absent_everywhere() const {
  return checked(state_).operation->absent_everywhere();
}

Handle submit(const std::shared_ptr<Session>& session, std::shared_ptr<Operation> operation,
              at::Tensor result) {
  throw_if_error(session->engine().submit(operation));
  return Handle(std::make_unique<detail::HandleState>(
      detail::HandleState{session, std::move(operation), std::move(result)}));
}

}  // namespace kolo
