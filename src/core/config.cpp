#include "core/config.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>

#include "core/ranks.hpp"

namespace kolo {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;
constexpr double kDay = 86400.0;

// A row of the table: the setting as the documentation shows it, and its conversion from text to a
// field of Config and back.
struct Row {
  Setting setting;
  std::function<bool(const std::string& text, Config& config)> parse;
  std::function<std::string(const Config& config)> print = {};  // none: not sent to other ranks
};

Row rank_zeros(Row row) {
  row.setting.agreement = Agreement::kRankZero;
  return row;
}

Row equal(Row row) {
  row.setting.agreement = Agreement::kEqual;
  return row;
}

template <typename Number>
bool parse_number(const std::string& text, Number low, Number high, Number& value) {
  Number parsed{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc() || stop != end) return false;
  if (!(parsed >= low && parsed <= high)) return false;  // also refuses NaN
  value = parsed;
  return true;
}

std::string show(std::int64_t value) {
  return std::to_string(value);
}

std::string show(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

template <typename Number>
Row number_row(const char* name, const char* horovod_name, const char* type, Number Config::*field,
               Number initial, Number low, Number high, const char* help) {
  const auto parse = [=](const std::string& text, Config& config) {
    return parse_number(text, low, high, config.*field);
  };
  return {{name, horovod_name, type, show(initial), show(low) + " to " + show(high), help},
          parse,
          [=](const Config& config) { return show(config.*field); }};
}

bool parse_bool(const std::string& text, bool& value) {
  if (text == "1" || text == "on" || text == "true" || text == "yes") {
    value = true;
  } else if (text == "0" || text == "off" || text == "false" || text == "no") {
    value = false;
  } else {
    return false;
  }
  return true;
}

Row bool_row(const char* name, const char* horovod_name, bool Config::*field, const char* initial,
             const char* help) {
  return {{name, horovod_name, "boolean", initial, "0 or 1", help},
          [=](const std::string& text, Config& config) { return parse_bool(text, config.*field); },
          [=](const Config& config) { return std::string(config.*field ? "1" : "0"); }};
}

// Horovod's levels are often written in capitals, and include "fatal".
bool parse_level(std::string text, LogLevel& level) {
  static constexpr const char* kNames[] = {"trace", "debug", "info", "warning", "error", "off"};
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (int i = 0; i < 6; ++i) {
    if (text == kNames[i]) {
      level = static_cast<LogLevel>(i);
      return true;
    }
  }
  if (text == "fatal") level = LogLevel::kError;
  return text == "fatal";
}

void add_memory(std::vector<Row>& rows) {
  rows.push_back(bool_row("KOLO_SHARED_MEMORY", "", &Config::shared_memory, "1",
                          "The ranks of a node reduce in shared memory; 0: they send messages over "
                          "MPI. 0 on one rank applies to its whole node."));
  rows.push_back(bool_row("KOLO_ARENA", "", &Config::arena, "1",
                          "CPU tensors are allocated in memory that the ranks of a node share, and "
                          "are reduced in place; 0: LibTorch's own allocator is used, and each "
                          "reduction copies the tensor. Has no effect on a node with one rank."));
  rows.push_back(
      number_row("KOLO_ARENA_BYTES", "", "bytes", &Config::arena_bytes, std::int64_t{0},
                 std::int64_t{0}, std::int64_t{1} << 46,
                 "Maximum size of a rank's arena; a tensor that does not fit gets private memory. "
                 "0: the machine's memory, or four times a rank's share of it if that is less."));
}

// Returns the build's choice for an operation, from KOLO_GPU_CHOICES: "ALLREDUCE=NCCL BROADCAST=MPI
// ".
std::string gpu_choice_of_build(const std::string& operation) {
  const std::string choices = std::string(" ") + KOLO_GPU_CHOICES;
  const std::string before = " " + operation + "=";
  const std::size_t found = choices.find(before);
  if (found == std::string::npos)
    throw_if_error(Status::internal("the build has no choice KOLO_GPU_" + operation));
  const std::size_t begin = found + before.size();
  return choices.substr(begin, choices.find(' ', begin) - begin);
}

// Makes the row of an operation's choice: NCCL, or MPI, with which the host carries it out.
Row cuda_row(OpKind kind) {
  const std::string help =
      std::string("Library that carries out ") + name_of(kind) +
      " of CUDA tensors. NCCL: on the devices; MPI: on the host, over shared memory and MPI.";
  const std::string operation = upper_name_of(kind);
  return rank_zeros({{"KOLO_GPU_" + operation, "", "library", gpu_choice_of_build(operation),
                      "NCCL or MPI", help},
                     [kind](const std::string& text, Config& config) {
                       std::erase(config.cuda_over_host, kind);
                       if (text == "MPI") config.cuda_over_host.push_back(kind);
                       return text == "MPI" || text == "NCCL";
                     },
                     [kind](const Config& config) {
                       const auto& over_host = config.cuda_over_host;
                       const bool found =
                           std::find(over_host.begin(), over_host.end(), kind) != over_host.end();
                       return std::string(found ? "MPI" : "NCCL");
                     }});
}

void add_cuda(std::vector<Row>& rows) {
  rows.push_back(
      rank_zeros(number_row("KOLO_CUDA_FUSION_THRESHOLD", "", "bytes",
                            &Config::cuda_fusion_threshold_bytes, 32 * kMiB, std::int64_t{0}, kGiB,
                            "Like KOLO_FUSION_THRESHOLD, for CUDA tensors. A single tensor of up "
                            "to this size is packed; 0: each tensor is reduced in place.")));
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    if (traits_of(static_cast<OpKind>(kind)).has_gpu_choice)
      rows.push_back(cuda_row(static_cast<OpKind>(kind)));
  }
  rows.push_back(rank_zeros(bool_row(
      "KOLO_HIERARCHICAL_ALLREDUCE", "HOROVOD_HIERARCHICAL_ALLREDUCE", &Config::cuda_in_stages, "0",
      "Allreduce of CUDA tensors goes in stages: NCCL within each node, MPI between nodes. (On the "
      "CPU it always goes in stages.)")));
  rows.push_back(
      {{"KOLO_CUDA_AWARE_MPI", "", "boolean", "AUTO", "AUTO, 0 or 1",
        "Whether MPI reads and writes CUDA tensors in device memory, in the operations that it "
        "carries out; AUTO: what the MPI library reports. Used only if it holds on all ranks."},
       [](const std::string& t, Config& c) {
         bool is_aware = false;
         c.cuda_aware_mpi = std::nullopt;
         if (t == "AUTO") return true;
         if (!parse_bool(t, is_aware)) return false;
         c.cuda_aware_mpi = is_aware;
         return true;
       }});
  rows.push_back(equal(
      bool_row("KOLO_SHARE_DEVICE", "", &Config::share_device, "0",
               "Ranks may use the same GPU. This is slow, and meant for tests. 0: an error.")));
}

Row path_row(const char* name, std::string Config::*field, const char* range, const char* help) {
  return {{name, "", "path", "", range, help}, [field](const std::string& t, Config& c) {
            c.*field = t;
            return true;
          }};
}

void add_timers(std::vector<Row>& rows) {
  rows.push_back(number_row("KOLO_COLLECTIVE_TIMEOUT_SECONDS", "", "seconds",
                            &Config::collective_timeout_seconds, 300.0, 0.001, 365 * kDay,
                            "A collective that has started on all ranks and moves no byte for this "
                            "time ends with PeerLostError."));
  rows.push_back(number_row("KOLO_SHUTDOWN_TIMEOUT_SECONDS", "", "seconds",
                            &Config::shutdown_timeout_seconds, 600.0, 0.001, 365 * kDay,
                            "Time that shutdown(), which the end of the program calls, waits for "
                            "the other ranks; then the job fails."));
  rows.push_back(number_row(
      "KOLO_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS", "seconds",
      &Config::stall_check_seconds, 60.0, 0.0, 365 * kDay,
      "After this time a warning names operations that some ranks have submitted and others have "
      "not, collectives that move nothing, and the missing ranks. Operations of different kinds "
      "under one name that wait for each other then fail. 0: never."));
  rows.push_back(number_row(
      "KOLO_STALL_SHUTDOWN_TIME_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "seconds",
      &Config::stall_shutdown_seconds, 0.0, 0.0, 365 * kDay,
      "An operation that some ranks have submitted this long ago and others have not ends the job "
      "with PeerLostError. 0: never. Has no effect if stalls are not checked."));
}

// Settings of what a job reports about itself.
void add_recording(std::vector<Row>& rows) {
  rows.push_back(rank_zeros(number_row("KOLO_METRICS_PORT", "", "port", &Config::metrics_port,
                                       std::int64_t{0}, std::int64_t{0}, std::int64_t{65535},
                                       "Rank 0 serves the metrics of all ranks at /metrics of this "
                                       "port, for Prometheus. 0: metrics are not served.")));
  rows.push_back(
      rank_zeros({{"KOLO_METRICS_ADDRESS", "", "address", "127.0.0.1", "an IP address of rank 0's",
                   "Address at which the metrics are served; 0.0.0.0 and :: are all addresses of "
                   "its host. Everyone who can reach the address can read the metrics."},
                  [](const std::string& t, Config& c) {
                    c.metrics_address = t;
                    return !t.empty();
                  }}));
  // The folder may have a different name on each node, but starting a timeline is collective.
  Row timeline = path_row("KOLO_TIMELINE", &Config::timeline, "a folder, or empty",
                          "Each rank writes a timeline of its activity into this folder, see "
                          "docs/timeline.md. Empty: no timeline. Set it on all ranks or on none.");
  timeline.print = [](const Config& c) { return std::string(c.timeline.empty() ? "" : "(set)"); };
  rows.push_back(equal(std::move(timeline)));
  rows.push_back(path_row(
      "KOLO_FLIGHT_RECORDER_DIR", &Config::flight_recorder_folder, "a folder, or empty",
      "Folder into which each rank writes its last operations after a failure or a stall, and on "
      "SIGUSR2. Empty: a folder of this job in the folder for temporary files, on each node."));
  rows.push_back({{"KOLO_LOG_LEVEL", "HOROVOD_LOG_LEVEL", "level", "warning",
                   "trace, debug, info, warning, error, off",
                   "Lowest level of messages that are written to standard error."},
                  [](const std::string& t, Config& c) { return parse_level(t, c.log_level); }});
  rows.push_back(bool_row("KOLO_LOG_TIMESTAMP", "", &Config::log_timestamp, "0",
                          "Begins each log line with the time."));
  rows.push_back(equal(number_row("KOLO_CHECK_IN_SYNC", "", "steps", &Config::check_in_sync,
                                  std::int64_t{0}, std::int64_t{0}, std::int64_t{1} << 40,
                                  "Number of steps of a DistributedOptimizer after which the ranks "
                                  "compare parameters, learning rates and optimizer state. A "
                                  "difference ends in a MismatchError that names it. 0: never.")));
  rows.push_back(bool_row("KOLO_BACKTRACE", "", &Config::backtrace, "0",
                          "An exception of kolo that the program does not catch ends the rank by "
                          "abort(), for which MPI prints a stack; 0: with the message in one line "
                          "and exit code 1."));
}

std::vector<Row> make_table() {
  std::vector<Row> rows;
  rows.push_back(rank_zeros(number_row(
      "KOLO_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", "bytes", &Config::fusion_threshold_bytes,
      4 * kMiB, std::int64_t{0}, kGiB,
      "Small tensors that are submitted together are packed into buckets of at most this size; 0 "
      "turns fusion off.")));
  rows.push_back(
      equal(number_row("KOLO_FUSION_TENSOR_LIMIT", "", "bytes", &Config::fusion_tensor_limit_bytes,
                       128 * kKiB, std::int64_t{0}, kGiB,
                       "Only tensors up to this size are packed; larger ones are reduced in place, "
                       "because copying them costs more than it saves.")));
  rows.push_back(equal(bool_row(
      "KOLO_DISABLE_GROUP_FUSION", "HOROVOD_DISABLE_GROUP_FUSION", &Config::disable_group_fusion,
      "0", "Sends the tensors of a group one by one; still all of them or none.")));
  rows.push_back(number_row(
      "KOLO_FUSION_HOLD_SECONDS", "", "seconds", &Config::fusion_hold_seconds, 30.0, 0.001, kDay,
      "If a tensor of a bucket was submitted this long ago and others are still missing, the "
      "bucket is given up, and its tensors are reduced one by one."));
  rows.push_back(equal(number_row("KOLO_CHUNK_BYTES", "", "bytes", &Config::chunk_bytes, 128 * kKiB,
                                  std::int64_t{64}, kGiB,
                                  "A collective sends data in pieces of this size, or in larger "
                                  "ones if there would be more than 1,024 pieces.")));
  Row allreduce_table = path_row("KOLO_ALLREDUCE_TABLE", &Config::allreduce_table,
                                 "a file that rank 0 can read, or empty",
                                 "File with the algorithm of an allreduce over messages by number "
                                 "of ranks and size; docs/configuration.md describes its format. "
                                 "Empty: recursive doubling below 32 KiB, a ring from there on.");
  rows.push_back(rank_zeros(std::move(allreduce_table)));  // rank 0 sends what the file holds
  rows.push_back(rank_zeros(number_row(
      "KOLO_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY", "integer", &Config::cache_capacity,
      std::int64_t{16384}, std::int64_t{0}, std::int64_t{1} << 30,
      "Number of tensor names that the response cache holds. The least recently used name makes "
      "room. With 0 every step is negotiated by name.")));
  add_timers(rows);
  rows.push_back(number_row("KOLO_SPIN_MICROSECONDS", "", "microseconds",
                            &Config::spin_microseconds, std::int64_t{50}, std::int64_t{0},
                            std::int64_t{1000000},
                            "Time that the engine polls at full speed before it yields and then "
                            "sleeps, if every thread has a core of its own."));
  add_memory(rows);
  add_cuda(rows);
  add_recording(rows);
  return rows;
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = make_table();
  return rows;
}

// Parses lines "NAME=value".
std::map<std::string, std::string> by_name(const std::string& lines) {
  std::map<std::string, std::string> values;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    const std::size_t sign = line.find('=');
    if (sign != std::string::npos) values[line.substr(0, sign)] = line.substr(sign + 1);
  }
  return values;
}

