// A random program whose results are all checked: soak_job SEED [STEPS].
//
// The job's threads work at the same time, each in a process set of its own (the first one: all
// ranks). In each step of a thread the ranks submit some of its tensors, whose shapes change now
// and then, each rank in an order of its own, and wait for them in another. In some steps a few
// ranks join instead. What the ranks do follows from SEED alone; when they do it does not.
//
// Exits with 3 at the first wrong result. A step that takes longer than SOAK_PATIENCE seconds (40)
// is a hang: the rank says where it is, and exits with 5.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <kolo/error.h>
#include <kolo/init.h>
#include <kolo/operations.h>
#include <kolo/process_set.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using Random = std::mt19937;

std::atomic<long> checks{0};

// Ends the process when a thread makes no step for too long.
class Watchdog {
 public:
  Watchdog() {
    const char* text = std::getenv("SOAK_PATIENCE");
    const int patience = text == nullptr ? 40 : std::atoi(text);
    std::thread([this, patience] { watch(patience); }).detach();
  }
  void begin(int lane, const std::string& step) {
    const std::lock_guard lock(mutex_);
    steps_[lane] = {step, std::chrono::steady_clock::now()};
  }
  void end(int lane) {
    const std::lock_guard lock(mutex_);
    steps_.erase(lane);
  }

 private:
  struct Step {
    std::string name;
    std::chrono::steady_clock::time_point since;
  };

  void watch(int patience) {
    while (true) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      const std::lock_guard lock(mutex_);
      for (const auto& [lane, step] : steps_) {
        if (std::chrono::steady_clock::now() - step.since < std::chrono::seconds(patience))
          continue;
        std::printf("HANGS: rank %d, thread %d, %s, for %d s\n", kolo::rank(), lane,
                    step.name.c_str(), patience);
        std::fflush(stdout);
        std::raise(SIGUSR2);  // writes the flight recorder
        std::this_thread::sleep_for(std::chrono::seconds(2));
        std::_Exit(5);
      }
    }
  }

  std::mutex mutex_;
  std::map<int, Step> steps_;
};

