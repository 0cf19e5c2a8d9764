// Work that one rank does for all.
#pragma once

#include <kolo/objects.h>

#include <stdexcept>
#include <type_traits>

namespace kolo {

// Calls f() on rank 0 alone (on the first rank of the process set of the options), while the others
// wait, and gives its result to all: to download data once, make a folder, read a file, print.
//
//   const auto words = kolo::on_rank_zero([&] { return read_vocabulary("words.txt"); });
//
// Collective over the process set. The result is nothing or has a Codec (see kolo/objects.h). If f
// throws, so does this call: on rank 0 what f has thrown, on the others a MismatchError with its
// message. Ranks that wait for more than a minute say so (KOLO_STALL_CHECK_TIME_SECONDS); f may
// take longer. f must not call kolo's collective operations, for the others do not.
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
