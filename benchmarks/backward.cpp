#include "benchmarks/backward.hpp"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <kolo/optimizer.h>
#include <torch/torch.h>

#include <type_traits>
#include <utility>

#include "benchmarks/reducer.hpp"
#include "benchmarks/stay.hpp"
#include "benchmarks/stock_allocator.hpp"

namespace kolo::bench {

class BackwardModel {
 public:
  BackwardModel(const std::vector<Parameter>& parameters, at::Device on) : device(on) {
    for (const Parameter& parameter : parameters) {
      names.push_back(parameter.name);
      values.push_back(torch::zeros(parameter.shape, device));
      inputs.push_back(torch::empty(parameter.shape));
    }
  }

  const at::Device device;
  std::vector<std::string> names;
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> inputs;  // on the host
};

namespace {

// What all have: leaves of their own, over the model's values.
class OnModel : public Contender {
 public:
  OnModel(std::string name, int rank, std::shared_ptr<BackwardModel> model)
      : name_(std::move(name)), rank_(rank), model_(std::move(model)) {
    for (const at::Tensor& value : model_->values)
      leaves_.push_back(value.detach().requires_grad_());
  }

  std::string name() const override { return name_; }

  // The forward pass.
  void refresh(const Pattern& pattern) override {
    std::size_t offset = 0;
    std::vector<at::Tensor> losses;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      leaves_[i].mutable_grad() = at::Tensor();
      const at::Tensor& input = model_->inputs[i];
      const auto count = static_cast<std::size_t>(input.numel());
      pattern.fill(input.data_ptr<float>(), count, offset);
      offset += count;
      const at::Tensor sum = leaves_[i] + input.to(model_->device);
      losses.push_back((sum * sum).sum());
    }
    loss_ = torch::stack(losses).sum() / 2;
  }

 protected:
  const std::vector<at::Tensor>& leaves() const { return leaves_; }
  void backward() { std::exchange(loss_, at::Tensor()).backward(); }

  // The gradient whose element is not what is expected; `of_all`: summed over the ranks.
  std::string check_gradients(const Pattern& pattern, bool of_all) const {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!leaves_[i].grad().defined()) return model_->names[i] + " has no gradient";
      const at::Tensor gradient = leaves_[i].grad().cpu();
      const auto count = static_cast<std::size_t>(gradient.numel());
      const auto* const data = gradient.const_data_ptr<float>();
      const auto difference = of_all ? pattern.first_difference(data, count, offset)
                                     : pattern.first_difference_from(rank_, data, count, offset);
      if (difference)
        return describe(*difference, "the gradient of '" + model_->names[i] + "'", rank_);
      offset += count;
    }
    return "";
  }

 private:
  const std::string name_;
  const int rank_;
  const std::shared_ptr<BackwardModel> model_;
  std::vector<at::Tensor> leaves_;
  at::Tensor loss_;
};

class KoloBackward final : public OnModel {
 public:
  KoloBackward(const std::string& name, const Group& group,
               const std::shared_ptr<BackwardModel>& model, const Compression& compression)
      : OnModel(name, group.rank(), model),
        optimizer_(leaves(), torch::optim::SGDOptions(0.1),
                   DistributedOptimizerOptions()
                       .op(ReduceOp::Sum)
                       .name("bench.backward." + name)
                       .compression(compression)) {}

  void run() override {
    backward();
    optimizer_.synchronize();
  }
  std::string check(const Pattern& pattern) override { return check_gradients(pattern, true); }

 private:
  DistributedOptimizer<torch::optim::SGD> optimizer_;
};

// Compression::Fp16, as a program would write it.
class Float16Compressor final : public GradientCompressor {
 public:
  explicit Float16Compressor(at::Tensor parameter) : parameter_(std::move(parameter)) {}
  std::vector<at::Tensor> compress(const at::Tensor& gradient) override {
    const at::Tensor values = gradient.defined() ? gradient : at::zeros_like(parameter_);
    return {values.to(at::kHalf)};
  }
  at::Tensor decompress(const std::vector<at::Tensor>& reduced) override {
    return reduced[0].to(parameter_.scalar_type());
  }

 private:
  const at::Tensor parameter_;
};

// As a program without kolo.
class OnStockAllocator : public OnModel {
 public:
  using OnModel::OnModel;

  void refresh(const Pattern& pattern) override {
    const StockAllocator stock;
    OnModel::refresh(pattern);
  }
  void run() override {
    const StockAllocator stock;
    backward();
    reduce();
  }

 protected:
  virtual void reduce() = 0;
};

class NoCommunication final : public OnStockAllocator {
 public:
  NoCommunication(const Group& group, const std::shared_ptr<BackwardModel>& model)
      : OnStockAllocator("no-communication", group.rank(), model) {}

  std::string check(const Pattern& pattern) override { return check_gradients(pattern, false); }

 private:
  void reduce() override {}
};

