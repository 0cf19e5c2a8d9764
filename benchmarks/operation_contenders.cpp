#include "benchmarks/operation_contenders.hpp"

#include <kolo/operations.h>
#include <torch/torch.h>

#include <limits>
#include <utility>
#include <vector>

#include "benchmarks/stay.hpp"
#include "benchmarks/tensors.hpp"

namespace kolo::bench {
namespace {

// What both have: the input, and the check of the result.
class OnExchange : public Contender {
 public:
  OnExchange(std::string name, Group& group, Exchange exchange, Memory memory)
      : name_(std::move(name)),
        group_(group),
        exchange_(std::move(exchange)),
        input_(floats({static_cast<std::int64_t>(exchange_.elements)}, memory)) {}

  std::string name() const override { return name_; }

  std::string check(const Pattern& pattern) override {
    if (exchange_.operation == Operation::kBarrier) return left_too_early(group_, stay_);
    if (exchange_.result.empty()) return "";  // another rank gets it
    const at::Tensor& values = exchange_.in_place() ? input_ : result();
    if (values.numel() != static_cast<std::int64_t>(exchange_.result_elements())) {
      return "the result has " + std::to_string(values.numel()) + " elements instead of " +
             std::to_string(exchange_.result_elements());
    }
    return exchange_.check(pattern, values.data_ptr<float>());
  }

 protected:
  virtual const at::Tensor& result() const = 0;

  template <typename Barrier>
  void stay_in(Barrier&& barrier) {
    stay_.entered = monotonic_microseconds();
    barrier();
    stay_.left = monotonic_microseconds();
  }

  Group& group() const { return group_; }
  const Exchange& exchange() const { return exchange_; }
  const at::Tensor& input() const { return input_; }
  float* in() const { return input_.data_ptr<float>(); }

 private:
  const std::string name_;
  Group& group_;  // outlives the benchmark's contenders
  const Exchange exchange_;
  const at::Tensor input_;
  Stay stay_;  // in the last barrier
};

class KoloOperation final : public OnExchange {
 public:
  KoloOperation(Group& group, const Exchange& exchange)
      : OnExchange("kolo", group, exchange, Memory::kArena),
        options_("bench." + name_of(exchange.operation) + "." + std::to_string(exchange.elements)),
        sum_(AllreduceOptions(ReduceOp::Sum).name(options_.name())),
        splits_(exchange.give.begin(), exchange.give.end()) {
    if (exchange.operation == Operation::kGroupedAllreduce) {
      tensors_ = input().split_with_sizes(splits_);
    }
  }

  void refresh(const Pattern& pattern) override {
    // Else a next result might lie in the memory of this one, and be right without being written.
    if (result_.defined()) result_.fill_(std::numeric_limits<float>::quiet_NaN());
    result_ = at::Tensor();
    pattern.fill(in(), exchange().elements);
  }

  void run() override {
    switch (exchange().operation) {
      case Operation::kAllreduce:
        allreduce_(input(), sum_);
        break;
      case Operation::kGroupedAllreduce:
        grouped_allreduce_(tensors_, sum_);
        break;
      case Operation::kReduce:
        result_ = reduce(input(), 0, sum_);
        break;
      case Operation::kBroadcast:
        broadcast_(input(), 0, options_);
        break;
      case Operation::kAllgather:
        result_ = allgather(input(), options_);
        break;
      case Operation::kAlltoall:
        result_ = alltoall(input(), splits_, options_).output;
        break;
      case Operation::kReducescatter:
        result_ = reducescatter(input(), sum_);
        break;
      case Operation::kSendrecv:
        result_ = sendrecv(input(), exchange().next(), input(), exchange().previous(), options_);
        break;
      case Operation::kBarrier:
        stay_in([&] { barrier(options_); });
        break;
    }
  }

 protected:
  const at::Tensor& result() const override { return result_; }

