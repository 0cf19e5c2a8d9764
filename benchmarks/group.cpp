#include "benchmarks/group.hpp"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

namespace kolo::bench {
namespace {

constexpr std::size_t kTextBytes = 256;

// A round trip of a cache line has taken some 110 ns between cores of an EPYC that share a cache,
// and 510 between others; between any two cores of a Xeon 250 to 300, which have one cache in
// common. Lines are two apart, for caches fetch them in pairs.
constexpr double kFarNanoseconds = 400;
constexpr std::size_t kLineFloats = 32;
constexpr std::uint32_t kBatches = 4;
constexpr std::uint32_t kTripsInBatch = 16;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw std::runtime_error(std::string(call) +
                           " failed: " + std::string(text, static_cast<std::size_t>(length)));
}

void require_threads() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level == MPI_THREAD_MULTIPLE) return;
  throw std::runtime_error("the benchmarks need an MPI library with MPI_THREAD_MULTIPLE");
}

void sleep_until_done(MPI_Request& request) {
  for (int done = 0;;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

MpiRuntime::MpiRuntime() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
}

MpiRuntime::~MpiRuntime() {
  MPI_Finalize();  // nothing can be done about a failure at the end
}

Cut::Cut(std::vector<int> part_counts)
    : counts(std::move(part_counts)), displacements(counts.size()) {
  std::exclusive_scan(counts.begin(), counts.end(), displacements.begin(), 0);
}

struct Group::Comm {
  MPI_Comm mpi = MPI_COMM_NULL;
  MPI_Comm node = MPI_COMM_NULL;
};

Group::Group() : comm_(std::make_unique<Comm>()) {
  require_threads();
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_->mpi), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(comm_->mpi, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(comm_->mpi, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_->mpi, &size_), "MPI_Comm_size");
  check(MPI_Comm_split_type(comm_->mpi, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &comm_->node),
        "MPI_Comm_split_type");
  if (size_ > 1 && have_cores_of_their_own()) lines_ = allocate_window(kLineFloats);
}

Group::~Group() {
  lines_.reset();
  // Nothing can be done about a failure at the end.
  for (MPI_Comm* comm : {&comm_->node, &comm_->mpi}) {
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
  }
}

void Group::barrier() {
  check(MPI_Barrier(comm_->mpi), "MPI_Barrier");
}

void Group::sleep_until_all() {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm_->mpi, &request), "MPI_Ibarrier");
  sleep_until_done(request);
}

std::string Group::sleep_until_told(const std::string& line) {
  std::string text = line.substr(0, kTextBytes - 1);
  text.resize(kTextBytes, '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibcast(text.data(), kTextBytes, MPI_CHAR, 0, comm_->mpi, &request), "MPI_Ibcast");
  sleep_until_done(request);
  text.resize(text.find('\0'));
  return text;
}

void Group::largest(double* values, int count) {
  check(MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, comm_->mpi),
        "MPI_Allreduce");
}

void Group::largest_on_node(double* values, int count) {
  check(MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, comm_->node),
        "MPI_Allreduce");
}

void Group::allreduce_sum(float* data, std::size_t count) {
  check(MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm_->mpi),
        "MPI_Allreduce");
}

void Group::reduce_sum(const float* in, std::size_t count, float* out) {
  check(MPI_Reduce(in, out, static_cast<int>(count), MPI_FLOAT, MPI_SUM, 0, comm_->mpi),
        "MPI_Reduce");
}

void Group::broadcast(float* data, std::size_t count) {
  check(MPI_Bcast(data, static_cast<int>(count), MPI_FLOAT, 0, comm_->mpi), "MPI_Bcast");
}

void Group::allgather(const float* in, std::size_t count, float* out) {
  const int each = static_cast<int>(count);
  check(MPI_Allgather(in, each, MPI_FLOAT, out, each, MPI_FLOAT, comm_->mpi), "MPI_Allgather");
}

void Group::alltoall(const float* in, const Cut& give, float* out, const Cut& take) {
  check(MPI_Alltoallv(in, give.counts.data(), give.displacements.data(), MPI_FLOAT, out,
                      take.counts.data(), take.displacements.data(), MPI_FLOAT, comm_->mpi),
        "MPI_Alltoallv");
}

void Group::reducescatter_sum(const float* in, const Cut& give, float* out) {
  check(MPI_Reduce_scatter(in, out, give.counts.data(), MPI_FLOAT, MPI_SUM, comm_->mpi),
        "MPI_Reduce_scatter");
}

void Group::sendrecv(const float* in, std::size_t count, int to, float* out, int from) {
  const int each = static_cast<int>(count);
  check(MPI_Sendrecv(in, each, MPI_FLOAT, to, 0, out, each, MPI_FLOAT, from, 0, comm_->mpi,
                     MPI_STATUS_IGNORE),
        "MPI_Sendrecv");
}

