#include "benchmarks/train.hpp"

#include <kolo/operations.h>
#include <kolo/optim/adadelta.h>
#include <kolo/optimizer.h>
#include <kolo/parameters.h>
#include <kolo/timeline.h>
#include <kolo/trainer.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "benchmarks/child.hpp"
#include "benchmarks/mpi_job.hpp"
#include "examples/mnist/net.hpp"

namespace kolo::bench {
namespace {

constexpr double kDeadlineSeconds = 120;

// The network with data that are no digits, which takes as long.
class Training {
 public:
  Training(int batch, int seed) {
    torch::manual_seed(1);
    net_ = mnist::Net();
    torch::manual_seed(static_cast<std::uint64_t>(seed) + 2);
    images_ = torch::randn({batch, 1, 28, 28});
    labels_ = torch::randint(10, {batch}, torch::kLong);
  }

  mnist::Net& net() { return net_; }

  void train(torch::optim::Optimizer& optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      const at::Tensor loss = torch::nll_loss(net_(images_), labels_);
      loss.backward();
      optimizer.step();
      loss_ = loss.item<double>();
    }
  }

  double loss() const { return loss_; }
  const at::Tensor& images() const { return images_; }
  const at::Tensor& labels() const { return labels_; }

  // FNV-1a over the parameters' bits, as many as a double holds.
  double fingerprint() const {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const at::Tensor& parameter : net_->parameters()) {
      const at::Tensor values = parameter.contiguous();
      const auto* bytes = static_cast<const unsigned char*>(values.const_data_ptr());
      for (std::size_t i = 0; i < values.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
    }
    return static_cast<double>(hash >> 12);
  }

 private:
  mnist::Net net_{nullptr};
  at::Tensor images_;
  at::Tensor labels_;
  double loss_ = 0;
};

class KoloTraining : public Contender {
 public:
  KoloTraining(Ranks& ranks, const TrainingSize& size)
      : ranks_(ranks),
        steps_(size.steps),
        training_(size.batch, ranks.rank()),
        optimizer_(training_.net()->parameters(), optim::AdadeltaOptions(0.1),
                   DistributedOptimizerOptions().name("bench.train")) {
    broadcast_parameters(*training_.net());
  }

  std::string name() const override { return "kolo"; }
  void refresh(const Pattern& /*pattern*/) override {}
  void run() override { training_.train(optimizer_, steps_); }
  int rank() const { return ranks_.rank(); }
  int steps() const { return steps_; }

  std::string check(const Pattern& /*pattern*/) override {
    if (!std::isfinite(training_.loss())) return "the loss is not finite";
    const double mine = training_.fingerprint();
    double extremes[2] = {mine, -mine};
    ranks_.largest(extremes, 2);
    return extremes[0] == -extremes[1] ? "" : "the ranks' parameters differ";
  }

 private:
  Ranks& ranks_;  // outlives the benchmark's contenders
  const int steps_;
  Training training_;
  DistributedOptimizer<optim::Adadelta> optimizer_;
};

// The same network in the same memory, while each rank writes a timeline, which must have each
// step's tensors.
class TimelineTraining final : public Contender {
 public:
  explicit TimelineTraining(KoloTraining& training) : training_(training) {
    std::string name = std::filesystem::temp_directory_path() / "kolo-bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw ContenderFailed("no temporary folder");
    folder_ = name;
  }
  ~TimelineTraining() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TimelineTraining(const TimelineTraining&) = delete;
  TimelineTraining& operator=(const TimelineTraining&) = delete;

  std::string name() const override { return "kolo-timeline"; }
  void refresh(const Pattern& /*pattern*/) override { start_timeline(folder_); }
  void run() override { training_.run(); }

  std::string check(const Pattern& pattern) override {
    stop_timeline();
    const std::string path =
        folder_ + "/timeline-rank-" + std::to_string(training_.rank()) + ".json";
    std::ifstream file(path);
    int spans = 0;
    for (std::string line; std::getline(file, line);)
      spans += line.find("\"NEGOTIATE_ALLREDUCE\"") == std::string::npos ? 0 : 1;
    if (spans < training_.steps())
      return path + " has " + std::to_string(spans) + " spans of reductions";
    return training_.check(pattern);
  }

 private:
  KoloTraining& training_;  // outlives it
  std::string folder_;
};

// The same network and data, trained by a Trainer: a sample is an epoch.
class TrainerTraining final : public Contender {
 public:
  TrainerTraining(Ranks& ranks, const TrainingSize& size)
      : ranks_(ranks),
        training_(size.batch, ranks.rank()),
        samples_(Samples(training_.images(), training_.labels(),
                         static_cast<std::size_t>(size.batch * size.steps * ranks.size()))),
        trainer_(
            training_.net(),
            [](const at::Tensor& output, const at::Tensor& target) {
              return torch::nll_loss(output, target);
            },
            TrainerOptions()
                .epochs(std::numeric_limits<std::int64_t>::max())
                .batch_size(size.batch)
                .device("cpu")
                .verbose(false)) {
    trainer_.optimizer<optim::Adadelta>(optim::AdadeltaOptions(0.1),
                                        DistributedOptimizerOptions().name("bench.trainer"));
    trainer_.callback<EpochByEpoch>();
  }

  std::string name() const override { return "kolo-trainer"; }
  void refresh(const Pattern& /*pattern*/) override {}
  void run() override { trainer_.train(samples_); }

  std::string check(const Pattern& /*pattern*/) override {
    if (!std::isfinite(trainer_.state().loss)) return "the loss is not finite";
    const double mine = training_.fingerprint();
    double extremes[2] = {mine, -mine};
    ranks_.largest(extremes, 2);
    return extremes[0] == -extremes[1] ? "" : "the ranks' parameters differ";
  }

