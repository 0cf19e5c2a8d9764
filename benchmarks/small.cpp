// kolo bench small: a training step of a small network, such as a simulation trains while it runs.
#include <kolo/optimizer.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/benchmarks.hpp"
#include "benchmarks/reducer.hpp"
#include "benchmarks/stock_allocator.hpp"

namespace kolo::bench {
namespace {

constexpr std::int64_t kBatch = 32;
constexpr double kRate = 0.05;

struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};

Batch batch_of(int rank) {
  torch::manual_seed(static_cast<std::uint64_t>(rank) + 2);
  const at::Tensor inputs = torch::randn({kBatch, 8});
  return {inputs, torch::randn({kBatch, 1})};
}

// The network and its initial values, the same on every rank.
class Surrogate {
 public:
  Surrogate() {
    torch::manual_seed(1);
    net_ = torch::nn::Sequential(torch::nn::Linear(8, 64), torch::nn::Tanh(),
                                 torch::nn::Linear(64, 64), torch::nn::Tanh(),
                                 torch::nn::Linear(64, 1));
    for (const at::Tensor& parameter : parameters()) initial_.push_back(parameter.detach().clone());
  }

  std::vector<at::Tensor> parameters() const { return net_->parameters(); }

  void start_over() {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> all = parameters();
    for (std::size_t i = 0; i < all.size(); ++i) all[i].copy_(initial_[i]);
    forget_gradients();
  }
  // As the optimizer's zero_grad(), which refuses gradients that are views of the reducer's
  // buckets.
  void forget_gradients() const {
    for (const at::Tensor& parameter : parameters()) parameter.mutable_grad() = at::Tensor();
  }

  // The sum of the ranks' losses is the mean over all samples of the job.
  at::Tensor loss(const Batch& batch, int ranks) {
    const at::Tensor error = net_->forward(batch.inputs) - batch.targets;
    return (error * error).sum() / static_cast<double>(kBatch * ranks);
  }

 private:
  torch::nn::Sequential net_;
  std::vector<at::Tensor> initial_;
};

// Trains in one process on all batches, and returns the parameters. Losses are scaled as in a job
// of `ranks` ranks.
std::vector<at::Tensor> train_alone(const std::vector<Batch>& batches, int ranks, int steps) {
  Surrogate surrogate;
  torch::optim::SGD optimizer(surrogate.parameters(), kRate);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    for (const Batch& batch : batches) surrogate.loss(batch, ranks).backward();
    optimizer.step();
  }
  return surrogate.parameters();
}

// A training step: zero_grad(), the forward pass, backward(), the reduction and step().
class SmallTraining : public Contender {
 public:
  SmallTraining(std::string name, const Ranks& ranks)
      : name_(std::move(name)),
        rank_(ranks.rank()),
        ranks_(ranks.size()),
        batch_(batch_of(ranks.rank())) {}

  std::string name() const override { return name_; }
  void refresh(const Pattern& /*pattern*/) override { surrogate_.start_over(); }

  std::string check(const Pattern& pattern) override {
    std::vector<at::Tensor>& wanted = wanted_[pattern.calls()];
    if (wanted.empty()) wanted = train_alone(batches_that_count(), ranks_, pattern.calls());
    const std::vector<at::Tensor> found = surrogate_.parameters();
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (at::allclose(found[i], wanted[i], 1e-4, 1e-5)) continue;
      return "parameter " + std::to_string(i) + " on rank " + std::to_string(rank_) +
             " is not what one process with all samples gets";
    }
    return "";
  }

 protected:
  // The batches that have an effect on this rank's parameters.
  virtual std::vector<Batch> batches_that_count() const {
    std::vector<Batch> all;
    all.reserve(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) all.push_back(batch_of(rank));
    return all;
  }

  Surrogate& surrogate() { return surrogate_; }
  const Batch& batch() const { return batch_; }
  at::Tensor loss() { return surrogate_.loss(batch_, ranks_); }

 private:
  const std::string name_;
  const int rank_;
  const int ranks_;
  const Batch batch_;
  Surrogate surrogate_;
  std::map<int, std::vector<at::Tensor>> wanted_;  // by number of steps
};

