// The benchmarks of kolo-bench. Each is collective and throws RunFailed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/publish.hpp"
#include "benchmarks/report.hpp"

namespace kolo::bench {

// Works "allocate/BYTES/THREADS/RANKS": a block of memory is taken, written and given back by so
// many threads of rank 0 at once, from kolo's allocator and from LibTorch's stock one. The time of
// one block.
void bench_allocate(Group& group, const Options& options, const Publish& publish);

// Works "allreduce/BYTES/arena|private/RANKS": one float32 tensor, Sum, in place. kolo's lies in
// its arena, where ranks share one, or in private memory; MPI's and gloo's always in private
// memory.
void bench_allreduce(Group& group, const Options& options, const Publish& publish);

// Works "save/BYTES/RANKS", until the state is complete on the disk; "stall/BYTES/RANKS", how long
// an asynchronous save() keeps training from going on; and "restore/BYTES/RANKS", of files that are
// not in the machine's cache. A state of float32 tensors that all ranks have.
void bench_checkpoint(Group& group, const Options& options, const Publish& publish);

// On a GPU, with a CUDA build. Works "pack/MODEL/RANKS": gradients come into a bucket, by kolo's
// kernel or as one copy, by the device's own clock; "step/MODEL/RANKS": backward() and a step of
// SGD, by DistributedOptimizer or by LibTorch's own, until the device has done it; and
// "step-host/MODEL/RANKS": until the host may go on.
void bench_device(Group& group, const Options& options, const Publish& publish);

// Works "reduction/MODEL/RANKS": gradients that are there, from the first submission to the last
// completion; and "gradients/MODEL/RANKS": backward() and the reduction of what it gives.
void bench_gradients(Group& group, const Options& options, const Publish& publish);

// The work "idle/RANKS": the job does nothing but sleep. Its microseconds are the CPU time that all
// ranks together take in a second: 10,000 are a core's hundredth.
void bench_idle(Group& group, const Options& options, const Publish& publish);

// Works "loading/FORM/in-order|shuffled/WORKERS/RANKS": each rank loads an epoch of samples of its
// own files in batches of 64, which are in the machine's cache. FORM: idx (in memory), hdf5
// (contiguous), hdf5-chunks and hdf5-gzip (chunks of one sample).
void bench_loading(Group& group, const Options& options, const Publish& publish);

// Works "negotiate/TENSORS/steady|cold/RANKS": so many tensors of one element, submitted in another
// random order on each rank and awaited, by names that are known or new. Next to nothing has to be
// moved, so the time is that of agreeing.
void bench_negotiate(Group& group, const Options& options, const Publish& publish);

// Works "sgd|adam|adamw/MODEL/RANKS": a step of all of a model's parameters, on each rank by
// itself, by kolo's fused optimizer or by LibTorch's own; and "check-in-sync/MODEL/RANKS": what
// check_in_sync() takes for the model and Adam's state of it.
void bench_optimizer(Group& group, const Options& options, const Publish& publish);

// The work "small/mlp/RANKS": a training step, with SGD, of a network 8 -> 64 -> 64 -> 1 and
// batches of 32.
void bench_small(Group& group, const Options& options, const Publish& publish);

// Works "tune/BYTES/RANKS" of each algorithm for an allreduce over messages, in groups of so many
// ranks. The table goes to the file of --output, or to standard output.
void bench_tune(Group& group, const Options& options, const Publish& publish);

// The work "train/mnist/RANKS": a step of training, as the time per image of all ranks together (of
// "single": of one).
void bench_train(Group& group, const Options& options, const Publish& publish);

// Works "OPERATION/BYTES/MEMORY/RANKS" of float32 tensors, where MEMORY is kolo's usual_memory().
// BYTES are what each rank gives in; barrier has the one work of 0.
void bench_operations(Group& group, const Options& options, const Publish& publish);

// For a work that moves so many bytes: up to a MiB, samples are rehearsed, and each is
// options.calls in a row (fewer where sums would not be exact).
Schedule schedule_of(const Options& options, std::int64_t bytes, int ranks);

// Measures one work: for each contender a row for each distance of cores that there was.
std::vector<Row> measure_rows(Group& group, const Contenders& contenders, const Schedule& schedule,
                              const std::string& work, std::int64_t bytes);

// The same of samples that there are, by contender.
std::vector<Row> rows_of(const std::vector<std::vector<Sample>>& samples,
                         const Contenders& contenders, const std::string& work, std::int64_t bytes);
std::vector<Row> rows_of(const std::vector<Sample>& samples, const Row& like);

}  // namespace kolo::bench
