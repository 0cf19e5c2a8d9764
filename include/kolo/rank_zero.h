// Runs a function on one rank for all ranks.
#pragma once

#include <kolo/objects.h>

#include <stdexcept>
#include <type_traits>

namespace kolo {

// Calls f() only on rank 0, or on the first rank of the options' process set, while the others
// wait. Returns its result on all ranks. For work such as downloading data once or reading a file.
//
//   const auto words = kolo::on_rank_zero([&] { return read_vocabulary("words.txt"); });
//
// Collective over the process set. f returns void or a type that has a Codec (see kolo/objects.h).
// If f throws, rank 0 rethrows the exception, and the others throw a MismatchError with its text. f
// may take any time; ranks that wait for more than a minute log that
// (KOLO_STALL_CHECK_TIME_SECONDS). f must not call collective operations of kolo.
template <class F>
auto on_rank_zero(F&& f, const OperationOptions& options = {}) {
  using Result = std::decay_t<std::invoke_result_t<F&>>;
  const auto call = [&]() -> std::string {
    try {
      if constexpr (std::is_void_v<Result>) {
        f();
        return detail::pack(true);
      } else {
        return detail::pack<Result>(f());
      }
    } catch (const std::exception&) {
      throw;
    } catch (...) {
      throw std::runtime_error(
          "on_rank_zero: the function threw an exception that is not a std::exception");
    }
  };
  const int first = options.process_set().ranks().front();
  const std::string bytes = detail::broadcast_bytes(call, first, options);
  if constexpr (!std::is_void_v<Result>) return detail::unpack<Result>(bytes);
}

}  // namespace kolo