// What one thread does in its process set.
class Lane {
 public:
  Lane(int number, kolo::ProcessSet set, unsigned seed, Watchdog& watchdog)
      : number_(number),
        set_(std::move(set)),
        shared_(seed),
        own_(seed * 31 + 1000 + static_cast<unsigned>(kolo::rank())),
        watchdog_(watchdog) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      choose_joining();
      const std::vector<Use> uses = choose_uses(step);
      watchdog_.begin(number_, "step " + std::to_string(step));
      dawdle();
      if (joining_.count(set_.rank()) == 0) carry_out(uses);
      if (!joining_.empty()) {
        dawdle();
        kolo::join(set_);
      }
      if (!joining_.empty() || step % 5 == 0) check_in_step(step);
      watchdog_.end(number_);
    }
  }

 private:
  enum class Kind {
    kAllreduce,
    kGroup,
    kAllgather,
    kBroadcast,
    kReducescatter,
    kAlltoall,
    kReduce
  };
  struct Use {
    Kind kind = Kind::kAllreduce;
    std::string name;  // empty: unnamed
    std::int64_t elements = 1;
    at::ScalarType dtype = at::kInt;
    kolo::ReduceOp op = kolo::ReduceOp::Sum;
    int salt = 0;
  };

  bool chance(Random& random, unsigned percent) { return random() % 100 < percent; }
  int size() const { return set_.size(); }

  void dawdle() {
    if (chance(own_, 40)) std::this_thread::sleep_for(std::chrono::microseconds(own_() % 2000));
  }

  void choose_joining() {
    joining_.clear();
    if (size() < 2 || !chance(shared_, 30)) return;
    const auto count = 1 + shared_() % static_cast<unsigned>(size() - 1);
    while (joining_.size() < count)
      joining_.insert(static_cast<int>(shared_() % static_cast<unsigned>(size())));
  }

  // A name keeps its shape for some steps: in that time it is known, and goes into a bucket.
  std::vector<Use> choose_uses(int step) {
    if (chance(shared_, 25)) {
      for (std::int64_t& extent : extents_) {
        if (chance(shared_, 50)) extent = any_extent();
      }
    }
    std::vector<Use> uses;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      if (chance(shared_, 30)) continue;
      Use use;
      use.name = "n" + std::to_string(i);
      use.elements = extents_[i];
      use.dtype = i % 3 == 0 ? at::kFloat : i % 3 == 1 ? at::kInt : at::kLong;
      use.op = i % 4 == 3 ? kolo::ReduceOp::Max : kolo::ReduceOp::Sum;
      use.salt = step + static_cast<int>(i);
      uses.push_back(use);
    }
    for (unsigned more = shared_() % 3; more > 0; --more) {
      Use use;
      use.kind =
          joining_.empty() ? static_cast<Kind>(shared_() % 7) : static_cast<Kind>(shared_() % 3);
      use.name = "m" + std::to_string(static_cast<int>(use.kind)) + "." + std::to_string(more);
      use.elements = any_extent();
      use.salt = step + 7 * static_cast<int>(more);
      uses.push_back(use);
    }
    return uses;
  }

  std::int64_t any_extent() {
    static constexpr std::int64_t kExtents[] = {1,    3,     25,    125,    289,   1000,
                                                4913, 10000, 40000, 150000, 300000};
    // Most are small: these go into buckets, and into the room for small values.
    const unsigned most = chance(shared_, 90) ? 8 : 11;
    return kExtents[shared_() % most];
  }

  // Element i of what a rank gives.
  static std::int64_t value_of(int rank, const Use& use) { return 1 + rank * 3 + use.salt % 50; }
  static at::Tensor pattern(std::int64_t elements, at::ScalarType dtype) {
    return at::arange(elements, at::kLong).remainder(5).to(dtype);
  }
  static at::Tensor given(int rank, const Use& use, std::int64_t elements) {
    return pattern(elements, use.dtype) + value_of(rank, use);
  }

  std::vector<int> givers() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if (joining_.count(rank) == 0) ranks.push_back(rank);
    }
    return ranks;
  }

  at::Tensor reduced(const Use& use, std::int64_t elements) const {
    const std::vector<int> ranks = givers();
    if (use.op == kolo::ReduceOp::Max) return given(ranks.back(), use, elements);
    std::int64_t sum = 0;
    for (const int rank : ranks) sum += value_of(rank, use);
    return pattern(elements, use.dtype) * static_cast<std::int64_t>(ranks.size()) + sum;
  }

  void expect(const Use& use, const at::Tensor& result, const at::Tensor& expected) {
    ++checks;
    if (result.equal(expected)) return;
    std::printf("WRONG: rank %d, thread %d, '%s' of %ld elements: first is %s instead of %s\n",
                kolo::rank(), number_, use.name.c_str(), static_cast<long>(use.elements),
                result.numel() == 0 ? "nothing" : c10::str(result.flatten()[0].item()).c_str(),
                expected.numel() == 0 ? "nothing" : c10::str(expected.flatten()[0].item()).c_str());
    std::fflush(stdout);
    std::_Exit(3);
  }

  // Submits, and returns what waits and checks.
  std::function<void()> submit(const Use& use) {
    const int rank = set_.rank();
    const kolo::AllreduceOptions reduction =
        kolo::AllreduceOptions(use.name).op(use.op).process_set(set_);
    const kolo::OperationOptions plain = kolo::OperationOptions(use.name).process_set(set_);
    switch (use.kind) {
      case Kind::kGroup: {
        auto handle = std::make_shared<kolo::GroupHandle>(kolo::grouped_allreduce_async(
            {given(rank, use, use.elements), given(rank, use, 7)}, reduction));
        return [=, this] {
          const std::vector<at::Tensor> results = handle->wait();
          expect(use, results[0], reduced(use, use.elements));
          expect(use, results[1], reduced(use, 7));
        };
      }
      case Kind::kAllgather: {
        auto handle = std::make_shared<kolo::Handle>(
            kolo::allgather_async(given(rank, use, rows(rank, use)), plain));
        return [=, this] {
          std::vector<at::Tensor> all;
          for (const int from : givers()) all.push_back(given(from, use, rows(from, use)));
          expect(use, handle->wait(), at::cat(all));
        };
      }
      case Kind::kBroadcast: {
        const int root = use.salt % size();
        auto handle = std::make_shared<kolo::Handle>(kolo::broadcast_async(
            given(rank, use, use.elements), set_.ranks()[static_cast<std::size_t>(root)], plain));
        return [=, this] { expect(use, handle->wait(), given(root, use, use.elements)); };
      }
      case Kind::kReduce: {
        const int root = use.salt % size();
        auto handle = std::make_shared<kolo::Handle>(
            kolo::reduce_async(given(rank, use, use.elements),
                               set_.ranks()[static_cast<std::size_t>(root)], reduction));
        return [=, this] {
          const at::Tensor sum = reduced(use, use.elements);
          expect(use, handle->wait(), rank == root ? sum : at::zeros_like(sum));
        };
      }
      case Kind::kReducescatter: {
        auto handle = std::make_shared<kolo::Handle>(
            kolo::reducescatter_async(given(rank, use, use.elements), reduction));
        return [=, this] {
          std::int64_t begin = 0;
          for (int before = 0; before < rank; ++before) begin += share(use.elements, before);
          expect(use, handle->wait(),
                 reduced(use, use.elements).narrow(0, begin, share(use.elements, rank)));
        };
      }
      case Kind::kAlltoall: {
        std::vector<std::int64_t> splits;
        for (int to = 0; to < size(); ++to) splits.push_back(split(rank, to, use));
        const std::int64_t all = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
        auto handle = std::make_shared<kolo::AlltoallHandle>(
            kolo::alltoall_async(given(rank, use, all), splits, plain));
        return [=, this] {
          std::vector<at::Tensor> parts;
          for (int from = 0; from < size(); ++from) {
            std::int64_t begin = 0;
            for (int to = 0; to < rank; ++to) begin += split(from, to, use);
            const std::int64_t count = split(from, rank, use);
            parts.push_back(given(from, use, begin + count).narrow(0, begin, count));
          }
          expect(use, handle->wait().output, at::cat(parts));
        };
      }
      case Kind::kAllreduce:
        break;
    }
    auto handle = std::make_shared<kolo::Handle>(
        kolo::allreduce_async(given(rank, use, use.elements), reduction));
    return [=, this] { expect(use, handle->wait(), reduced(use, use.elements)); };
  }

  static std::int64_t rows(int rank, const Use& use) { return use.elements / (1 + rank) + rank; }
  static std::int64_t split(int from, int to, const Use& use) {
    return (use.elements + from + 2 * to) % 11;
  }
  std::int64_t share(std::int64_t rows, int rank) const {
    return rows / size() + (rank < rows % size() ? 1 : 0);
  }

  void carry_out(std::vector<Use> uses) {
    // Buckets form where the set's first rank submits in the same order each time.
    if (set_.rank() != 0 || chance(own_, 10)) std::shuffle(uses.begin(), uses.end(), own_);
    std::vector<std::function<void()>> waits;
    for (const Use& use : uses) {
      if (chance(own_, 10)) dawdle();
      waits.push_back(submit(use));
    }
    if (chance(own_, 50)) std::shuffle(waits.begin(), waits.end(), own_);
    for (const std::function<void()>& wait : waits) wait();
  }

  // An unnamed operation of all: their count must be the same after a join.
  void check_in_step(int step) {
    const at::Tensor sum =
        kolo::allreduce(at::full({3}, step + set_.rank(), at::kLong),
                        kolo::AllreduceOptions(kolo::ReduceOp::Sum).process_set(set_));
    Use use;
    use.name = "unnamed";
    expect(use, sum, at::full({3}, size() * step + size() * (size() - 1) / 2, at::kLong));
  }

  const int number_;
  const kolo::ProcessSet set_;
  Random shared_;  // the same on all ranks of the set
  Random own_;     // when this rank does what
  Watchdog& watchdog_;
  std::vector<std::int64_t> extents_ = {25, 289, 125, 4913, 1000, 3};
  std::set<int> joining_;  // ranks of the set, in this step
};

