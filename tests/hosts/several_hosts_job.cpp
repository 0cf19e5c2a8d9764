// What several_hosts.sh runs: operations on ranks of several hosts, with the right results, and no
// more bytes between the hosts than are needed.
#include <ATen/ATen.h>
#include <kolo/kolo.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "rank %d: %s\n", kolo::rank(), what.c_str());
  std::_Exit(1);
}

at::Tensor values(std::int64_t count, int rank, at::ScalarType dtype) {
  return ((at::arange(count, at::kLong) * 7 + rank * 31) % 23).to(dtype);
}

void check_allreduce(std::int64_t count, at::ScalarType dtype, const std::vector<int>& ranks,
                     const kolo::ProcessSet& set) {
  at::Tensor sum = values(count, ranks[0], dtype);
  at::Tensor largest = sum.clone();
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    sum += values(count, ranks[i], dtype);
    largest = at::maximum(largest, values(count, ranks[i], dtype));
  }
  const at::Tensor mine = values(count, kolo::rank(), dtype);
  const auto options = [&](kolo::ReduceOp op) {
    return kolo::AllreduceOptions(op).process_set(set);
  };
  const std::string what = std::to_string(count) + " elements of " + c10::toString(dtype) +
                           " over " + std::to_string(ranks.size()) + " ranks";
  require(kolo::allreduce(mine, options(kolo::ReduceOp::Sum)).equal(sum), "Sum of " + what);
  require(kolo::allreduce(mine, options(kolo::ReduceOp::Max)).equal(largest), "Max of " + what);
}

void check_operations(const std::vector<int>& ranks, const kolo::ProcessSet& set) {
  for (const std::int64_t count : {0, 1, 100, 20'000, 3'000'001}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kLong})
      check_allreduce(count, dtype, ranks, set);
  }
  const int root = ranks.back();
  const auto options = kolo::OperationOptions().process_set(set);
  require(kolo::broadcast(values(5000, kolo::rank(), at::kFloat), root, options)
              .equal(values(5000, root, at::kFloat)),
          "broadcast");
  const at::Tensor rows = kolo::allgather(at::full({3}, kolo::rank()), options);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    require(rows[static_cast<std::int64_t>(3 * i)].item<int>() == ranks[i], "allgather");
}

// Of this host's network: /sys may show another one.
std::uint64_t sent_by_this_host() {
  std::ifstream file("/proc/self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t name = line.find("eth0:");
    if (name == std::string::npos) continue;
    std::istringstream columns(line.substr(name + 5));
    std::uint64_t bytes = 0;
    for (int column = 0; column <= 8; ++column) columns >> bytes;  // the first 8 are received
    return bytes;
  }
  return 0;
}

// Of two hosts each sends each byte of its sum once (a flat ring over 2 + 2 ranks would send it 1.5
// times), of three 4/3 times, and little else.
void check_traffic(int hosts) {
  constexpr std::int64_t kBytes = 16 << 20;
  constexpr int kTimes = 8;
  constexpr int kMpiTimes = 2;
  at::Tensor data = at::ones({kBytes / 4});
  const kolo::AllreduceOptions options =
      kolo::AllreduceOptions(kolo::ReduceOp::Max).name("traffic");
  kolo::allreduce_(data, options);
  kolo::barrier();
  const std::uint64_t before = sent_by_this_host();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kTimes; ++i) kolo::allreduce_(data, options);
  const std::chrono::duration<double, std::milli> kolo_time = Clock::now() - begin;
  kolo::barrier();
  const double share = static_cast<double>(sent_by_this_host() - before) / (kTimes * kBytes);
  const Clock::time_point mpi_begin = Clock::now();
  for (int i = 0; i < kMpiTimes; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, data.data_ptr(), kBytes / 4, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  }
  const std::chrono::duration<double, std::milli> mpi_time = Clock::now() - mpi_begin;
  if (kolo::rank() == 0) {
    std::printf("allreduce of 16 MiB: %.1f ms (MPI_Allreduce %.1f ms); a host sends %.2f of it\n",
                kolo_time.count() / kTimes, mpi_time.count() / kMpiTimes, share);
  }
  const double least = 2.0 * (hosts - 1) / hosts;
  require(share > 0.9 * least && share < 1.2 * least,
          "a host has sent " + std::to_string(share) + " of the bytes");
}

}  // namespace

// several_hosts_job HOSTS: how many there are.
int main(int argc, char** argv) {
  kolo::init();
  const int hosts = argc == 2 ? std::atoi(argv[1]) : 0;
  require(kolo::local_rank() > 0 || kolo::cross_size() == hosts, "there are other hosts");
  std::vector<int> everyone;
  for (int rank = 0; rank < kolo::size(); ++rank) everyone.push_back(rank);
  check_operations(everyone, kolo::ProcessSet());
  // One rank of each host, and all but the first.
  for (const std::vector<int>& ranks : {std::vector<int>{0, kolo::size() - 1},
                                        std::vector<int>(everyone.begin() + 1, everyone.end())}) {
    const kolo::ProcessSet set = kolo::add_process_set(ranks);
    if (set.included()) check_operations(ranks, set);
  }
  check_traffic(hosts);
  if (kolo::rank() == 0) std::printf("all right on %d ranks\n", kolo::size());
  kolo::shutdown();
  return 0;
}
