#include "benchmarks/delivery.hpp"

#include <ATen/ATen.h>
#include <kolo/data/loader.h>
#include <kolo/delivery.h>
#include <kolo/init.h>
#include <time.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/base.h>
#include <torch/data/samplers.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "benchmarks/benchmarks.hpp"
#include "benchmarks/connection.hpp"
#include "benchmarks/job.hpp"
#include "benchmarks/machine.hpp"
#include "benchmarks/seen.hpp"
#include "cli/process/system.hpp"
#include "core/clock.hpp"

namespace kolo::bench {
namespace {

constexpr int kDeliverySamples = 5;
constexpr std::int64_t kBatch = 8;
constexpr double kStepSeconds = 0.005;

// The cost of a batch for the process that loads it.
struct Cost {
  bool is_computed = false;  // CPU time of a thread; otherwise it waits
  double seconds = 0;
};
// 4 times a step. Computed batches cost less, so that two cores can keep up with the steps.
constexpr Cost kSlept{false, 4 * kStepSeconds};
constexpr Cost kComputed{true, 1.5 * kStepSeconds};
Cost cost_of(const std::string& name) {
  return name == "computed" ? kComputed : kSlept;
}

double cpu_seconds_of_thread() {
  timespec now{};
  cli::check(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), "clock_gettime");
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void pay(const Cost& cost) {
  if (!cost.is_computed) {
    std::this_thread::sleep_for(seconds(cost.seconds));
    return;
  }
  const double end = cpu_seconds_of_thread() + cost.seconds;
  while (cpu_seconds_of_thread() < end) {
  }
}

SampleForm samples_of(int steps) {
  return {{16}, static_cast<std::size_t>(steps * kBatch)};
}

// Samples in memory, whose batches have a cost.
class CostlyDataset
    : public torch::data::datasets::BatchDataset<CostlyDataset, torch::data::Example<>> {
 public:
  CostlyDataset(const SampleForm& form, Cost cost)
      : cost_(cost),
        samples_(at::empty(
            {static_cast<std::int64_t>(form.count), static_cast<std::int64_t>(form.bytes())},
            at::kByte)),
        labels_(at::empty({static_cast<std::int64_t>(form.count)}, at::kLong)) {
    auto* const bytes = samples_.data_ptr<std::uint8_t>();
    for (std::size_t i = 0; i < form.count; ++i) {
      labels_.data_ptr<std::int64_t>()[i] = label_of(i);
      for (std::size_t at = 0; at < form.bytes(); ++at)
        bytes[i * form.bytes() + at] = sample_byte(i, at);
    }
  }

  torch::data::Example<> get_batch(c10::ArrayRef<std::size_t> indices) override {
    pay(cost_);
    const std::vector<std::int64_t> rows(indices.begin(), indices.end());
    const at::Tensor index = at::tensor(rows, at::kLong);
    return {samples_.index_select(0, index), labels_.index_select(0, index)};
  }
  std::optional<std::size_t> size() const override {
    return static_cast<std::size_t>(labels_.size(0));
  }

 private:
  const Cost cost_;
  at::Tensor samples_;
  at::Tensor labels_;
};

// An epoch of steps.
template <class Loader>
Seen train(Loader& loader) {
  Seen seen;
  for (const auto& batch : loader) {
    seen.add(batch.data, batch.target);
    std::this_thread::sleep_for(seconds(kStepSeconds));
  }
  return seen;
}

// Trains with a loader of some kind.
template <class Loader>
class Training final : public Contender {
 public:
  Training(std::string name, const SampleForm& form, Loader loader)
      : name_(std::move(name)), form_(form), loader_(std::move(loader)) {}

  std::string name() const override { return name_; }
  void refresh(const Pattern& /*pattern*/) override { seen_ = {}; }
  void run() override { seen_ = train(*loader_); }
  std::string check(const Pattern& /*pattern*/) override { return seen_.check(form_, 1); }

