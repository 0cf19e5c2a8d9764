// Lets a program start its ranks itself.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

namespace kolo {
namespace detail {
int launch(int argc, char** argv, const std::function<int()>& train);
}  // namespace detail

// Runs a program as a job, in whichever way it was started.
//
//   int main(int argc, char** argv) {
//     return kolo::launch(argc, argv, [] { ... });
//   }
//
// If kolo run, mpirun or srun has started this process, it is a rank: launch() calls init(),
// train() and shutdown(), and returns the result of train(), or 0 if that is void. An exception of
// train() leaves launch().
//
// Otherwise the process becomes `kolo run` with the same program and arguments, and starts the
// ranks; train() is not called in it. So call launch() first in main(): code before it also runs in
// the launcher. The number of ranks:
//  - with the argument --np N it is N; the ranks do not see this argument;
//  - in a batch job (Slurm, PBS, LSF) it is that of kolo run without -np, on all of its hosts;
//  - otherwise there is one for each GPU that the process sees, or without GPUs one for each NUMA
//    node that it may run on. If that is one, this process is the rank itself.
// If srun has started one task on each node, and the nodes have several GPUs, kolo run starts a
// rank for each GPU there.
//
// All processes of the job call it. Throws InvalidArgumentError for an invalid --np, or for --np in
// a process that is already a rank, and FileError if the program kolo is found neither beside
// kolo's library nor on PATH.
template <class Train>
int launch(int argc, char** argv, Train train) {
  if constexpr (std::is_void_v<std::invoke_result_t<Train&>>) {
    return detail::launch(argc, argv, [&train] {
      train();
      return 0;
    });
  } else {
    return detail::launch(argc, argv, [&train]() -> int { return train(); });
  }
}

}  // namespace kolo
