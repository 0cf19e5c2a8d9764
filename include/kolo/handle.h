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

// Refers to one operation in flight. Move-only. Any thread may use it, but only one at a time.
//
// The tensors of an operation are released when it ends, on the engine's thread or on a thread of
// the program that submits or waits.
//
// Before wait() has returned or ready() has returned true, the program must not change the
// operation's tensors in place. For an allreduce or a broadcast, wait() throws InvalidArgumentError
// after such a change. kolo does not detect changes of views, of tensors made in inference mode,
// and of tensors that it has copied, as for averages of integers.
//
// If a handle is destroyed without wait(), the operation continues: it keeps its tensors alive and,
// in place, still changes them. Its error is lost.
template <typename Result>
class [[nodiscard]] BasicHandle {
 public:
  // The timeout of wait().
  using Seconds = std::chrono::duration<double>;

  // Created by the call that submits an operation.
  explicit BasicHandle(std::unique_ptr<detail::HandleState<Result>> state);
  BasicHandle(BasicHandle&& other) noexcept;
  BasicHandle& operator=(BasicHandle&& other) noexcept;
  BasicHandle(const BasicHandle&) = delete;
  BasicHandle& operator=(const BasicHandle&) = delete;
  ~BasicHandle();

  // Waits until the operation has ended on this rank, and returns its result: for an in-place
  // operation the tensor itself. May be called again. Throws the error of the operation
  // (kolo/error.h), or TimeoutError if the operation has not ended in time; the operation then
  // continues, and wait() may be called again.
  Result wait(std::optional<Seconds> timeout = std::nullopt);

  // Whether wait() would return or throw at once.
  bool ready();

 private:
  std::unique_ptr<detail::HandleState<Result>> state_;
};

// Handles of an operation on one tensor, and of one on several tensors.
using Handle = BasicHandle<at::Tensor>;
using GroupHandle = BasicHandle<std::vector<at::Tensor>>;

}  // namespace kolo