void run(unsigned seed, int steps) {
  Random random(seed);
  Watchdog& watchdog = *new Watchdog;  // its thread may look at it to the end of the process
  const int threads = 1 + static_cast<int>(random() % 3);
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<std::size_t>(threads));
  for (int lane = 0; lane < threads; ++lane) {
    std::vector<int> ranks(static_cast<std::size_t>(kolo::size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random);
    ranks.resize(1 + random() % ranks.size());
    const auto lane_seed = static_cast<unsigned>(random());
    const kolo::ProcessSet set = lane == 0 ? kolo::ProcessSet() : kolo::add_process_set(ranks);
    if (set.included()) lanes.emplace_back(lane, set, lane_seed, watchdog);
  }
  std::vector<std::thread> running;
  for (Lane& lane : lanes) {
    running.emplace_back([&lane, steps] {
      try {
        lane.run(steps);
      } catch (const std::exception& error) {
        std::printf("ERROR: %s\n", error.what());
        std::fflush(stdout);
        std::_Exit(4);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const auto seed = static_cast<unsigned>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  try {
    kolo::init();
    at::set_num_threads(1);
    run(seed, argc > 2 ? std::atoi(argv[2]) : 150);
    kolo::shutdown();
  } catch (const std::exception& error) {
    std::printf("ERROR: %s\n", error.what());
    return 4;
  }
  std::printf("%ld results checked\n", checks.load());
  return 0;
}