 private:
  const std::string name_;
  const SampleForm form_;
  Loader loader_;  // a pointer
  Seen seen_;
};

template <class Loader>
std::unique_ptr<Contender> training(const std::string& name, const SampleForm& form,
                                    Loader loader) {
  return std::make_unique<Training<Loader>>(name, form, std::move(loader));
}

DataLoaderOptions loader_options(int workers) {
  return DataLoaderOptions().batch_size(kBatch).workers(workers);
}

std::unique_ptr<DataLoader> kolo_loader(const CostlyDataset& dataset, int workers) {
  return std::make_unique<DataLoader>(dataset, DistributedSampler(*dataset.size(), {}),
                                      loader_options(workers));
}

auto libtorch_loader(const CostlyDataset& dataset, int workers) {
  return torch::data::make_data_loader(
      dataset, torch::data::samplers::RandomSampler(static_cast<std::int64_t>(*dataset.size())),
      torch::data::DataLoaderOptions(kBatch).workers(static_cast<std::size_t>(workers)));
}

std::unique_ptr<Job> start_job(Group& group, const std::string& cost, int steps, int loaders) {
  Job::Spec spec;
  spec.name = "delivery";
  spec.bound = false;
  spec.deadline_seconds += 10 * steps * (kStepSeconds + cost_of(cost).seconds);
  // An idle loader process prepares what the next epoch begins with.
  spec.options = {"--cpus", std::to_string(loaders), "--units", std::to_string(kBatch * loaders)};
  spec.program = {cli::own_directory() + "/kolo-bench", kDeliveryJob, cost, std::to_string(steps)};
  return std::make_unique<Job>(group, spec);
}

std::string run_epoch(DataLoader& loader, const SampleForm& form, int calls) {
  double taken = 0;
  for (int i = 0; i < calls; ++i) {
    const Clock::time_point begin = Clock::now();
    const Seen seen = train(loader);
    taken += to_seconds(Clock::now() - begin);
    const std::string problem = seen.check(form, 1);
    if (!problem.empty()) return "failed: " + problem;
  }
  std::ostringstream answer;
  answer.precision(17);
  answer << "ran " << taken * 1e6;
  return answer.str();
}

std::string answer_to(const std::string& text, DataLoader& loader, const SampleForm& form) {
  std::istringstream line(text);
  std::string word;
  int round = 0;
  int calls = 1;
  line >> word >> round >> calls;
  if (word == "start") {
    return "started kolo " + std::to_string(::getpid()) + " ; " +
           describe_placement({bound_cores()}, 1);
  }
  if (word == "work") return "ready";
  if (word == "run") return run_epoch(loader, form, calls);
  return word == "end" ? "ended" : "failed: not understood";
}

}  // namespace

// The loader processes that `kolo run` starts for this job run it, too, up to open().
int delivery_job(const std::vector<std::string>& words) {
  if (words.size() != 3) return 2;
  init();
  const SampleForm form = samples_of(std::stoi(words[1]));
  DataLoader loader = delivery::open(
      "bench", [&] { return CostlyDataset(form, cost_of(words[0])); },
      delivery::Options().loader(loader_options(1)));
  Connection connection(words[2]);
  for (;;) {
    const std::string line = connection.read_line();
    connection.answer(answer_to(line, loader, form));
    if (line == "end") break;
  }
  shutdown();
  return 0;
}

void bench_delivery(Group& group, const Options& options, const Publish& publish) {
  if (group.size() > 1) {
    publish.note("no rows of delivery: they are for one rank (-np 1)");
    return;
  }
  const SampleForm form = samples_of(options.steps);
  const Schedule schedule{options.warm_up,
                          options.samples > 0 ? options.samples : kDeliverySamples};
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  for (const std::string& name : {std::string("slept"), std::string("computed")}) {
    const CostlyDataset dataset(form, cost_of(name));
    for (const int workers : {0, 1, 2, 4, 5, 6, 8}) {
      const bool has_cores = workers <= cores;
      if (cost_of(name).is_computed && !has_cores) continue;
      Contenders contenders;
      contenders.push_back(training("steps", form, kolo_loader(CostlyDataset(form, {}), 0)));
      contenders.push_back(training("kolo", form, kolo_loader(dataset, workers)));
      contenders.push_back(training("libtorch", form, libtorch_loader(dataset, workers)));
      std::unique_ptr<Job> job;
      if (workers > 0) {
        job = start_job(group, name, options.steps, workers);
        contenders.push_back(job->contender("epochs"));
      }
      publish.rows(measure_rows(group, contenders, schedule,
                                "delivery/" + name + "/" + std::to_string(workers) + "/1",
                                static_cast<std::int64_t>(form.count * form.bytes())));
    }
  }
}

}  // namespace kolo::bench
