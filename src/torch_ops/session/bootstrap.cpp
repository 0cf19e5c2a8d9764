#include "torch_ops/session/bootstrap.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "collectives/mpi/node.hpp"
#include "core/cores.hpp"
#include "core/host.hpp"
#include "core/launched.hpp"
#include "core/log.hpp"
#include "core/variables.hpp"
#include "torch_ops/session/arena.hpp"
#include "torch_ops/session/uncaught.hpp"

namespace kolo {
namespace {

// Determines this rank's cores. Collective over `parent`. Bound ranks have their own cores; other
// ranks share theirs.
Status find_cores(MpiParent parent, Topology& topology) {
  std::vector<std::string> texts;
  if (Status s = gather_on_node(parent, encode(cpu_access()), texts); !s.is_ok()) return s;
  std::vector<CpuAccess> node;
  node.reserve(texts.size());
  for (const std::string& text : texts) node.push_back(decode_cpu_access(text));
  topology.cores = share_of_node(node, static_cast<std::size_t>(topology.local_rank));
  return Status::ok();
}

void export_variable(const char* name, const std::string& value) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): documented for init(), before threads of the program
  if (setenv(name, value.c_str(), 0) != 0) log::warning(std::string("cannot set ") + name);
}

// Sets the variables that torchrun sets and programs read, unless the launcher has set them.
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

// Sets `job` to rank 0's time of day in nanoseconds, on all ranks. No two jobs of a user begin at
// the same time.
Status share_job(MpiParent parent, std::int64_t& job) {
  std::string text = std::to_string(unix_nanoseconds());
  if (Status s = share_text(parent, text); !s.is_ok()) return s;
  job = std::stoll(text);
  return Status::ok();
}

// Reads the settings, and takes over those of rank 0 that hold for all ranks. Fails on all ranks if
// a rank cannot read its own, or if settings differ that must be equal.
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

// Returns the configured capacity. By default it is the memory of the machine or, with more than 4
// ranks on a node, 4 times a rank's share, because each rank maps the arenas of all ranks.
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

// Warns once per process about variables whose names can only be meant for kolo.
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

}  // namespace

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

}  // namespace kolo
