#include "torch_ops/session.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "collectives/mpi/node.hpp"
#include "collectives/mpi/runtime.hpp"
#include "core/cores.hpp"
#include "core/host.hpp"
#include "core/launched.hpp"
#include "core/log.hpp"
#include "core/thread_annotations.hpp"
#include "core/variables.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/mpi_detail.h"
#include "kolo/timeline.h"
#include "torch_ops/arena.hpp"
#include "torch_ops/uncaught.hpp"

namespace kolo {
namespace {

Mutex session_mutex;
std::shared_ptr<Session> current KOLO_GUARDED_BY(session_mutex);
bool one_has_failed KOLO_GUARDED_BY(session_mutex) = false;
std::atomic<int> forked_from{-1};  // the rank, in a process that was forked from one

// Prometheus asks four times a minute, by default.
constexpr Clock::duration kMetricsEvery = std::chrono::seconds(2);

// As LibTorch chooses them, which knows nothing of quotas.
int computing_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): in init()
  const int threads = text == nullptr ? 0 : std::atoi(text);
  return threads > 0 ? threads : static_cast<int>(cpu_access().cores.size());
}

// Collective over `parent`. Ranks that are bound have cores of their own; others share theirs.
Status find_cores(MpiParent parent, Topology& topology) {
  std::vector<std::string> texts;
  if (Status s = gather_on_node(parent, encode(cpu_access()), texts); !s.is_ok()) return s;
  std::vector<CpuAccess> node;
  node.reserve(texts.size());
  for (const std::string& text : texts) node.push_back(decode_cpu_access(text));
  topology.cores = share_of_node(node, static_cast<std::size_t>(topology.local_rank));
  return Status::ok();
}

Engine::Options engine_options(const Config& config, const Topology& topology,
                               std::shared_ptr<const Lifelines> lifelines, std::vector<int> nodes,
                               AllreduceTable allreduce, CudaDevice& cuda_device) {
  Engine::Options options;
  options.group.lifelines = std::move(lifelines);
  options.group.nodes = std::move(nodes);
  options.group.tuning.chunk_bytes = static_cast<std::size_t>(config.chunk_bytes);
  options.group.tuning.allreduce = std::move(allreduce);
  options.group.limits.bucket_bytes = static_cast<std::size_t>(config.fusion_threshold_bytes);
  options.group.limits.tensor_bytes = static_cast<std::size_t>(config.fusion_tensor_limit_bytes);
  // A rank alone would pack for nothing.
  options.group.limits.device_bucket_bytes =
      topology.size == 1 ? 0 : static_cast<std::size_t>(config.cuda_fusion_threshold_bytes);
  options.group.find_device = [&cuda_device](std::shared_ptr<Device>& device) {
    return cuda_device.find(std::nullopt, device);
  };
  options.group.launch.fusion_tensor_bytes =
      config.disable_group_fusion ? 0 : options.group.limits.tensor_bytes;
  options.group.cache_capacity = static_cast<std::size_t>(config.cache_capacity);
  options.group.fusion_hold = seconds(config.fusion_hold_seconds);
  options.group.collective_timeout = seconds(config.collective_timeout_seconds);
  options.group.stall_check = seconds(config.stall_check_seconds);
  options.group.stall_shutdown = seconds(config.stall_shutdown_seconds);
  // Which tensor of a bucket is missing is known when it has been given up.
  if (config.stall_check_seconds > 0)
    options.group.fusion_hold = std::min(options.group.fusion_hold, options.group.stall_check);
  if (config.metrics_port > 0) options.group.metrics_every = kMetricsEvery;
  options.shutdown_timeout = seconds(config.shutdown_timeout_seconds);
  options.backoff.spin = std::chrono::microseconds(config.spin_microseconds);
  options.backoff.cores_per_rank = topology.cores;
  options.backoff.computing_threads = computing_threads();
  options.submitters_drive = options.backoff.cores_per_rank < options.backoff.computing_threads + 1;
  return options;
}

void export_variable(const char* name, const std::string& value) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): documented for init(), before threads of the program
  if (setenv(name, value.c_str(), 0) != 0) log::warning(std::string("cannot set ") + name);
}

