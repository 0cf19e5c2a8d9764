// The handle of an asynchronous operation.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>

namespace kolo {

namespace detail {
struct HandleState;
}

// Belongs to one operation. Move-only; any thread may hold it, one at a time.
//
// Destroying a handle without wait() lets the operation go on: it keeps its tensors alive and, in
// place, still changes them. Its error is lost then.
class [[nodiscard]] Handle {
 public:
  using Seconds = std::chrono::duration<double>;

  explicit Handle(std::unique_ptr<detail::HandleState> state);
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  // Waits until the operation has ended on this rank and gives its result: for an operation in
  // place the tensor itself. May be called again. Throws what went wrong (kolo/error.h), or
  // TimeoutError if the operation has not ended in time; then it goes on and wait() may be tried
  // again.
  at::Tensor wait(std::optional<Seconds> timeout = std::nullopt);

  // Whether wait() would return or throw at once.
  bool ready();

  // For operations submitted as absent: no rank had values, and the tensor is untouched. Only after
  // wait().
  bool absent_everywhere() const;

 private:
  std::unique_ptr<detail::HandleState> state_;
};

}  // namespace kolo