 private:
  // Reading costs nothing, as in the other contenders: every batch is the same one.
  class Samples : public torch::data::datasets::BatchDataset<Samples, data::Batch> {
   public:
    Samples(at::Tensor images, at::Tensor labels, std::size_t count)
        : batch_(std::move(images), std::move(labels)), count_(count) {}
    data::Batch get_batch(c10::ArrayRef<std::size_t> /*indices*/) override { return batch_; }
    std::optional<std::size_t> size() const override { return count_; }

   private:
    data::Batch batch_;
    std::size_t count_;
  };

  struct EpochByEpoch : Callback {
    void epoch_end(Trainer& trainer) override { trainer.stop("a sample is over"); }
  };

  Ranks& ranks_;  // outlives the benchmark's contenders
  Training training_;
  data::Dataset samples_;
  Trainer trainer_;
};

// As the plain processes, but in kolo's, with its arena, and once in a step each rank waits for the
// others: what any reduction in each step must take at least.
class BarrierTraining final : public Contender {
 public:
  BarrierTraining(const Ranks& ranks, const TrainingSize& size)
      : steps_(size.steps),
        training_(size.batch, ranks.rank()),
        optimizer_(training_.net()->parameters(), optim::AdadeltaOptions(0.1)) {}

  std::string name() const override { return "barrier"; }
  void refresh(const Pattern& /*pattern*/) override {}
  void run() override {
    for (int i = 0; i < steps_; ++i) {
      training_.train(optimizer_, 1);
      kolo::barrier("bench.train.barrier");
    }
  }
  std::string check(const Pattern& /*pattern*/) override {
    return std::isfinite(training_.loss()) ? "" : "the loss is not finite";
  }

 private:
  const int steps_;
  Training training_;
  optim::Adadelta optimizer_;
};

// What those that train alone must agree on: parameters after each sample, of one rank.
using Fingerprints = std::vector<double>;

class AloneTraining final : public Contender {
 public:
  AloneTraining(std::string name, const std::vector<std::string>& command, bool takes_part,
                std::shared_ptr<Fingerprints> seen)
      : name_(std::move(name)), seen_(std::move(seen)) {
    if (!takes_part) return;
    child_ = std::make_unique<Child>(name_, command, kDeadlineSeconds);
    child_->ask("start", "started");
  }

  std::string name() const override { return name_; }
  void refresh(const Pattern& /*pattern*/) override {}

  void run() override {
    if (child_ == nullptr) return;
    try {
      std::istringstream answer(child_->ask("train", "trained"));
      answer >> microseconds_ >> fingerprint_;
      if (!answer) throw ContenderFailed("'train' was answered without numbers");
    } catch (const ChildError& error) {
      throw ContenderFailed(error.what());
    }
  }

  std::optional<double> measured_microseconds() const override { return microseconds_; }

  std::string check(const Pattern& /*pattern*/) override {
    if (child_ == nullptr) return "";
    const std::size_t sample = samples_++;
    if (seen_->size() == sample) seen_->push_back(fingerprint_);
    return (*seen_)[sample] == fingerprint_ ? "" : "another process trained to other parameters";
  }

 private:
  const std::string name_;
  const std::shared_ptr<Fingerprints> seen_;
  std::unique_ptr<Child> child_;
  double microseconds_ = 0;
  double fingerprint_ = 0;
  std::size_t samples_ = 0;
};

}  // namespace

Contenders training_contenders(Group& group, const TrainingSize& size, const std::string& program) {
  const std::vector<std::string> alone = {program, kTrainAlone, std::to_string(size.batch),
                                          std::to_string(size.steps), std::to_string(group.rank())};
  std::vector<std::string> tuned = tuned_malloc();
  tuned.insert(tuned.begin(), "env");
  tuned.insert(tuned.end(), alone.begin(), alone.end());
  const auto seen = std::make_shared<Fingerprints>();
  Contenders contenders;
  auto with_kolo = std::make_unique<KoloTraining>(group, size);
  auto timeline = std::make_unique<TimelineTraining>(*with_kolo);
  contenders.push_back(std::move(with_kolo));
  contenders.push_back(std::move(timeline));
  contenders.push_back(std::make_unique<TrainerTraining>(group, size));
  contenders.push_back(std::make_unique<BarrierTraining>(group, size));
  std::string problem;
  try {
    contenders.push_back(std::make_unique<AloneTraining>("single", alone, group.rank() == 0, seen));
    contenders.push_back(std::make_unique<AloneTraining>("independent", alone, true, seen));
    contenders.push_back(
        std::make_unique<AloneTraining>("independent-tuned-malloc", tuned, true, seen));
  } catch (const ChildError& error) {
    problem = error.what();
  }
  agree(group, problem);
  return contenders;
}

int train_alone(const std::vector<std::string>& words) {
  if (words.size() != 3) return 2;
  const int steps = std::stoi(words[1]);
  Training training(std::stoi(words[0]), std::stoi(words[2]));
  optim::Adadelta optimizer(training.net()->parameters(), optim::AdadeltaOptions(0.1));
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "start") {
      std::cout << "started\n" << std::flush;
      continue;
    }
    const Clock::time_point begin = Clock::now();
    training.train(optimizer, steps);
    const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
    if (!std::isfinite(training.loss())) return 1;
    std::cout.precision(17);
    std::cout << "trained " << taken.count() << ' ' << training.fingerprint() << '\n' << std::flush;
  }
  return 0;
}

}  // namespace kolo::bench