std::string in_words(const std::string& value) {
  return value.empty() ? "not set" : value;
}

Status read_row(const Row& row, const Config::Lookup& lookup, Config& config) {
  std::string name = row.setting.name;
  std::optional<std::string> text = lookup(name);
  if (!text && !row.setting.horovod_name.empty()) {
    name = row.setting.horovod_name;
    text = lookup(name);
  }
  if (row.parse(text.value_or(row.setting.default_value), config)) return Status::ok();
  return Status::invalid_argument("the environment variable " + name + "='" + *text +
                                  "' is not valid: expected " + row.setting.type + ", " +
                                  row.setting.range + "; correct or unset it");
}

}  // namespace

Status Config::read(const Lookup& lookup, Config& config) {
  config.cuda_over_host.clear();
  for (const Row& row : table()) {
    if (Status status = read_row(row, lookup, config); !status.is_ok()) return status;
  }
  return Status::ok();
}

Status Config::read_environment(Config& config) {
  return read(
      [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): in init()
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
      },
      config);
}

std::string Config::shared() const {
  std::string text;
  for (const Row& row : table()) {
    if (row.setting.agreement == Agreement::kOwn || !row.print) continue;
    text += row.setting.name + "=" + row.print(*this) + "\n";
  }
  return text;
}

std::string Config::agree(const std::string& of_rank_zero) {
  const std::map<std::string, std::string> theirs = by_name(of_rank_zero);
  std::string differences;
  for (const Row& row : table()) {
    const auto found = theirs.find(row.setting.name);
    if (found == theirs.end() || row.print(*this) == found->second) continue;
    if (row.setting.agreement == Agreement::kEqual) {
      differences += row.setting.name + "=" + row.print(*this) + "\n";
    } else {
      row.parse(found->second, *this);
    }
  }
  return differences;
}

