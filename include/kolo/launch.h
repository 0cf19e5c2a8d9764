// A program that starts its ranks itself.
#pragma once

#include <functional>

namespace kolo {

// Makes a program a job, however it was started.
//
//   int main(int argc, char** argv) {
//     return kolo::launch(argc, argv, [] { ... });
//   }
//
// Started by kolo run, mpirun or srun, this process is a rank: calls init(), train() and
// shutdown(), and returns 0. An exception of train() leaves launch().
//
// Started plainly, the process becomes `kolo run` with the same program and arguments, and starts
// the ranks; train() is not called in it. So call launch() first in main(): what stands before it
// happens in the launcher, too. How many ranks:
//  - with the argument --np N: N. The ranks do not see this argument.
//  - in a batch job (Slurm, PBS, LSF): as many as kolo run without -np, on all of its hosts.
//  - otherwise one for each GPU that the process sees, or for each NUMA node that it may run on. If
//    that is one, this process is the rank itself.
// Where srun has started one task on each of several nodes that have several GPUs, kolo run starts
// a rank for each GPU there.
//
// Not for programs of which only some processes call it. Throws InvalidArgumentError for a bad
// --np, and FileError if the program kolo is not found, beside kolo's library or on PATH.
int launch(int argc, char** argv, const std::function<void()>& train);

}  // namespace kolo