class KoloSmall final : public SmallTraining {
 public:
  explicit KoloSmall(const Ranks& ranks)
      : SmallTraining("kolo", ranks),
        optimizer_(surrogate().parameters(), torch::optim::SGDOptions(kRate),
                   DistributedOptimizerOptions().op(ReduceOp::Sum).name("bench.small")) {}

  void run() override {
    optimizer_.zero_grad();
    loss().backward();
    optimizer_.step();
  }

 private:
  DistributedOptimizer<torch::optim::SGD> optimizer_;
};

// As a program without kolo.
class PlainSmall : public SmallTraining {
 public:
  PlainSmall(std::string name, const Ranks& ranks)
      : SmallTraining(std::move(name), ranks), optimizer_(surrogate().parameters(), kRate) {}

  void run() override {
    const StockAllocator stock;
    surrogate().forget_gradients();
    before_forward();
    const at::Tensor mine = loss();
    before_backward();
    mine.backward();
    reduce();
    optimizer_.step();
  }

 protected:
  virtual void before_forward() {}
  virtual void before_backward() {}
  virtual void reduce() {}

 private:
  torch::optim::SGD optimizer_;
};

class SmallWithoutCommunication final : public PlainSmall {
 public:
  explicit SmallWithoutCommunication(const Ranks& ranks) : PlainSmall("no-communication", ranks) {}

 private:
  std::vector<Batch> batches_that_count() const override { return {batch()}; }
};

// All gradients in one buffer, after backward().
class MpiFusedSmall final : public PlainSmall {
 public:
  explicit MpiFusedSmall(Group& group)
      : PlainSmall("mpi-fused", group), group_(group), parameters_(surrogate().parameters()) {
    std::size_t elements = 0;
    for (const at::Tensor& parameter : parameters_)
      elements += static_cast<std::size_t>(parameter.numel());
    buffer_.resize(elements);
  }

 private:
  void reduce() override {
    float* at = buffer_.data();
    for (const at::Tensor& parameter : parameters_)
      at = std::copy_n(parameter.grad().const_data_ptr<float>(), parameter.numel(), at);
    group_.allreduce_sum(buffer_.data(), buffer_.size());
    const float* from = buffer_.data();
    for (const at::Tensor& parameter : parameters_) {
      std::copy_n(from, parameter.numel(), parameter.grad().data_ptr<float>());
      from += parameter.numel();
    }
  }

  Group& group_;  // outlives the benchmark's contenders
  const std::vector<at::Tensor> parameters_;
  std::vector<float> buffer_;
};

class ReducerSmall final : public PlainSmall {
 public:
  explicit ReducerSmall(const Ranks& ranks) : PlainSmall("reducer", ranks) {
    const StockAllocator stock;
    reducer_ = make_reducer(surrogate().parameters());
  }

  bool is_there() const { return reducer_ != nullptr; }

 private:
  void before_forward() override { reducer_->before_forward(); }
  void before_backward() override { reducer_->before_backward(); }

  std::unique_ptr<OverlappingReducer> reducer_;
};

}  // namespace

void bench_small(Group& group, const Options& options, const Publish& publish) {
  Contenders contenders;
  contenders.push_back(std::make_unique<KoloSmall>(group));
  contenders.push_back(std::make_unique<SmallWithoutCommunication>(group));
  contenders.push_back(std::make_unique<MpiFusedSmall>(group));
  if (auto reducer = std::make_unique<ReducerSmall>(group); reducer->is_there()) {
    contenders.push_back(std::move(reducer));
  } else {
    publish.note("this LibTorch has no reducer that kolo knows; contender reducer is left out");
  }
  std::int64_t bytes = 0;
  for (const at::Tensor& parameter : Surrogate().parameters())
    bytes += static_cast<std::int64_t>(parameter.nbytes());
  publish.rows(measure_rows(group, contenders, schedule_of(options, bytes, group.size()),
                            "small/mlp/" + std::to_string(group.size()), bytes));
}

}  // namespace kolo::bench