std::string describe_differences(const std::string& of_rank_zero,
                                 const std::vector<std::string>& of_ranks) {
  // By name, then by value: the ranks that differ from rank 0.
  std::map<std::string, std::map<std::string, std::vector<int>>> others;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    for (const auto& [name, value] : by_name(of_ranks[rank]))
      others[name][value].push_back(static_cast<int>(rank));
  }
  std::map<std::string, std::string> agreed = by_name(of_rank_zero);
  std::string text;
  for (const auto& [name, values] : others) {
    text += (text.empty() ? "" : "; ") + name + " is " + in_words(agreed[name]) + " on rank 0";
    for (const auto& [value, ranks] : values)
      text += ", but " + in_words(value) + " on " + rank_list(ranks);
  }
  if (text.empty()) return text;
  return "settings that must be the same on all ranks differ: " + text +
         ". Set them for the whole job (kolo run passes the environment on; mpirun: -x NAME; srun: "
         "--export=ALL), or unset them";
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> list;
    for (const Row& row : table()) list.push_back(row.setting);
    return list;
  }();
  return all;
}

namespace {

const char* name_of(Agreement agreement) {
  static constexpr const char* kNames[] = {"own", "rank 0", "equal"};
  return kNames[static_cast<std::size_t>(agreement)];
}

constexpr const char* kAllreduceTable = R"(
## The allreduce table

`KOLO_ALLREDUCE_TABLE` names a text file like this one:

```
# kolo allreduce table, version 1
ranks 4
0 recursive-doubling
32768 halving-doubling
1048576 ring
ranks 64
0 recursive-doubling
65536 tree
```

Each row below a line `ranks N` names the number of bytes from which on an algorithm is used: `recursive-doubling`,
`halving-doubling`, `ring` or `tree` ([architecture.md](architecture.md) compares their costs). The first row begins
with 0. A process set whose number of ranks is not listed uses the rows of the nearest number, by ratio (with 4 and 64
listed, 16 ranks use the rows of 4, and 17 those of 64). If an allreduce goes in stages, the number of ranks is that of
the nodes, and the number of bytes that of a slice. Lines that begin with `#` are comments, but the first one must be as
above; empty lines are skipped. Rank 0 reads the file and sends it to the others; a mistake in it is an error on every
rank, with the line. The table has no effect on Adasum and on ranks that share memory.

`kolo bench tune -np N [-H HOST:SLOTS,...] --output FILE` measures all four with 2, 4, 8 ... ranks, up to the number of
ranks that send each other messages (one on each node, if there are several nodes), and writes such a file.
)";

}  // namespace

