// The table of horovod.hpp: what a program calls.
#include "cli/help/horovod.hpp"

namespace kolo::cli {
namespace {

HorovodSection starting() {
  return {"Starting and ending",
          "",
          {
              {"call", "init", "`init()`",
               "Starts MPI if the program has not. Sets `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, "
               "`MASTER_ADDR` and `MASTER_PORT` where they are unset. A bad setting is an error."},
              {"argument", "comm of init", "`init(comm)`",
               "An MPI communicator, with `kolo/mpi.h`. Instead of a list of ranks: a communicator "
               "of them."},
              {"argument", "process_sets of init", "`init(process_sets)`",
               "Lists of ranks; gives a `ProcessSet` for each. \"dynamic\" is not needed."},
              {"call", "shutdown", "`shutdown()`",
               "Waits for the other ranks, at most `KOLO_SHUTDOWN_TIMEOUT_SECONDS`."},
              {"call", "is_initialized", "`is_initialized()`", ""},
              {"call", "rank, size", "`rank()`, `size()`", ""},
              {"call", "local_rank, local_size", "`local_rank()`, `local_size()`", ""},
              {"call", "cross_rank, cross_size", "`cross_rank()`, `cross_size()`", ""},
              {"call", "is_homogeneous", "`is_homogeneous()`", ""},
              {"call", "horovod.run", "none",
               "Ranks are programs, started by `kolo run`; no function is sent to them."},
              {"call", "start_timeline, stop_timeline", "`start_timeline()`, `stop_timeline()`",
               "Collective. Every rank writes a file of its own."},
              {"argument", "file_path of start_timeline", "`folder`", ""},
              {"argument", "mark_cycles of start_timeline", "none", "There are no cycles."},
          }};
}

HorovodSection built() {
  return {"What was built in",
          "`kolo doctor` shows it, and what is wrong with it.",
          {
              {"call", "mpi_built, mpi_enabled", "none", "MPI is always there."},
              {"call", "mpi_threads_supported", "none",
               "`init()` refuses an MPI that kolo's thread cannot call."},
              {"call", "cuda_built, nccl_built", "none",
               "`local_device()` throws, with the reason, where no GPU can be used."},
              {"call", "rocm_built", "not yet", "CPU and CUDA tensors only."},
              {"call", "gloo_built, gloo_enabled, ddl_built, ccl_built", "none",
               "MPI alone moves data."},
          }};
}

HorovodSection operations() {
  return {
      "Operations",
      "The options of a call are one struct: `allreduce(tensor, "
      "AllreduceOptions(\"loss\").op(ReduceOp::Sum))`. A name or an operator may stand for it: "
      "`allreduce(tensor, \"loss\")`, `allreduce(tensor, ReduceOp::Sum)`. backward() goes through "
      "the forms without _async and without a last underscore, as in Horovod, and it is that of "
      "one program whose loss is the sum of the ranks' losses.",
      {
          {"call", "allreduce", "`allreduce(tensor, options)`",
           "backward() of Min, Max, Product and Adasum is an error; Horovod applies the operator "
           "to the gradients."},
          {"call", "allreduce_, allreduce_async, allreduce_async_",
           "`allreduce_`, `allreduce_async`, `allreduce_async_`",
           "The asynchronous ones give a `Handle`."},
          {"call", "grouped_allreduce, grouped_allreduce_",
           "`grouped_allreduce(tensors, options)`, `grouped_allreduce_`", "As of allreduce."},
          {"call", "grouped_allreduce_async, grouped_allreduce_async_",
           "`grouped_allreduce_async`, `grouped_allreduce_async_`", "They give a `GroupHandle`."},
          {"call", "sparse_allreduce_async", "`sparse_allreduce_async(tensor, options)`",
           "Gives a `Handle`, not a function to call, and a coalesced tensor. `sparse_allreduce` "
           "waits for it."},
          {"call", "allgather, grouped_allgather",
           "`allgather(tensor, options)`, `grouped_allgather(tensors, options)`",
           "backward() adds up the ranks' gradients; Horovod averages them."},
          {"call", "allgather_async, grouped_allgather_async",
           "`allgather_async`, `grouped_allgather_async`", ""},
          {"call", "broadcast", "`broadcast(tensor, root_rank, options)`",
           "backward() adds up the ranks' gradients at the root; Horovod averages them. Groups "
           "too: `grouped_broadcast`."},
          {"call", "broadcast_, broadcast_async, broadcast_async_",
           "`broadcast_`, `broadcast_async`, `broadcast_async_`", ""},
          {"call", "alltoall, alltoall_async",
           "`alltoall(tensor, splits, options)`, `alltoall_async`",
           "The result is an `AlltoallResult`, always with `received_splits`."},
          {"call", "reducescatter, grouped_reducescatter",
           "`reducescatter(tensor, options)`, `grouped_reducescatter(tensors, options)`",
           "Min, Max and Product too. Horovod's gradient is as many times larger as there are "
           "ranks."},
          {"call", "reducescatter_async, grouped_reducescatter_async",
           "`reducescatter_async`, `grouped_reducescatter_async`", "Min, Max and Product too."},
          {"call", "join", "`join(process_set)`",
           "Others may call every operation meanwhile, not allreduce alone; only a broadcast from "
           "a joined rank, and send and receive with one, fail. Min, Max and Product come out "
           "right: a joined rank does not count as 0. For process sets too."},
          {"call", "barrier", "`barrier(options)`", ""},
          {"call", "poll", "`Handle::ready()`", ""},
          {"call", "synchronize", "`Handle::wait(timeout)`",
           "Throws what went wrong. May be called again; the timeout may be left out."},
      }};
}

HorovodSection arguments() {
  return {
      "Arguments of operations",
      "",
      {
          {"argument", "tensor", "`tensor`",
           "May have any strides; Horovod's must be contiguous. Also bool, bfloat16, complex "
           "numbers and the small integers, in every operation that is defined for them."},
          {"argument", "tensors", "`tensors`", "A std::vector of such."},
          {"argument", "name", "`name`", "Empty: a number, as in Horovod."},
          {"argument", "average", "`op`",
           "There is no such argument: average=False is `ReduceOp::Sum`."},
          {"argument", "op", "`op`", "Average by default in every reduction."},
          {"argument",
           "compression of allreduce, grouped_allreduce, reducescatter, grouped_reducescatter",
           "none", "Cast the tensor before, and the result after."},
          {"argument", "prescale_factor, postscale_factor", "`prescale_factor`, `postscale_factor`",
           "Sparse tensors have them too."},
          {"argument", "process_set", "`process_set`", ""},
          {"argument", "root_rank", "`root_rank`",
           "Among all ranks, also in a process set, as in Horovod. Default 0, but for the "
           "broadcast of a tensor."},
          {"argument", "splits", "`splits`", "A std::vector of numbers of rows; empty: even."},
          {"argument", "device of join", "none", "Stand-ins of a joined rank are CPU memory."},
          {"argument", "handle of poll, synchronize", "`Handle`, `GroupHandle`, `AlltoallHandle`",
           "A move-only object, not a number. Destroyed, it lets the operation go on."},
      }};
}

HorovodSection operators() {
  return {"Operators",
          "",
          {
              {"value", "Average, Sum, Min, Max, Product",
               "`ReduceOp::Average`, `ReduceOp::Sum`, `ReduceOp::Min`, `ReduceOp::Max`, "
               "`ReduceOp::Product`",
               "Min and Max give NaN where any rank has NaN."},
              {"value", "Adasum", "`ReduceOp::Adasum`",
               "Any number of ranks, not powers of two alone; in process sets too."},
          }};
}

HorovodSection state() {
  return {
      "State",
      "All of them work in process sets too.",
      {
          {"call", "broadcast_parameters", "`broadcast_parameters(module, root_rank, process_set)`",
           "All tensors in one operation, compared by name and shape."},
          {"argument", "params of broadcast_parameters", "`module`, `tensors`",
           "A module gives its parameters and buffers; or a list or a dictionary of tensors."},
          {"call", "broadcast_optimizer_state",
           "`broadcast_optimizer_state(optimizer, root_rank, process_set)`",
           "A new optimizer makes no step with zeros first. An LBFGS that has made a step cannot "
           "be sent, since LibTorch cannot save it; Horovod takes no LBFGS."},
          {"argument", "optimizer of broadcast_optimizer_state", "`optimizer`",
           "Any optimizer of LibTorch, distributed or not."},
          {"argument", "model of broadcast_optimizer_state", "none",
           "It is not needed to know which parameters are sparse."},
          {"call", "broadcast_object", "`broadcast_object(object, root_rank, options)`",
           "No pickle: numbers, strings, tensors, containers, c10::IValue, and your own types by a "
           "`Codec`. All ranks use one type."},
          {"call", "allgather_object", "`allgather_object(object, options)`", "Likewise."},
          {"argument", "obj of broadcast_object, allgather_object", "`object`", ""},
      }};
}

HorovodSection process_sets() {
  return {"Process sets",
          "",
          {
              {"class", "ProcessSet", "`ProcessSet`",
               "A small value, made by `add_process_set()`. By default it is all ranks."},
              {"argument", "ranks_or_comm of ProcessSet",
               "`add_process_set(ranks)`, `add_process_set_from_comm(comm)`",
               "The order of the ranks is kept; Horovod sorts them. A communicator at any time, "
               "with `kolo/mpi.h`."},
              {"method", "ProcessSet.size, ProcessSet.included", "`size()`, `included()`", ""},
              {"method", "ProcessSet.rank", "`rank()`", ""},
              {"attribute", "ProcessSet.process_set_id, ProcessSet.ranks", "`id()`, `ranks()`", ""},
              {"attribute", "ProcessSet.mpi_comm", "none", "A set does not keep its communicator."},
              {"value", "global_process_set", "`ProcessSet()`", ""},
              {"call", "add_process_set", "`add_process_set(ranks)`",
               "At any time. The same ranks twice make two sets; in Horovod that is an error."},
              {"argument", "process_set of add_process_set, remove_process_set",
               "`ranks`, `process_set`", ""},
              {"call", "remove_process_set", "`remove_process_set(process_set)`",
               "An exception instead of False."},
              {"variable", "HOROVOD_DYNAMIC_PROCESS_SETS", "none", "Sets can always be added."},
          }};
}

HorovodSection optimizer() {
  return {
      "DistributedOptimizer",
      "Options are those of `DistributedOptimizerOptions`. New are `no_sync()` and "
      "`Compression::Bf16`.",
      {
          {"call", "DistributedOptimizer",
           "`DistributedOptimizer<Base>(parameters, base_options, options)`",
           "A class that is a `Base`, not a wrapper of an object. Parameters may be added, and "
           "frozen, later."},
          {"argument", "optimizer of DistributedOptimizer", "`Base`",
           "The class of the optimizer, such as torch::optim::SGD."},
          {"argument", "named_parameters of DistributedOptimizer", "`named_parameters`",
           "What named_parameters().pairs() of the module gives. Not needed if the optimizer is "
           "made with the "
           "module."},
          {"argument", "compression of DistributedOptimizer", "`compression`",
           "With Adasum the steps travel compressed."},
          {"argument", "backward_passes_per_step of DistributedOptimizer",
           "`backward_passes_per_step`", ""},
          {"argument", "op of DistributedOptimizer", "`op`",
           "Adasum: as in Horovod each rank makes a step with its own gradients, and the steps "
           "are reduced; but in step(), not during backward(), so that gradients can be "
           "clipped. Also with process sets, groups, and any number of ranks."},
          {"argument", "gradient_predivide_factor of DistributedOptimizer",
           "`gradient_predivide_factor`", "With groups too, where Horovod drops it."},
          {"argument", "groups of DistributedOptimizer", "`groups`, `num_groups`",
           "Lists of parameters, or their number."},
          {"argument", "num_groups of DistributedOptimizer", "`num_groups`",
           "Not deprecated: a number has an option of its own."},
          {"argument", "sparse_as_dense of DistributedOptimizer", "`sparse_as_dense`",
           "The gradient stays dense; Horovod makes it sparse again."},
          {"argument", "process_set of DistributedOptimizer", "`process_set`",
           "Its members alone make the optimizer."},
          {"method", "DistributedOptimizer.step", "`step(closure)`",
           "With a closure its loss is averaged, and gradients (not with Adasum) are reduced "
           "each time that it has run."},
          {"method", "DistributedOptimizer.synchronize", "`synchronize()`",
           "Reduces what backward() has not reduced, as under `no_sync()`. Not needed before "
           "clipping. With Adasum it does nothing."},
          {"method", "DistributedOptimizer.skip_synchronize", "`skip_synchronize()`",
           "Holds while the returned object lives. Seldom needed: `step()` does not reduce what "
           "is reduced."},
          {"method", "DistributedOptimizer.zero_grad", "`zero_grad(set_to_none)`",
           "Allowed between backward() and step(), where Horovod has an error."},
          {"method", "DistributedOptimizer.set_backward_passes_per_step", "none",
           "Where the number changes: leave it at 1, and accumulate under `no_sync()`."},
          {"method", "DistributedOptimizer.load_state_dict", "`torch::load`",
           "As for any optimizer of LibTorch."},
      }};
}

HorovodSection compression() {
  return {"Compression",
          "Of float32 and float64 gradients; others travel as they are.",
          {
              {"class", "Compression", "`Compression`", ""},
              {"attribute", "Compression.none, Compression.fp16",
               "`Compression::None`, `Compression::Fp16`", ""},
              {"class", "Compressor", "`GradientCompressor`",
               "Each parameter has one of its own, which may keep state and ask for a second "
               "exchange. The option `compression` takes the function that makes them."},
              {"method", "Compressor.compress, Compressor.decompress",
               "`compress(gradient)`, `decompress(reduced)`", "Called for each reduction."},
              {"class", "NoneCompressor, FP16Compressor",
               "`Compression::None`, `Compression::Fp16`", "Choices, not classes."},
              {"method",
               "NoneCompressor.compress, NoneCompressor.decompress, FP16Compressor.compress, "
               "FP16Compressor.decompress",
               "none", "Gradients are cast while they are packed."},
          }};
}

HorovodSection errors() {
  return {"Errors",
          "[errors.md](errors.md) says what each exception means and what to do. Where Horovod "
          "raises ValueError for a wrong argument, kolo throws `InvalidArgumentError`, and before "
          "`init()` `NotInitializedError`.",
          {
              {"class", "HorovodInternalError", "`Error`",
               "The base of all; its class says what happened: `MismatchError`, `PeerLostError`, "
               "`DuplicateNameError`, `InternalError` and others."},
              {"class", "HostsUpdatedInterrupt", "not yet", "It belongs to elastic jobs."},
              {"class", "HorovodVersionMismatchError", "none",
               "A program is linked with one LibTorch."},
          }};
}

HorovodSection batch_norm() {
  return {
      "SyncBatchNorm",
      "",
      {
          {"class", "SyncBatchNorm", "`convert_sync_batchnorm(module)`",
           "torch::nn::BatchNorm1d, 2d and 3d within the module then use the statistics of all "
           "ranks; on CPUs and GPUs, and in a process set."},
          {"argument", "num_features, eps, momentum, affine, track_running_stats of SyncBatchNorm",
           "`torch::nn::BatchNormOptions`", ""},
          {"method", "SyncBatchNorm.forward", "`torch::nn::BatchNorm2d`",
           "Collective in training, as in Horovod; batches may differ in size."},
      }};
}

HorovodSection elastic() {
  return {
      "Elastic jobs",
      "A rank that dies ends the job; start it again from what the program has saved.",
      {
          {"call", "elastic.run", "not yet", ""},
          {"argument", "func of elastic.run", "not yet", ""},
          {"class", "elastic.TorchState, ObjectState, State", "not yet", ""},
          {"argument", "model, optimizer of elastic.TorchState", "not yet", ""},
          {"argument", "bcast_object, get_rank of ObjectState, State", "not yet", ""},
          {"method",
           "elastic.TorchState.save, elastic.TorchState.restore, elastic.TorchState.sync, "
           "ObjectState.save, ObjectState.restore, ObjectState.sync, State.save, State.restore, "
           "State.sync, State.commit, State.check_host_updates, State.register_reset_callbacks, "
           "State.on_reset, State.reset",
           "not yet", ""},
          {"class", "elastic.ElasticSampler", "`DistributedSampler`",
           "After a restart with another number of ranks what is left of an epoch is shared out "
           "anew: see `load`."},
          {"argument", "dataset of elastic.ElasticSampler", "`dataset_size`", ""},
          {"argument", "shuffle, seed of elastic.ElasticSampler", "`shuffle`, `seed`", ""},
          {"method", "elastic.ElasticSampler.set_epoch", "`set_epoch(epoch)`",
           "Not needed: the data loader goes on to the next epoch by itself."},
          {"method", "elastic.ElasticSampler.record_batch", "none", "The sampler counts itself."},
          {"method", "elastic.ElasticSampler.state_dict, elastic.ElasticSampler.load_state_dict",
           "`save(archive)`, `load(archive)`",
           "What one rank saved, all ranks of a job of any size may load."},
          {"method", "elastic.ElasticSampler.reset", "`load(archive)`",
           "The samples that are left are shared out among the new ranks when a checkpoint is "
           "loaded; a running job keeps its ranks."},
      }};
}

}  // namespace

std::vector<HorovodSection> horovod_call_sections() {
  return {starting(),     built(),     operations(),  arguments(), operators(),  state(),
          process_sets(), optimizer(), compression(), errors(),    batch_norm(), elastic()};
}

}  // namespace kolo::cli
