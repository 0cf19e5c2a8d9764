// The table of horovod.hpp: how a job is started, set up and built.
#include "cli/help/horovod.hpp"

#include <utility>

namespace kolo::cli {
namespace {

std::vector<HorovodRow> launch_flags() {
  return {
      {"flag", "command", "`kolo run`", "From the program's name on all belongs to it."},
      {"flag", "-np, --num-proc", "`-np`, `-n`, `--np`", "Default: all slots of the hosts."},
      {"flag", "-H, --hosts", "`-H`, `--host`", "A host without a number of slots takes 1."},
      {"flag", "-hostfile, --hostfile", "`--hostfile`", ""},
      {"flag", "-v, --version", "`kolo --version`", ""},
      {"flag", "-cb, --check-build", "`kolo doctor`", ""},
      {"flag", "--verbose", "`--verbose`", "`--dry-run` shows the command alone."},
      {"flag", "--config-file", "`--config-file`",
       "An INI file of kolo run's options, not YAML; the command line always wins."},
      {"flag", "-prefix-timestamp, --prefix-output-with-timestamp", "`--timestamp`", ""},
      {"flag", "--output-filename", "`--output-dir`",
       "A file for each rank, DIR/rank-3.log; what ranks print is shown, too."},
      {"flag", "--mpi-args", "`--mpi-args`", ""},
      {"flag", "--binding-args", "`--bind-to`, `--mpi-args`",
       "By default each rank gets cores of its own where there are enough; horovodrun binds "
       "nothing (Spectrum MPI: to sockets)."},
      {"flag", "--tcp", "`--mpi-args \"--mca pml ob1 --mca btl self,tcp\"`",
       "For Open MPI; horovodrun's is for Spectrum MPI and NCCL."},
      {"flag", "--network-interfaces, --network-interface",
       "`--mpi-args \"--mca btl_tcp_if_include eth0\"`", "For Open MPI."},
      {"flag", "-p, --ssh-port, -i, --ssh-identity-file", "none",
       "They belong into ssh's configuration; or the launcher's own option, with "
       "`--mpi-args`."},
      {"flag", "--disable-cache", "none", "Nothing is cached."},
      {"flag", "--start-timeout", "none",
       "The launcher's business. `--timeout` is for the whole job."},
      {"flag", "--mpi, --gloo, --jsrun", "none",
       "MPI alone, by its own launcher: Open MPI's or MPICH's."},
  };
}

std::vector<HorovodRow> engine_flags() {
  return {
      {"flag", "--gloo-timeout-seconds", "`-x KOLO_COLLECTIVE_TIMEOUT_SECONDS=30`",
       "For MPI: how long a collective that has started may move no byte."},
      {"flag", "--fusion-threshold-mb", "`-x KOLO_FUSION_THRESHOLD=4194304`", "In bytes."},
      {"flag", "--cache-capacity", "`-x KOLO_CACHE_CAPACITY=1024`", ""},
      {"flag", "--cycle-time-ms", "none", "There are no cycles."},
      {"flag", "--log-level", "`-x KOLO_LOG_LEVEL=...`", ""},
      {"flag", "--log-with-timestamp, --no-log-hide-timestamp", "`-x KOLO_LOG_TIMESTAMP=1`",
       "kolo's default is without."},
      {"flag", "--log-without-timestamp, --log-hide-timestamp", "none", "It is the default."},
      {"flag", "--mpi-threads-disable, --no-mpi-threads-disable", "none",
       "kolo needs MPI's threads."},
      {"flag", "--thread-affinity", "none",
       "kolo's thread runs on the cores of its rank: `--bind-to`."},
      {"flag", "--num-nccl-streams", "none", "Each process set has two streams."},
      {"flag", "--hierarchical-allreduce, --no-hierarchical-allreduce", "none",
       "Where several nodes have ranks that share memory, allreduce always goes in stages."},
      {"flag",
       "--hierarchical-allgather, --no-hierarchical-allgather, --torus-allreduce, "
       "--no-torus-allreduce",
       "not yet", ""},
      {"flag",
       "--autotune, --no-autotune, --autotune-log-file, --autotune-warmup-samples, "
       "--autotune-steps-per-sample, --autotune-bayes-opt-max-samples, "
       "--autotune-gaussian-process-noise",
       "not yet", ""},
      {"flag", "--timeline-filename", "`--timeline`", "A folder: every rank writes a file."},
      {"flag", "--timeline-mark-cycles, --no-timeline-mark-cycles", "none", "There are no cycles."},
      {"flag", "--stall-check, --no-stall-check, --stall-check-warning-time-seconds",
       "`-x KOLO_STALL_CHECK_TIME_SECONDS`", "0: no check."},
      {"flag", "--stall-check-shutdown-time-seconds", "`-x KOLO_STALL_SHUTDOWN_TIME_SECONDS`", ""},
      {"flag",
       "--min-np, --min-num-proc, --max-np, --max-num-proc, --slots-per-host, "
       "--elastic-timeout, --reset-limit, --blacklist-cooldown-range, --host-discovery-script",
       "not yet", "Elastic jobs."},
  };
}

HorovodSection flags() {
  std::vector<HorovodRow> rows = launch_flags();
  for (HorovodRow& row : engine_flags()) rows.push_back(std::move(row));
  return {
      "Options of horovodrun",
      "`kolo run --help` shows all of kolo run's. What horovodrun hands on as a variable is a "
      "variable here too: export it, or give it with `-x`; it reaches all hosts. `kolo run` does "
      "not start as root without `--allow-run-as-root`.",
      std::move(rows)};
}

// What a job tells of itself.
std::vector<HorovodRow> recording_variables() {
  return {
      {"variable", "HOROVOD_TIMELINE", "`KOLO_TIMELINE`",
       "A folder, into which every rank writes a file; Horovod's is not read."},
      {"variable", "HOROVOD_TIMELINE_MARK_CYCLES", "none", "There are no cycles."},
      {"variable", "HOROVOD_STALL_CHECK_DISABLE", "`KOLO_STALL_CHECK_TIME_SECONDS=0`", ""},
      {"variable", "HOROVOD_STALL_CHECK_TIME_SECONDS", "`KOLO_STALL_CHECK_TIME_SECONDS`",
       "Horovod's is read, too."},
      {"variable", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "`KOLO_STALL_SHUTDOWN_TIME_SECONDS`",
       "Horovod's is read, too."},
  };
}

std::vector<HorovodRow> engine_variables() {
  return {
      {"variable", "HOROVOD_FUSION_THRESHOLD", "`KOLO_FUSION_THRESHOLD`",
       "The default is smaller, and tensors larger than `KOLO_FUSION_TENSOR_LIMIT` travel "
       "alone. What is fused depends on programs, not on timing."},
      {"variable", "HOROVOD_CACHE_CAPACITY", "`KOLO_CACHE_CAPACITY`", ""},
      {"variable", "HOROVOD_DISABLE_GROUP_FUSION", "`KOLO_DISABLE_GROUP_FUSION`",
       "A group's tensors travel one by one. In Horovod it keeps groups apart; in kolo no "
       "group ever shares a message with other tensors."},
      {"variable", "HOROVOD_LOG_LEVEL", "`KOLO_LOG_LEVEL`", "Fatal means error."},
      {"variable", "HOROVOD_LOG_HIDE_TIME", "`KOLO_LOG_TIMESTAMP`",
       "The other way round: without it lines have no time."},
      {"variable", "HOROVOD_GLOO_TIMEOUT_SECONDS", "`KOLO_COLLECTIVE_TIMEOUT_SECONDS`",
       "For MPI: how long a collective that has started may move no byte."},
      {"variable", "HOROVOD_ADASUM_MPI_CHUNK_SIZE", "`KOLO_CHUNK_BYTES`", "For all collectives."},
      {"variable", "HOROVOD_RANK, HOROVOD_SIZE", "`RANK`, `WORLD_SIZE`",
       "Set by `kolo run`, and by `init()` where they are unset."},
      {"variable", "HOROVOD_LOCAL_RANK, HOROVOD_LOCAL_SIZE", "`LOCAL_RANK`, `LOCAL_WORLD_SIZE`",
       "Likewise."},
      {"variable", "HOROVOD_CROSS_RANK, HOROVOD_CROSS_SIZE", "`cross_rank()`, `cross_size()`",
       "There are no variables for them."},
      {"variable", "HOROVOD_CYCLE_TIME", "none",
       "There are no cycles: a rank reports when something was submitted."},
      {"variable", "HOROVOD_START_TIMEOUT", "none", "The launcher's business."},
      {"variable", "HOROVOD_MPI_THREADS_DISABLE", "none", "kolo needs MPI's threads."},
      {"variable", "HOROVOD_THREAD_AFFINITY", "none",
       "kolo's thread runs on the cores of its rank: `--bind-to`."},
      {"variable",
       "HOROVOD_CONTROLLER, HOROVOD_CPU_OPERATIONS, HOROVOD_CCL_CACHE, HOROVOD_GLOO_IFACE, "
       "HOROVOD_GLOO_RENDEZVOUS_ADDR, HOROVOD_GLOO_RENDEZVOUS_PORT, HOROVOD_HOSTNAME",
       "none", "MPI alone finds ranks and moves data."},
      {"variable", "HOROVOD_ENABLE_XLA_OPS", "none", "It is TensorFlow's."},
      {"variable", "HOROVOD_DISABLE_NVTX_RANGES", "none",
       "Without a profiler that listens NVTX ranges cost nothing."},
      {"variable",
       "HOROVOD_AUTOTUNE, HOROVOD_AUTOTUNE_LOG, HOROVOD_AUTOTUNE_WARMUP_SAMPLES, "
       "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE, HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES, "
       "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
       "not yet", ""},
      {"variable", "HOROVOD_HIERARCHICAL_ALLREDUCE", "`KOLO_HIERARCHICAL_ALLREDUCE`",
       "Of CUDA tensors. Others always go in stages where several nodes have ranks that share "
       "memory."},
      {"variable", "HOROVOD_HIERARCHICAL_ALLGATHER, HOROVOD_TORUS_ALLREDUCE", "not yet", ""},
      {"variable", "HOROVOD_ELASTIC, HOROVOD_ELASTIC_TIMEOUT", "not yet", ""},
      {"variable",
       "HOROVOD_NUM_NCCL_STREAMS, HOROVOD_BATCH_D2D_MEMCOPIES, HOROVOD_ENABLE_ASYNC_COMPLETION",
       "none",
       "Each process set has two streams; one kernel packs a bucket; the host never waits for the "
       "GPU."},
      {"variable", "NCCL_IB_DISABLE", "none", "NCCL reads its variables itself."},
  };
}

HorovodSection variables() {
  std::vector<HorovodRow> rows = engine_variables();
  for (HorovodRow& row : recording_variables()) rows.push_back(std::move(row));
  return {"Variables at run time",
          "Where [configuration.md](configuration.md) names a Horovod variable, kolo reads it when "
          "its own is unset. What is out of range or unreadable is an error; Horovod mostly goes "
          "on. A variable with \"none\" or \"not yet\" is not read at all.",
          std::move(rows)};
}

HorovodSection build() {
  return {
      "Variables of the build",
      "kolo is built with CMake; [README.md](../README.md) has the commands.",
      {
          {"build", "HOROVOD_WITH_MPI", "`KOLO_MPI`",
           "MPI is always there; this is the prefix of the one to take."},
          {"build", "HOROVOD_WITHOUT_MPI", "none", "kolo stands on MPI."},
          {"build", "HOROVOD_WITH_PYTORCH", "`KOLO_TORCH`", "The prefix of the LibTorch to take."},
          {"build", "HOROVOD_WITHOUT_PYTORCH", "`KOLO_TORCH_OPS`",
           "OFF builds engine and collectives alone."},
          {"build", "HOROVOD_DEBUG", "`CMAKE_BUILD_TYPE`", "Debug; there is a preset, debug."},
          {"build", "HOROVOD_BUILD_ARCH_FLAGS", "`CMAKE_CXX_FLAGS`", ""},
          {"build", "HOROVOD_CMAKE", "none", "The cmake that you call."},
          {"build",
           "HOROVOD_WITH_GLOO, HOROVOD_WITHOUT_GLOO, HOROVOD_CPU_OPERATIONS, HOROVOD_WITH_NVTX, "
           "HOROVOD_WITHOUT_NVTX, HOROVOD_NVTX_INCLUDE",
           "none", "kolo uses none of them."},
          {"build",
           "HOROVOD_WITH_TENSORFLOW, HOROVOD_WITHOUT_TENSORFLOW, HOROVOD_WITH_MXNET, "
           "HOROVOD_WITHOUT_MXNET",
           "none", "kolo is for LibTorch."},
          {"build", "HOROVOD_SKIP_COMPILE, HOROVOD_LOCAL_VERSION", "none",
           "They are for Python packages."},
          {"build", "HOROVOD_GPU", "`KOLO_CUDA`", "ON, OFF or AUTO; CUDA alone."},
          {"build", "HOROVOD_CUDA_HOME, HOROVOD_BUILD_CUDA_CC_LIST", "none",
           "CMake's own CUDAToolkit_ROOT and CMAKE_CUDA_ARCHITECTURES."},
          {"build", "HOROVOD_NCCL_HOME, HOROVOD_NCCL_INCLUDE, HOROVOD_NCCL_LIB, HOROVOD_NCCL_LINK",
           "none", "NCCL_ROOT is its prefix."},
          {"build",
           "HOROVOD_GPU_ALLREDUCE, HOROVOD_GPU_ALLGATHER, HOROVOD_GPU_BROADCAST, "
           "HOROVOD_GPU_ALLTOALL, HOROVOD_GPU_REDUCESCATTER",
           "none",
           "Options of CMake, and variables, that begin with KOLO_GPU instead take NCCL or MPI."},
          {"build", "HOROVOD_GPU_OPERATIONS, HOROVOD_ALLOW_MIXED_GPU_IMPL", "none",
           "Each operation has a setting of its own; all mixtures work."},
          {"build", "HOROVOD_ROCM_HOME", "not yet", "CPU and CUDA tensors only."},
      }};
}

}  // namespace

std::vector<HorovodSection> horovod_job_sections() {
  return {flags(), variables(), build()};
}

}  // namespace kolo::cli