// What torchrun sets and programs read. Never overwrites what the launcher has set.
Status export_environment(MpiParent parent, const Topology& topology) {
  std::string address;
  if (topology.rank == 0) address = rendezvous_address(topology.local_size == topology.size);
  if (Status s = share_text(parent, address); !s.is_ok()) return s;
  const std::size_t space = address.find(' ');
  export_variable("RANK", std::to_string(topology.rank));
  export_variable("WORLD_SIZE", std::to_string(topology.size));
  export_variable("LOCAL_RANK", std::to_string(topology.local_rank));
  export_variable("LOCAL_WORLD_SIZE", std::to_string(topology.local_size));
  export_variable("MASTER_ADDR", address.substr(0, space));
  export_variable("MASTER_PORT", address.substr(space + 1));
  return Status::ok();
}

// Rank 0's time of day in nanoseconds, on all ranks: no two jobs of a user begin at the same one.
Status share_job(MpiParent parent, std::int64_t& job) {
  std::string text = std::to_string(unix_nanoseconds());
  if (Status s = share_text(parent, text); !s.is_ok()) return s;
  job = std::stoll(text);
  return Status::ok();
}

// Reads the settings, takes rank 0's where these hold on all ranks, and fails on all ranks where
// one cannot read its own or where ranks differ that must not.
Status agree_on_settings(MpiParent parent, Config& config) {
  Status read = Config::read_environment(config);
  if (read.is_ok()) read = check_thread_level();
  std::string of_rank_zero = read.is_ok() ? config.shared() : "";
  if (Status s = share_text(parent, of_rank_zero); !s.is_ok()) return s;
  if (Status s = agree(parent, read); !s.is_ok()) return s;
  std::vector<std::string> differences;
  if (Status s = gather_texts(parent, config.agree(of_rank_zero), differences); !s.is_ok())
    return s;
  const std::string text = describe_differences(of_rank_zero, differences);
  return text.empty() ? Status::ok() : Status::invalid_argument(text);
}

// As much as the machine has; with many ranks on a node a multiple of a rank's share, since each of
// them maps all.
std::size_t arena_capacity(const Config& config, const Topology& topology) {
  std::size_t bytes = static_cast<std::size_t>(config.arena_bytes);
  if (bytes == 0) {
    const auto machine = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    bytes = machine / static_cast<std::size_t>(std::max(4, topology.local_size)) * 4;
  }
  return std::max(bytes, std::size_t{1} << 20) / shm::Arena::kPage * shm::Arena::kPage;
}

Status share_memory(MpiParent parent, const Config& config, const Topology& topology,
                    NodeConnection& made, std::vector<int>& nodes) {
  std::shared_ptr<shm::Arena> arena;
  if (config.shared_memory && topology.local_size > 1) {
    const Status status = process_arena(arena_capacity(config, topology), arena);
    if (!status.is_ok()) log::warning("no shared memory: " + status.message());
  }
  Status status = connect_node(parent, topology, arena, made);
  if (!status.is_ok()) return status;
  if (made.node != nullptr && config.arena) put_tensors_into_arena();
  const int first = made.node == nullptr ? topology.rank : made.node->ranks().front();
  return gather_number(parent, first, nodes);
}

// Once in a process, of names that can only be meant for kolo.
void warn_of_unknown_variables() {
  static const bool is_told = [] {
    for (const UnknownVariable& variable : unknown_variables(environment_names())) {
      if (variable.meant.empty()) continue;
      log::warning("the environment variable " + variable.name +
                   " has no effect: kolo has no such variable. Did you mean " + variable.meant +
                   "?");
    }
    return true;
  }();
  (void)is_told;
}