 private:
  const OperationOptions options_;
  const AllreduceOptions sum_;
  const std::vector<std::int64_t> splits_;
  std::vector<at::Tensor> tensors_;  // of a group: parts of the input
  at::Tensor result_;
};

// The operations with an _into form.
class KoloInto final : public OnExchange {
 public:
  KoloInto(Group& group, const Exchange& exchange)
      : OnExchange("kolo-into", group, exchange, Memory::kArena),
        options_("bench.into." + name_of(exchange.operation) + "." +
                 std::to_string(exchange.elements)),
        sum_(AllreduceOptions(ReduceOp::Sum).name(options_.name())),
        splits_(exchange.give.begin(), exchange.give.end()),
        output_(floats({static_cast<std::int64_t>(exchange.output_elements())}, Memory::kArena)) {}

  static bool has(Operation operation) {
    return operation == Operation::kAllgather || operation == Operation::kAlltoall ||
           operation == Operation::kReducescatter;
  }

  void refresh(const Pattern& pattern) override {
    exchange().refresh(pattern, in(), output_.data_ptr<float>());
  }

  void run() override {
    switch (exchange().operation) {
      case Operation::kAllgather:
        allgather_into(output_, input(), options_);
        break;
      case Operation::kAlltoall:
        alltoall_into(output_, input(), splits_, options_);
        break;
      case Operation::kReducescatter:
        reducescatter_into(output_, input(), sum_);
        break;
      default:
        break;
    }
  }

 protected:
  const at::Tensor& result() const override { return output_; }

 private:
  const OperationOptions options_;
  const AllreduceOptions sum_;
  const std::vector<std::int64_t> splits_;
  const at::Tensor output_;
};

class MpiOperation final : public OnExchange {
 public:
  MpiOperation(Group& group, const Exchange& exchange)
      : OnExchange("mpi", group, exchange, Memory::kPrivate),
        output_(floats({static_cast<std::int64_t>(exchange.output_elements())}, Memory::kPrivate)),
        give_(exchange.give),
        take_(exchange.take) {}

  void refresh(const Pattern& pattern) override { exchange().refresh(pattern, in(), out()); }

  void run() override {
    const std::size_t count = exchange().elements;
    switch (exchange().operation) {
      case Operation::kAllreduce:
        group().allreduce_sum(in(), count);
        break;
      case Operation::kGroupedAllreduce:
        one_after_the_other();
        break;
      case Operation::kReduce:
        group().reduce_sum(in(), count, out());
        break;
      case Operation::kBroadcast:
        group().broadcast(in(), count);
        break;
      case Operation::kAllgather:
        group().allgather(in(), count, out());
        break;
      case Operation::kAlltoall:
        group().alltoall(in(), give_, out(), take_);
        break;
      case Operation::kReducescatter:
        group().reducescatter_sum(in(), give_, out());
        break;
      case Operation::kSendrecv:
        group().sendrecv(in(), count, exchange().next(), out(), exchange().previous());
        break;
      case Operation::kBarrier:
        stay_in([&] { group().barrier(); });
        break;
    }
  }

 protected:
  const at::Tensor& result() const override { return output_; }

 private:
  float* out() const { return output_.data_ptr<float>(); }

  void one_after_the_other() {
    for (std::size_t i = 0; i < give_.counts.size(); ++i) {
      group().allreduce_sum(in() + give_.displacements[i],
                            static_cast<std::size_t>(give_.counts[i]));
    }
  }

  const at::Tensor output_;
  const Cut give_;
  const Cut take_;
};

}  // namespace

std::unique_ptr<Contender> kolo_operation(Group& group, const Exchange& exchange) {
  return std::make_unique<KoloOperation>(group, exchange);
}

std::unique_ptr<Contender> kolo_into(Group& group, const Exchange& exchange) {
  return KoloInto::has(exchange.operation) ? std::make_unique<KoloInto>(group, exchange) : nullptr;
}

std::unique_ptr<Contender> mpi_operation(Group& group, const Exchange& exchange) {
  return std::make_unique<MpiOperation>(group, exchange);
}

}  // namespace kolo::bench