class MpiAfterBackward final : public OnStockAllocator {
 public:
  MpiAfterBackward(Group& group, const std::shared_ptr<BackwardModel>& model)
      : OnStockAllocator("mpi", group.rank(), model), group_(group) {}

  std::string check(const Pattern& pattern) override { return check_gradients(pattern, true); }

 private:
  void reduce() override {
    for (auto leaf = leaves().rbegin(); leaf != leaves().rend(); ++leaf) {
      const at::Tensor gradient = leaf->grad();
      group_.allreduce_sum(gradient.data_ptr<float>(), static_cast<std::size_t>(gradient.numel()));
    }
  }

  Group& group_;  // outlives the benchmark's contenders
};

// Reduces during backward().
class ReducerBackward final : public OnStockAllocator {
 public:
  ReducerBackward(const Group& group, const std::shared_ptr<BackwardModel>& model)
      : OnStockAllocator("reducer", group.rank(), model) {
    const StockAllocator stock;
    reducer_ = make_reducer(leaves());
  }

  bool is_there() const { return reducer_ != nullptr; }

  void refresh(const Pattern& pattern) override {
    const StockAllocator stock;
    reducer_->before_forward();
    OnStockAllocator::refresh(pattern);
    reducer_->before_backward();
  }
  std::string check(const Pattern& pattern) override { return check_gradients(pattern, true); }

 private:
  void reduce() override {}

  std::unique_ptr<OverlappingReducer> reducer_;
};

// Its learning rate is 0: the parameters stay as they are.
template <typename Optimizer>
class StepOnDevice final : public OnModel {
 public:
  template <typename... Arguments>
  StepOnDevice(const Group& group, const std::string& name,
               const std::shared_ptr<BackwardModel>& model, Until until,
               const Arguments&... arguments)
      : OnModel(name, group.rank(), model),
        device_(model->device),
        until_(until),
        optimizer_(leaves(), torch::optim::SGDOptions(0.0), arguments...) {}

  void refresh(const Pattern& pattern) override {
    OnModel::refresh(pattern);
    wait_for_device();
  }
  void run() override {
    const double begin = monotonic_microseconds();
    backward();
    optimizer_.step();
    on_host_ = monotonic_microseconds() - begin;
    wait_for_device();
  }
  std::optional<double> measured_microseconds() const override {
    return until_ == Until::kHostIsFree ? std::optional(on_host_) : std::nullopt;
  }
  std::string check(const Pattern& pattern) override {
    return check_gradients(pattern, !std::is_same_v<Optimizer, torch::optim::SGD>);
  }

 private:
  void wait_for_device() const {
    const auto& guard = *c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
    guard.synchronizeStream(guard.getStream(device_));
  }

  const at::Device device_;
  const Until until_;
  Optimizer optimizer_;
  double on_host_ = 0;
};

}  // namespace

std::shared_ptr<BackwardModel> make_backward_model(const std::vector<Parameter>& parameters,
                                                   at::Device device) {
  return std::make_shared<BackwardModel>(parameters, device);
}

std::unique_ptr<Contender> kolo_step(const Group& group,
                                     const std::shared_ptr<BackwardModel>& model, Until until) {
  const char* const name = until == Until::kHostIsFree ? "bench.step-host" : "bench.step";
  return std::make_unique<StepOnDevice<DistributedOptimizer<torch::optim::SGD>>>(
      group, "kolo", model, until, DistributedOptimizerOptions().op(ReduceOp::Sum).name(name));
}

std::unique_ptr<Contender> plain_step(const Group& group,
                                      const std::shared_ptr<BackwardModel>& model, Until until) {
  return std::make_unique<StepOnDevice<torch::optim::SGD>>(group, "plain", model, until);
}

std::unique_ptr<Contender> kolo_backward(const Group& group,
                                         const std::shared_ptr<BackwardModel>& model) {
  return std::make_unique<KoloBackward>("kolo", group, model, Compression::None);
}

std::pair<std::unique_ptr<Contender>, std::unique_ptr<Contender>> float16_backward(
    const Group& group, const std::shared_ptr<BackwardModel>& model) {
  const auto make = [](const at::Tensor& parameter) {
    return std::make_unique<Float16Compressor>(parameter.detach());
  };
  return {std::make_unique<KoloBackward>("kolo-float16", group, model, Compression::Fp16),
          std::make_unique<KoloBackward>("kolo-compressor", group, model, make)};
}

std::unique_ptr<Contender> no_communication(const Group& group,
                                            const std::shared_ptr<BackwardModel>& model) {
  return std::make_unique<NoCommunication>(group, model);
}

std::unique_ptr<Contender> mpi_after_backward(Group& group,
                                              const std::shared_ptr<BackwardModel>& model) {
  return std::make_unique<MpiAfterBackward>(group, model);
}

std::unique_ptr<Contender> reducer_during_backward(const Group& group,
                                                   const std::shared_ptr<BackwardModel>& model) {
  auto contender = std::make_unique<ReducerBackward>(group, model);
  return contender->is_there() ? std::move(contender) : nullptr;
}

}  // namespace kolo::bench
