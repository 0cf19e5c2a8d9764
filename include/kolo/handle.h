// The handle of an asynchronous operation.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace kolo {

namespace detail {
template <typename Result>
struct HandleState;
}

// Belongs to one operation. Move-only; any thread may hold it, one at a time.
//
// What an operation was given is released when it ends, on the thread that carries it out.
//
// The program must not change the tensors of an operation in place before wait() has returned, or
// ready() has returned true. If it has changed one that was given to an allreduce or a broadcast,
// wait() throws InvalidArgumentError. Not noticed: changes of views and of tensors that were made
// in inference mode, and where kolo works on a copy, as for averages of integers.
//
// Destroying a handle without wait() lets the operation go on: it keeps its tensors alive and, in
// place, still changes them. Its error is lost then.
template <typename Result>
class [[nodiscard]] BasicHandle {
 public:
  // Of wait().
  using Seconds = std::chrono::duration<double>;

  // Made by the call that submits an operation, and moved.
  explicit BasicHandle(std::unique_ptr<detail::HandleState<Result>> state);
  BasicHandle(BasicHandle&& other) noexcept;
  BasicHandle& operator=(BasicHandle&& other) noexcept;
  BasicHandle(const BasicHandle&) = delete;
  BasicHandle& operator=(const BasicHandle&) = delete;
  ~BasicHandle();

  // Waits until the operation has ended on this rank and gives its result: for an operation in
  // place the tensor itself. May be called again. Throws what went wrong (kolo/error.h), or
  // TimeoutError if the operation has not ended in time; then it goes on and wait() may be tried
  // again.
  Result wait(std::optional<Seconds> timeout = std::nullopt);

  // Whether wait() would return or throw at once.
  bool ready();

 private:
  std::unique_ptr<detail::HandleState<Result>> state_;
};

// Of an operation on one tensor, and on a group of tensors.
using Handle = BasicHandle<at::Tensor>;
using GroupHandle = BasicHandle<std::vector<at::Tensor>>;

}  // namespace kolo
