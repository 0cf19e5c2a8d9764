// kolo bench allocate: tensors' memory from kolo's arena and from LibTorch's own allocator.
#include <c10/core/CPUAllocator.h>
#include <kolo/memory.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/benchmarks.hpp"
#include "benchmarks/sizes.hpp"
#include "benchmarks/stay.hpp"
#include "benchmarks/tensors.hpp"

namespace kolo::bench {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBlocks = 4;  // of a thread at once
constexpr int kAllocateSamples = 20;
constexpr std::int64_t kBytesInSample = 1 << 30;

// The launcher may have bound the rank to one core. Threads take turns on the node's, and do not
// move. Where that is not allowed, a thread runs where it is.
void bind_to_core(int thread) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  if (sched_setaffinity(0, sizeof all, &all) != 0 || sched_getaffinity(0, sizeof all, &all) != 0)
    return;
  int left = thread % std::max(1, CPU_COUNT(&all));
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || left-- > 0) continue;
    CPU_ZERO(&all);
    CPU_SET(core, &all);
    sched_setaffinity(0, sizeof all, &all);
    return;
  }
}

// Each thread takes four blocks, writes into each of their pages, and gives them back, round by
// round. On rank 0, while the others sleep.
class Allocate final : public Contender {
 public:
  Allocate(Group& group, std::string name, c10::Allocator& allocator, std::size_t bytes,
           int threads)
      : group_(group),
        name_(std::move(name)),
        allocator_(allocator),
        bytes_(bytes),
        threads_(threads),
        rounds_(static_cast<int>(std::clamp<std::int64_t>(
            kBytesInSample / static_cast<std::int64_t>(bytes * kBlocks), 4, 4096))) {}

  std::string name() const override { return name_; }
  void refresh(const Pattern& /*pattern*/) override {
    overlaps_ = 0;
    refusals_ = arena_statistics().refusals;
  }

  void run() override {
    if (group_.rank() == 0) work();
    group_.sleep_until_all();
  }

  std::optional<double> measured_microseconds() const override { return microseconds_; }

  std::string check(const Pattern& /*pattern*/) override {
    if (overlaps_ > 0) return std::to_string(overlaps_) + " pages were somebody else's, too";
    if (arena_statistics().refusals == refusals_) return "";
    return "the arena had no room: KOLO_ARENA_BYTES or the machine's memory is too small for it";
  }

 private:
  void work() {
    std::atomic<int> here{0};
    std::vector<double> ends(static_cast<std::size_t>(threads_));
    std::vector<std::thread> threads;
    std::atomic<bool> begins{false};
    threads.reserve(ends.size());
    for (int number = 0; number < threads_; ++number) {
      threads.emplace_back([&, number] {
        bind_to_core(number);
        round(number);  // its caches have what it needs
        ++here;
        while (!begins) sched_yield();
        for (int i = 0; i < rounds_; ++i) round(number);
        ends[static_cast<std::size_t>(number)] = monotonic_microseconds();
      });
    }
    while (here < threads_) sched_yield();
    const double start = monotonic_microseconds();
    begins = true;
    for (std::thread& thread : threads) thread.join();
    microseconds_ = (*std::max_element(ends.begin(), ends.end()) - start) /
                    static_cast<double>(static_cast<std::size_t>(rounds_) * kBlocks);
  }

  void round(int number) {
    std::array<c10::DataPtr, kBlocks> blocks;
    std::uint32_t mark = static_cast<std::uint32_t>(number) << 16;
    for (c10::DataPtr& block : blocks) {
      block = allocator_.allocate(bytes_);
      ++mark;
      for (std::size_t at = 0; at < bytes_; at += kPage) word(block, at) = mark;
    }
    mark = static_cast<std::uint32_t>(number) << 16;
    int overlaps = 0;
    for (const c10::DataPtr& block : blocks) {
      ++mark;
      for (std::size_t at = 0; at < bytes_; at += kPage) overlaps += word(block, at) != mark;
    }
    if (overlaps != 0) overlaps_ += overlaps;
  }

  static std::uint32_t& word(const c10::DataPtr& block, std::size_t at) {
    return *reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(block.get()) + at);
  }

  Group& group_;  // outlives the benchmark's contenders
  const std::string name_;
  c10::Allocator& allocator_;
  const std::size_t bytes_;
  const int threads_;
  const int rounds_;
  std::atomic<int> overlaps_{0};
  std::size_t refusals_ = 0;
  double microseconds_ = 0;  // of a block, on rank 0
};

}  // namespace

void bench_allocate(Group& group, const Options& options, const Publish& publish) {
  if (usual_memory() != Memory::kArena)
    throw RunFailed("allocate needs an arena: two ranks on this node, and no KOLO_ARENA=0");
  for (const std::int64_t bytes : sizes_between(options.min_bytes, options.max_bytes)) {
    for (const int threads : {1, 2, 4}) {
      const auto size = static_cast<std::size_t>(bytes);
      Contenders contenders;
      contenders.push_back(
          std::make_unique<Allocate>(group, "kolo", *c10::GetCPUAllocator(), size, threads));
      contenders.push_back(std::make_unique<Allocate>(
          group, "stock", *c10::GetDefaultCPUAllocator(), size, threads));
      const Schedule schedule{options.warm_up,
                              options.samples > 0 ? options.samples : kAllocateSamples};
      publish.rows(measure_rows(group, contenders, schedule,
                                "allocate/" + std::to_string(bytes) + "/" +
                                    std::to_string(threads) + "/" + std::to_string(group.size()),
                                bytes));
    }
  }
}

}  // namespace kolo::bench