void Group::broadcast_bytes(void* data, std::size_t count) {
  check(MPI_Bcast(data, static_cast<int>(count), MPI_BYTE, 0, comm_->mpi), "MPI_Bcast");
}

// --- how far the cores are ---

bool Group::have_cores_of_their_own() const {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_ZERO(&mine);
  std::vector<cpu_set_t> all(static_cast<std::size_t>(size_));
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm_->mpi),
        "MPI_Allgather");
  cpu_set_t taken;
  CPU_ZERO(&taken);
  for (const cpu_set_t& set : all) {
    cpu_set_t shared;
    CPU_AND(&shared, &taken, &set);
    if (CPU_COUNT(&set) == 0 || CPU_COUNT(&shared) > 0) return false;
    CPU_OR(&taken, &taken, &set);
  }
  return true;
}

// Of a line between rank `first` and the next, in nanoseconds, the quickest of some; 0 on others.
double Group::round_trip(int first) {
  using SteadyClock = std::chrono::steady_clock;
  const auto line = [&](int rank) {
    return std::atomic_ref(
        reinterpret_cast<std::uint32_t&>(*lines_->by_rank()[static_cast<std::size_t>(rank)]));
  };
  const std::uint32_t begin = round_trips_;
  round_trips_ += kBatches * kTripsInBatch;
  if (rank_ != first && rank_ != first + 1) return 0;
  const int peer = rank_ == first ? first + 1 : first;
  double best = std::numeric_limits<double>::infinity();
  SteadyClock::time_point start = SteadyClock::now();
  for (std::uint32_t trip = begin + 1; trip != round_trips_ + 1; ++trip) {
    if (rank_ == first) line(rank_).store(trip, std::memory_order_release);
    while (line(peer).load(std::memory_order_acquire) != trip) {
    }
    if (rank_ != first) line(rank_).store(trip, std::memory_order_release);
    if ((trip - begin) % kTripsInBatch != 0) continue;
    const SteadyClock::time_point now = SteadyClock::now();
    best = std::min(best, std::chrono::duration<double, std::nano>(now - start).count());
    start = now;
  }
  return best / kTripsInBatch;
}

Distance Group::distance() {
  if (lines_ == nullptr || lines_->by_rank().empty()) return Distance::kUnknown;
  double slowest = 0;
  barrier();
  for (int first = 0; first + 1 < size_; ++first) slowest = std::max(slowest, round_trip(first));
  largest(&slowest, 1);
  return slowest > kFarNanoseconds ? Distance::kFar : Distance::kNear;
}

struct Group::Window::Handle {
  MPI_Win mpi = MPI_WIN_NULL;
};

Group::Window::Window() : handle_(std::make_unique<Handle>()) {}

Group::Window::~Window() {
  // Nothing can be done about a failure at the end.
  if (handle_->mpi != MPI_WIN_NULL) MPI_Win_free(&handle_->mpi);
}

std::unique_ptr<Group::Window> Group::allocate_window(std::size_t floats) {
  int on_node = 0;
  check(MPI_Comm_size(comm_->node, &on_node), "MPI_Comm_size");
  std::unique_ptr<Window> window(new Window);
  if (on_node != size_) return window;
  float* mine = nullptr;
  check(MPI_Win_allocate_shared(static_cast<MPI_Aint>(floats * sizeof(float)), sizeof(float),
                                MPI_INFO_NULL, comm_->node, &mine, &window->handle_->mpi),
        "MPI_Win_allocate_shared");
  for (int rank = 0; rank < size_; ++rank) {
    MPI_Aint bytes = 0;
    int unit = 0;
    float* theirs = nullptr;
    check(MPI_Win_shared_query(window->handle_->mpi, rank, &bytes, &unit, &theirs),
          "MPI_Win_shared_query");
    window->by_rank_.push_back(theirs);
  }
  return window;
}

std::vector<std::string> Group::gather(const std::string& text) {
  std::string mine = text.substr(0, kTextBytes - 1);
  mine.resize(kTextBytes, '\0');
  std::string all(rank_ == 0 ? kTextBytes * static_cast<std::size_t>(size_) : 0, '\0');
  check(MPI_Gather(mine.data(), kTextBytes, MPI_CHAR, all.data(), kTextBytes, MPI_CHAR, 0,
                   comm_->mpi),
        "MPI_Gather");
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += kTextBytes) texts.emplace_back(all.c_str() + at);
  return texts;
}

std::vector<int> Group::nodes() {
  int first = rank_;
  check(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm_->node), "MPI_Allreduce");
  std::vector<int> all(static_cast<std::size_t>(size_));
  check(MPI_Allgather(&first, 1, MPI_INT, all.data(), 1, MPI_INT, comm_->mpi), "MPI_Allgather");
  return all;
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  return {text, static_cast<std::size_t>(length)};
}

void abort_job(int code) {
  int running = 0;
  if (MPI_Initialized(&running) == MPI_SUCCESS && running != 0) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace kolo::bench