std::string configuration_page() {
  std::string page =
      "# Configuration\n\n"
      "<!-- Made from the table in src/core/config.cpp by `kolo help config --markdown`; a test "
      "compares them. -->\n\n"
      "kolo reads these environment variables once, in `kolo::init()`. If a variable is not set, "
      "the Horovod variable in the second\n"
      "column is read instead. A boolean may also be `on`, `off`, `true`, `false`, `yes` or `no`. "
      "A "
      "value that is out of range is an error.\n"
      "The defaults of `KOLO_GPU_…` can be set when kolo is built.\n\n"
      "The column *ranks* says whether ranks may differ: *own*: each rank has its own value; *rank "
      "0*: rank 0's value\n"
      "holds on all ranks; *equal*: `kolo::init()` fails on all ranks, and names variable, ranks "
      "and values, unless all have the same.\n\n"
      "| variable | Horovod's | type | default | range | ranks | what it does |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Setting& s : settings()) {
    const std::string horovod = s.horovod_name.empty() ? "" : "`" + s.horovod_name + "`";
    page += "| `" + s.name + "` | " + horovod + " | " + s.type + " | " + s.default_value + " | " +
            s.range + " | " + name_of(s.agreement) + " | " + s.help + " |\n";
  }
  return page + kAllreduceTable;
}

}  // namespace kolo
