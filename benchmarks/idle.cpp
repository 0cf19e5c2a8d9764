// kolo bench idle: what a job takes of the machine's cores while its program asks kolo for nothing.
#include <kolo/operations.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "benchmarks/benchmarks.hpp"

namespace kolo::bench {
namespace {

constexpr int kIdleSamples = 10;
constexpr std::chrono::seconds kSleep{2};

double microseconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
}

// Of all threads of this process: MPI's, too.
double cpu_microseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);  // cannot fail
  return microseconds_of(usage.ru_utime) + microseconds_of(usage.ru_stime);
}

class Idle final : public Contender {
 public:
  explicit Idle(Group& group) : group_(group) {}

  std::string name() const override { return "kolo"; }
  void refresh(const Pattern& /*pattern*/) override { tensor_ = torch::ones({1000}); }

  void run() override {
    allreduce_(tensor_, AllreduceOptions(ReduceOp::Sum).name("bench.idle"));
    barrier();
    const double before = cpu_microseconds();
    std::this_thread::sleep_for(kSleep);
    auto used = static_cast<float>(cpu_microseconds() - before);
    group_.allreduce_sum(&used, 1);  // ranks that are late still sleep: nothing wakes them
    used_ = used / static_cast<double>(kSleep.count());
  }

  std::optional<double> measured_microseconds() const override { return used_; }

  // That it was there, and still is.
  std::string check(const Pattern& /*pattern*/) override {
    allreduce_(tensor_, AllreduceOptions(ReduceOp::Sum).name("bench.idle"));
    const double expected = static_cast<double>(group_.size()) * group_.size();
    return tensor_.eq(expected).all().item<bool>() ? "" : "a sum before or after it was wrong";
  }

 private:
  Group& group_;  // outlives the benchmark's contenders
  at::Tensor tensor_;
  double used_ = 0;
};

}  // namespace

void bench_idle(Group& group, const Options& options, const Publish& publish) {
  Contenders contenders;
  contenders.push_back(std::make_unique<Idle>(group));
  const Schedule schedule{options.warm_up, options.samples > 0 ? options.samples : kIdleSamples};
  publish.rows(
      measure_rows(group, contenders, schedule, "idle/" + std::to_string(group.size()), 0));
}

}  // namespace kolo::bench