// Collective. What fails on one rank alone fails on all. Failures of MPI itself are kInternal or
// kPeerLost, all others have been agreed on.
Status start_session(MpiParent parent, std::shared_ptr<Session>& made) {
  Topology topology;
  if (Status s = find_topology(parent, topology); !s.is_ok()) return s;
  if (Status s = find_cores(parent, topology); !s.is_ok()) return s;
  Config config;
  Status agreed = agree_on_settings(parent, config);
  log::configure(config.log_level, config.log_timestamp, topology.rank);
  report_uncaught_errors(config.backtrace);
  if (!agreed.is_ok()) return agreed;
  if (topology.rank == 0) warn_of_unknown_variables();
  AllreduceTable allreduce;
  if (Status s = share_allreduce_table(parent, topology, config.allreduce_table, allreduce);
      !s.is_ok()) {
    return s;
  }
  if (Status s = export_environment(parent, topology); !s.is_ok()) return s;
  std::unique_ptr<Transport> transport;
  if (Status s = make_mpi_transport(parent, config.cuda_aware_mpi, transport); !s.is_ok()) return s;
  NodeConnection node;
  std::vector<int> nodes;
  if (Status s = share_memory(parent, config, topology, node, nodes); !s.is_ok()) return s;
  std::int64_t job = 0;
  if (Status s = share_job(parent, job); !s.is_ok()) return s;
  Status status;
  try {
    made = std::make_shared<Session>(config, topology, job, std::move(transport), node,
                                     std::move(nodes), std::move(allreduce));
  } catch (const std::exception& error) {  // no thread, or no memory
    status = Status::internal(std::string("starting kolo's engine: ") + error.what());
  }
  return agree(parent, status);
}

// A forked child has no engine. It is left without a session, sees its parent's tensors, and
// changes none of them; what it must not end, as MPI, it leaves alone.
void before_fork() KOLO_NO_THREAD_SAFETY_ANALYSIS {
  session_mutex.lock();
  if (shm::Arena* arena = existing_arena()) arena->before_fork();
}

void after_fork_in_parent() KOLO_NO_THREAD_SAFETY_ANALYSIS {
  if (shm::Arena* arena = existing_arena()) arena->after_fork_in_parent();
  session_mutex.unlock();
}

void after_fork_in_child() KOLO_NO_THREAD_SAFETY_ANALYSIS {
  shm::Arena* const arena = existing_arena();
  if (arena != nullptr && !arena->after_fork_in_child()) {
    static constexpr char kWhy[] = "kolo error: fork(): the child cannot have tensors of its own\n";
    const ssize_t written = write(STDERR_FILENO, kWhy, sizeof kWhy - 1);
    _exit(written > 0 ? 70 : 71);
  }
  if (current != nullptr) {
    forked_from = current->topology().rank;
    current->leave_to_parent();
    // Its destructor would wait for a thread that is not here.
    new std::shared_ptr<Session>(std::move(current));
  }
  current = nullptr;
  one_has_failed = true;
  session_mutex.unlock();
}

bool has_failed() {
  const MutexLock lock(session_mutex);
  return one_has_failed;
}

// After a failure MPI_Finalize could wait for ever for a peer that is gone. Without it the launcher
// takes the process for a failed one, which it is.
void at_exit() {
  shutdown();
  if (!has_failed()) finalize_mpi();
}

// The engine uses MPI, so it ends first.
void at_finalize() {
  if (!is_initialized()) return;
  log::warning(
      "MPI_Finalize() was called before kolo::shutdown(), so kolo shuts down now; call "
      "kolo::shutdown() first");
  shutdown();
}

// A timeline from the start. Without one that was asked for there is no session.
void start_timeline_if_asked() {
  const std::string folder = session("init")->config().timeline;
  if (folder.empty()) return;
  try {
    start_timeline(folder);
  } catch (...) {
    shutdown();
    throw;
  }
}

// Whether there was none before.
bool make_session(MpiParent parent) {
  MutexLock lock(session_mutex);
  if (current) return false;
  throw_if_error(start_mpi());
  static const Status hooked = call_at_finalize(at_finalize);
  if (!hooked.is_ok()) log::warning(hooked.message());
  static const int registered = std::atexit(at_exit);
  if (registered != 0) log::warning("atexit failed: call kolo::shutdown() before the program ends");
  static const int forks = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (forks != 0)
    log::warning("pthread_atfork failed: child processes share tensors with their parent");
  std::shared_ptr<Session> made;
  const Status status = start_session(parent, made);
  if (status.code() == StatusCode::kInternal || status.code() == StatusCode::kPeerLost)
    one_has_failed = true;
  if (status.code() == StatusCode::kPeerLost) tell_of_lost_peer();
  throw_if_error(status);
  current = std::move(made);
  return true;
}

