// Every rank of a job reports where it is and what it has; rank 0 prints the reports.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "cli/doctor/job_report.hpp"
#include "cli/doctor/machine.hpp"
#include "cli/doctor/probe.hpp"
#include "cli/process/binding.hpp"
#include "cli/process/environment.hpp"
#include "cli/process/system.hpp"
#include "collectives/mpi/fence.hpp"
#include "core/clock.hpp"

namespace kolo::cli {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{64} << 20;  // more than most caches of a core
constexpr std::size_t kNetworkBytes = std::size_t{8} << 20;
constexpr int kRepeats = 4;

std::atomic<const char*> stage{"MPI_Init_thread"};
std::atomic<int> own_rank{-1};

// Ends the process if it is not done in time, and reports in which stage it was.
void start_watchdog(double timeout_seconds) {
  std::thread([timeout_seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(timeout_seconds));
    const int rank = own_rank;
    std::ostringstream text;
    text << "kolo doctor: " << (rank < 0 ? "a rank" : "rank " + std::to_string(rank)) << " on "
         << host_name() << " is not done after " << timeout_seconds << " s, but still in " << stage
         << "; check that all ranks run and that the network works, or raise --timeout\n";
    std::cerr << text.str() << std::flush;
    ::_exit(1);
  }).detach();
}

struct World {
  int rank = 0;
  int size = 1;
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm leaders = MPI_COMM_NULL;  // the first rank of each node; null on other ranks
};

// Splits the ranks by node. At an error, MPI reports it and ends the job.
World find_world(RankReport& report) {
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &world.node);
  MPI_Comm_rank(world.node, &report.local_rank);
  MPI_Comm_split(MPI_COMM_WORLD, report.local_rank == 0 ? 0 : MPI_UNDEFINED, world.rank,
                 &world.leaders);
  if (world.leaders != MPI_COMM_NULL) MPI_Comm_rank(world.leaders, &report.node);
  MPI_Bcast(&report.node, 1, MPI_INT, 0, world.node);
  report.rank = world.rank;
  return world;
}

void describe(RankReport& report, const Lookup& environment) {
  const auto number = [&](const char* name) {
    return static_cast<int>(parse_integer(environment(name).value_or("")).value_or(0));
  };
  const Machine machine = examine_machine();
  report.host = machine.host;
  report.memory_limit_bytes = machine.memory_limit_bytes;
  for (const Core& core : usable_cores_in_order()) report.cores.push_back(core.id);
  std::sort(report.cores.begin(), report.cores.end());
  report.quotas = cpu_quotas();
  report.threads = parse_threads(environment("OMP_NUM_THREADS").value_or("")).value_or(0);
  report.node_devices = number("SLURM_GPUS_ON_NODE");
  report.devices = visible_devices(environment);
}

double measure_copies(MPI_Comm world) {
  std::vector<char> from(kCopyBytes, 1);
  std::vector<char> to(kCopyBytes, 2);
  std::vector<double> speeds;
  for (int i = 0; i < kRepeats; ++i) {
    MPI_Barrier(world);
    const Clock::time_point begin = Clock::now();
    std::memcpy(to.data(), from.data(), kCopyBytes);
    speeds.push_back(static_cast<double>(kCopyBytes) / to_seconds(Clock::now() - begin) / 1e9);
    from[static_cast<std::size_t>(i)] = to[kCopyBytes - 1];  // so that the compiler keeps the copy
  }
  return *std::max_element(speeds.begin(), speeds.end());
}

// Measures the speed of receiving from the previous node while each node sends to the next.
double measure_network(MPI_Comm leaders) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(leaders, &rank);
  MPI_Comm_size(leaders, &size);
  if (size < 2) return 0;
  const auto bytes = static_cast<int>(kNetworkBytes);
  std::vector<char> out(kNetworkBytes, 1);
  std::vector<char> in(kNetworkBytes);
  double best = 0;
  for (int i = 0; i <= kRepeats; ++i) {  // the first round makes the connection
    MPI_Barrier(leaders);
    const Clock::time_point begin = Clock::now();
    std::array<MPI_Request, 2> requests{};
    MPI_Irecv(in.data(), bytes, MPI_CHAR, (rank + size - 1) % size, 0, leaders, requests.data());
    MPI_Isend(out.data(), bytes, MPI_CHAR, (rank + 1) % size, 0, leaders, &requests[1]);
    MPI_Wait(requests.data(), MPI_STATUS_IGNORE);
    const double speed = static_cast<double>(bytes) / to_seconds(Clock::now() - begin) / 1e9;
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    if (i > 0) best = std::max(best, speed);
  }
  return best;
}

// Returns all reports in rank order on rank 0, and none elsewhere.
std::vector<RankReport> gather(const RankReport& report, const World& world) {
  const std::string text = encode(report);
  const auto length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(world.size));
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> begins(lengths.size());
  int total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    begins[i] = total;
    total += lengths[i];
  }
  std::string all(static_cast<std::size_t>(total), ' ');
  MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR, 0,
              MPI_COMM_WORLD);
  std::vector<RankReport> reports;
  if (world.rank != 0) return reports;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    reports.push_back(decode(
        all.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(lengths[i]))));
  }
  return reports;
}

}  // namespace

int probe_job(double timeout_seconds, const std::string& json) {
  const Lookup environment = system_environment();
  start_watchdog(timeout_seconds);
  int level = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) return 1;
  await_all_in_mpi();
  RankReport report;
  const World world = find_world(report);
  own_rank = world.rank;
  describe(report, environment);
  stage = "measuring memory";
  report.copy_gigabytes_per_second = measure_copies(MPI_COMM_WORLD);
  stage = "measuring the network";
  if (world.leaders != MPI_COMM_NULL) {
    report.network_gigabytes_per_second = measure_network(world.leaders);
  }
  stage = "MPI_Gather";
  const std::vector<RankReport> reports = gather(report, world);
  bool is_written = true;
  if (world.rank == 0) {
    const std::vector<Finding> findings = judge_job(reports);
    std::cout << job_table(reports) << "\n" << to_text(findings) << std::flush;
    if (!json.empty()) {
      std::ofstream file(json);
      is_written =
          static_cast<bool>(file << to_json(job_sections(reports), findings) << std::flush);
      if (!is_written) std::cerr << "kolo doctor: --json: cannot write '" << json << "'\n";
    }
  }
  stage = "MPI_Finalize";
  return MPI_Finalize() == MPI_SUCCESS && is_written ? 0 : 1;
}

}  // namespace kolo::cli
