// Configuration: read once, then constant. One table (config.cpp) holds every setting with its
// name, type, default, range and help; docs/configuration.md and `kolo help config` come from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/operations.hpp"
#include "core/status.hpp"
#include "core/types.hpp"

namespace kolo {

enum class LogLevel : std::uint8_t { kTrace = 0, kDebug, kInfo, kWarning, kError, kOff };

struct Config {
  std::int64_t fusion_threshold_bytes = 0;
  std::int64_t fusion_tensor_limit_bytes = 0;
  std::int64_t cuda_fusion_threshold_bytes = 0;
  bool share_device = false;
  std::vector<OpKind> cuda_over_host;  // instead of NCCL
  bool cuda_in_stages = false;         // allreduce: NCCL within each node, the host between
  std::optional<bool> cuda_aware_mpi;  // unset: what MPI reports
  bool disable_group_fusion = false;
  double fusion_hold_seconds = 0;
  std::int64_t chunk_bytes = 0;
  std::string allreduce_table;
  std::int64_t cache_capacity = 0;
  double collective_timeout_seconds = 0;
  double shutdown_timeout_seconds = 0;
  double stall_check_seconds = 0;
  double stall_shutdown_seconds = 0;
  std::int64_t spin_microseconds = 0;
  bool shared_memory = false;
  bool arena = false;
  std::int64_t arena_bytes = 0;
  LogLevel log_level = LogLevel::kWarning;
  bool log_timestamp = false;
  bool backtrace = false;
  std::int64_t check_in_sync = 0;
  std::int64_t metrics_port = 0;
  std::string metrics_address = "127.0.0.1";
  std::string timeline;
  std::string flight_recorder_folder;

  // Looks up an environment variable. Tests pass a function of their own.
  using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

  // Reads every setting from KOLO_*, or from HOROVOD_* where Horovod has the same knob and KOLO_*
  // is unset. A value out of range or unreadable is an error that names variable, value and range.
  static Status read(const Lookup& lookup, Config& config);
  static Status read_environment(Config& config);

  // Returns the settings that the ranks must agree on, as lines "NAME=value" in the order of the
  // table.
  std::string shared() const;
  // Takes rank 0's values of the settings for which these hold on all ranks. Returns this rank's
  // lines that must be equal to rank 0's and are not. `of_rank_zero` is the shared() of rank 0.
  std::string agree(const std::string& of_rank_zero);
};

// Whether ranks may have different values of a setting.
enum class Agreement : std::uint8_t {
  kOwn,       // each rank's own
  kRankZero,  // rank 0's value holds on all ranks
  kEqual,     // must be equal: kolo::init() fails otherwise
};

// Names the variables, ranks and values that differ, or returns an empty text. `of_ranks` are the
// results of Config::agree(), by rank.
std::string describe_differences(const std::string& of_rank_zero,
                                 const std::vector<std::string>& of_ranks);

// One row of the table, for documentation and --help.
struct Setting {
  std::string name;           // KOLO_FUSION_THRESHOLD
  std::string horovod_name;   // HOROVOD_FUSION_THRESHOLD, or empty
  std::string type;           // "bytes", "seconds", "integer", "boolean", "level", "path"
  std::string default_value;  // as it would be written in the environment
  std::string range;          // "1 to 1073741824"
  std::string help;
  Agreement agreement = Agreement::kOwn;
};
const std::vector<Setting>& settings();

// Returns docs/configuration.md, made from the table.
std::string configuration_page();

}  // namespace kolo