void init_on(MpiParent parent) {
  if (make_session(parent)) start_timeline_if_asked();
}

}  // namespace

Session::Session(const Config& config, const Topology& topology, std::int64_t job,
                 std::unique_ptr<Transport> transport, const NodeConnection& node,
                 std::vector<int> nodes, AllreduceTable allreduce)
    : config_(config),
      topology_(topology),
      lifelines_(node.lifelines),
      node_(node.node),
      cuda_device_(config, topology),
      engine_(std::move(transport), node_,
              engine_options(config, topology, node.lifelines, std::move(nodes),
                             std::move(allreduce), cuda_device_)) {
  timeline::FlightOrigin origin;
  origin.rank = topology.rank;
  origin.size = topology.size;
  origin.host = host_name();
  origin.process = ::getpid();
  origin.job = job;
  origin.folder = config.flight_recorder_folder.empty() ? timeline::default_flight_folder(job)
                                                        : config.flight_recorder_folder;
  engine_.tracing().set_flight(origin);
  watcher_.emplace(engine_.tracing(), timeline::Watcher::Options{
                                          seconds(config.stall_check_seconds), topology.rank == 0});
  if (config.metrics_port > 0 && topology.rank == 0) serve_metrics();
}

// A job goes on without.
void Session::serve_metrics() {
  const Status status = timeline::MetricsServer::start(
      config_.metrics_address, static_cast<int>(config_.metrics_port),
      [this] {
        timeline::Tracing& tracing = engine_.tracing();
        tracing.board().keep(0, tracing.measures());
        return tracing.board().text();
      },
      metrics_);
  if (!status.is_ok()) log::warning(status.message());
}

Session::~Session() {
  shut_down();
}

// Until it has ended the engine adds to the timeline.
bool Session::shut_down() {
  engine_.tracing().keep_quiet();
  const bool well = engine_.shut_down();
  watcher_.reset();
  metrics_.reset();
  end_timeline();
  return well;
}

std::shared_ptr<Session> session(const char* call) {
  MutexLock lock(session_mutex);
  if (current) return current;
  if (is_fork_of_rank()) {
    throw NotInitializedError(std::string("kolo::") + call +
                              "(): this process was forked from rank " +
                              std::to_string(forked_from.load()) +
                              ", and a fork has no engine: only the rank itself takes part in the "
                              "job. A fork may train by itself, without kolo's operations");
  }
  throw NotInitializedError(std::string("kolo::") + call +
                            "() needs kolo::init() first (or came after kolo::shutdown())");
}

std::shared_ptr<Session> session_or_null() {
  MutexLock lock(session_mutex);
  return current;
}

bool is_fork_of_rank() {
  return forked_from >= 0;
}

void init() {
  init_on(MpiParent{});
}

namespace detail {
void init_on(const void* mpi_comm) {
  kolo::init_on(MpiParent{mpi_comm});
}
}  // namespace detail

void shutdown() {
  std::shared_ptr<Session> ending;
  {
    MutexLock lock(session_mutex);
    ending = std::move(current);
    current = nullptr;
  }
  if (ending) put_tensors_elsewhere();
  // Handles and calls under way in other threads may still refer to the session; they find the
  // engine closed.
  if (!ending || ending->shut_down()) return;
  const MutexLock lock(session_mutex);
  one_has_failed = true;
}

bool is_initialized() {
  return session_or_null() != nullptr;
}

int rank() {
  return session("rank")->rank();
}
int size() {
  return session("size")->size();
}
int local_rank() {
  return session("local_rank")->topology().local_rank;
}
int local_size() {
  return session("local_size")->topology().local_size;
}
int cross_rank() {
  return session("cross_rank")->topology().cross_rank;
}
int cross_size() {
  return session("cross_size")->topology().cross_size;
}
bool is_homogeneous() {
  return session("is_homogeneous")->topology().is_homogeneous;
}

}  // namespace kolo
