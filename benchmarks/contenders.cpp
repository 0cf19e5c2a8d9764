#include "benchmarks/contenders.hpp"

#include <kolo/operations.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace kolo::bench {
namespace {

// What all have: tensors that are filled and checked.
class OnTensors : public Contender {
 public:
  OnTensors(std::string name, int rank, const std::vector<Parameter>& parameters, Memory memory)
      : name_(std::move(name)), rank_(rank), tensors_(parameters, memory) {}

  std::string name() const override { return name_; }
  void refresh(const Pattern& pattern) override { tensors_.fill(pattern); }
  std::string check(const Pattern& pattern) override { return tensors_.check(pattern, rank_); }

 protected:
  const Tensors& tensors() const { return tensors_; }

 private:
  const std::string name_;
  const int rank_;
  const Tensors tensors_;
};

std::vector<AllreduceOptions> sums_named(const std::string& prefix, const Tensors& tensors) {
  std::vector<AllreduceOptions> options;
  for (const Tensors::Item& item : tensors.items()) {
    options.push_back(AllreduceOptions(ReduceOp::Sum).name(prefix + item.name));
  }
  return options;
}

class KoloSynchronous final : public OnTensors {
 public:
  KoloSynchronous(const Group& group, const Parameter& parameter, const std::string& prefix,
                  Memory memory)
      : OnTensors("kolo", group.rank(), {parameter}, memory),
        options_(sums_named(prefix, tensors())) {}

  void run() override { allreduce_(tensors().items().front().tensor, options_.front()); }

 private:
  const std::vector<AllreduceOptions> options_;
};

// The pattern's sums need not be bfloat16, but are rounded once.
class KoloBfloat16 final : public Contender {
 public:
  KoloBfloat16(int rank, const Parameter& parameter, const std::string& prefix)
      : rank_(rank),
        options_(AllreduceOptions(ReduceOp::Sum).name(prefix + parameter.name)),
        floats_(torch::empty(parameter.shape)),
        tensor_(floats_.to(torch::kBFloat16)) {}

  std::string name() const override { return "kolo-bfloat16"; }
  void refresh(const Pattern& pattern) override {
    pattern.fill(floats_.data_ptr<float>(), static_cast<std::size_t>(floats_.numel()));
    tensor_.copy_(floats_);
  }
  void run() override { allreduce_(tensor_, options_); }
  std::string check(const Pattern& pattern) override {
    pattern.fill_sum(floats_.data_ptr<float>(), static_cast<std::size_t>(floats_.numel()));
    if (tensor_.equal(floats_.to(torch::kBFloat16))) return "";
    return "a bfloat16 sum on rank " + std::to_string(rank_);
  }

 private:
  const int rank_;
  const AllreduceOptions options_;
  const at::Tensor floats_;
  const at::Tensor tensor_;
};

class KoloGradients final : public OnTensors {
 public:
  KoloGradients(const Group& group, const std::vector<Parameter>& parameters,
                const std::string& prefix, Order order, Names names)
      : OnTensors("kolo", group.rank(), parameters, Memory::kArena),
        prefix_(prefix),
        names_(names),
        options_(sums_named(prefix, tensors())),
        shuffled_(order == Order::kShuffled),
        random_(static_cast<unsigned>(group.rank())),
        order_(options_.size()) {
    std::iota(order_.rbegin(), order_.rend(), std::size_t{0});
    handles_.reserve(options_.size());
  }

  void refresh(const Pattern& pattern) override {
    OnTensors::refresh(pattern);
    if (shuffled_) std::shuffle(order_.begin(), order_.end(), random_);
    if (names_ == Names::kNew)
      options_ = sums_named(prefix_ + std::to_string(++steps_) + ".", tensors());
  }

  void run() override {
    for (const std::size_t i : order_)
      handles_.push_back(allreduce_async_(tensors().items()[i].tensor, options_[i]));
    for (Handle& handle : handles_) handle.wait();
    handles_.clear();
  }

 private:
  const std::string prefix_;
  const Names names_;
  std::vector<AllreduceOptions> options_;
  std::size_t steps_ = 0;
  const bool shuffled_;
  std::mt19937 random_;
  std::vector<std::size_t> order_;
  std::vector<Handle> handles_;  // of a run that goes on
};

class MpiOneByOne final : public OnTensors {
 public:
  MpiOneByOne(Group& group, const std::vector<Parameter>& parameters)
      : OnTensors("mpi", group.rank(), parameters, Memory::kPrivate), group_(group) {}

  void run() override {
    const auto& items = tensors().items();
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
      group_.allreduce_sum(item->data(), item->elements);
    }
  }

 private:
  Group& group_;  // outlives the benchmark's contenders
};

class MpiFused final : public OnTensors {
 public:
  MpiFused(Group& group, const std::vector<Parameter>& parameters, std::size_t piece_bytes)
      : OnTensors("mpi-fused", group.rank(), parameters, Memory::kPrivate),
        group_(group),
        piece_(std::max<std::size_t>(1, piece_bytes / sizeof(float))),
        buffer_(tensors().elements()) {}

  void run() override {
    for (const auto& item : tensors().items())
      std::copy_n(item.data(), item.elements, buffer_.data() + item.offset);
    for (std::size_t at = 0; at < buffer_.size(); at += piece_) {
      group_.allreduce_sum(buffer_.data() + at, std::min(piece_, buffer_.size() - at));
    }
    for (const auto& item : tensors().items())
      std::copy_n(buffer_.data() + item.offset, item.elements, item.data());
  }

 private:
  Group& group_;  // outlives the benchmark's contenders
  const std::size_t piece_;
  std::vector<float> buffer_;
};

}  // namespace

std::unique_ptr<Contender> kolo_synchronous(const Group& group, const Parameter& parameter,
                                            const std::string& prefix, Memory memory) {
  return std::make_unique<KoloSynchronous>(group, parameter, prefix, memory);
}

std::unique_ptr<Contender> kolo_bfloat16(const Group& group, const Parameter& parameter,
                                         const std::string& prefix) {
  return std::make_unique<KoloBfloat16>(group.rank(), parameter, prefix);
}

std::unique_ptr<Contender> kolo_gradients(const Group& group,
                                          const std::vector<Parameter>& parameters,
                                          const std::string& prefix, Order order, Names names) {
  return std::make_unique<KoloGradients>(group, parameters, prefix, order, names);
}

std::unique_ptr<Contender> mpi_one_by_one(Group& group, const std::vector<Parameter>& parameters) {
  return std::make_unique<MpiOneByOne>(group, parameters);
}

std::unique_ptr<Contender> mpi_fused(Group& group, const std::vector<Parameter>& parameters,
                                     std::size_t piece_bytes) {
  return std::make_unique<MpiFused>(group, parameters, piece_bytes);
}

}  // namespace kolo::bench
