#include "kolo/sync_batchnorm.h"

#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/nn/modules/batchnorm.h>

#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/operations.h"

namespace kolo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A converted module.
struct Layer {
  std::string name;  // of its operations
  ProcessSet process_set;
  std::weak_ptr<torch::nn::Module> module;
};

// Finds the layer that a tensor of a converted module belongs to. Any thread may call.
class Layers {
 public:
  void add(const at::Tensor& tensor, const Layer& layer) {
    const std::lock_guard lock(mutex_);
    for (auto entry = layers_.begin(); entry != layers_.end();)
      entry = entry->second.tensor.expired() ? layers_.erase(entry) : std::next(entry);
    layers_.insert_or_assign(
        tensor.unsafeGetTensorImpl(),
        Entry{c10::weak_intrusive_ptr<at::TensorImpl>(tensor.getIntrusivePtr()), layer});
  }
  std::optional<Layer> find(const std::optional<at::Tensor>& tensor) const {
    if (!tensor || !tensor->defined()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto found = layers_.find(tensor->unsafeGetTensorImpl());
    if (found == layers_.end()) return std::nullopt;
    return found->second.layer;
  }
  // Counts per process set: all ranks of a set convert the same modules for it, even if some are
  // also in other sets.
  std::string next_name(const ProcessSet& process_set, const std::string& module) {
    const std::lock_guard lock(mutex_);
    const std::string number = std::to_string(counts_[process_set.id()]++);
    return "sync_batchnorm." + number + (module.empty() ? "" : "." + module);
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<at::TensorImpl> tensor;  // prevents reuse of its address
    Layer layer;
  };
  mutable std::mutex mutex_;
  std::unordered_map<const at::TensorImpl*, Entry> layers_;
  std::map<int, std::size_t> counts_;  // by process set
};

Layers& layers() {
  static auto* const all = new Layers;  // threads may still train at process exit
  return *all;
}

// Returns all dimensions except that of the channels.
std::vector<std::int64_t> reduced_dimensions(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

// Reshapes one number per channel, so that it is broadcast over the other dimensions.
at::Tensor by_channel(const at::Tensor& numbers, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return numbers.view(shape);
}

// Converts to the dtype for computing. Half types are too narrow for sums.
at::Tensor wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

struct Statistics {
  at::Tensor mean;      // per channel, over all ranks
  at::Tensor variance;  // biased
  at::Tensor count;     // samples per channel, over all ranks
};

// Gathers each rank's mean, variance and count, and combines them as Chan, Golub and LeVeque do
// (Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979), which loses no
// digits if the mean is large.
Statistics statistics_of(const at::Tensor& input, const Layer& layer) {
  const at::Tensor values = wide(input);
  const std::int64_t channels = input.size(1);
  const std::int64_t samples = channels == 0 ? 0 : input.numel() / channels;
  at::Tensor mine = at::zeros({1, 2 * channels + 1}, values.options());
  if (samples > 0) {
    const auto [variance, mean] =
        at::var_mean(values, reduced_dimensions(input), std::optional<at::Scalar>(0));
    const at::Tensor count = at::full({1}, static_cast<double>(samples), values.options());
    mine = at::cat({mean, variance, count}).unsqueeze(0);
  }
  const at::Tensor all =
      allgather(mine, OperationOptions(layer.name + ".forward").process_set(layer.process_set));
  const at::Tensor counts = all.narrow(1, 2 * channels, 1);
  const at::Tensor means = all.narrow(1, 0, channels);
  const at::Tensor variances = all.narrow(1, channels, channels);
  Statistics statistics;
  statistics.count = counts.sum();
  const at::Tensor divisor = statistics.count.clamp_min(1);  // all ranks' batches may be empty
  statistics.mean = (counts * means).sum(0) / divisor;
  const at::Tensor apart = means - statistics.mean;
  statistics.variance = (counts * (variances + apart * apart)).sum(0) / divisor;
  return statistics;
}

// `momentum`: a tensor with one element.
void update(const at::Tensor& running, const at::Tensor& now, const at::Tensor& momentum) {
  if (running.defined()) running.add_(((now - running) * momentum).to(running.scalar_type()));
}

struct Arguments {
  at::Tensor running_mean;
  at::Tensor running_var;
  double momentum = 0.1;
  double eps = 1e-5;
  Layer layer;
};

// What backward() must know about the layer.
struct Saved final : torch::CustomClassHolder {
  explicit Saved(Layer of) : layer(std::move(of)) {}
  const Layer layer;
};

// With x' = (x - mean) / deviation, the gradient of x is
// weight / deviation * (dy - sum(dy) / count - x' * sum(dy * x') / count),
// with sums over all ranks. The gradients of weight and bias are this rank's share, as for every
// other parameter.
struct BatchNorm : torch::autograd::Function<BatchNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input,
                            const std::optional<at::Tensor>& given_weight,
                            const std::optional<at::Tensor>& given_bias,
                            const Arguments& arguments) {
    const at::Tensor weight = given_weight.value_or(at::Tensor());
    const at::Tensor bias = given_bias.value_or(at::Tensor());
    const Statistics statistics = statistics_of(input, arguments.layer);
    const at::Tensor unbiased =
        statistics.variance * statistics.count / (statistics.count - 1).clamp_min(1);
    const at::Tensor momentum = statistics.count.sign() * arguments.momentum;  // 0 without samples
    update(arguments.running_mean, statistics.mean, momentum);
    update(arguments.running_var, unbiased, momentum);
    const at::Tensor inverse = (statistics.variance + arguments.eps).rsqrt();
    at::Tensor output =
        (wide(input) - by_channel(statistics.mean, input)) * by_channel(inverse, input);
    if (weight.defined()) output.mul_(by_channel(wide(weight), input));
    if (bias.defined()) output.add_(by_channel(wide(bias), input));
    ctx->save_for_backward({input, weight, statistics.mean, inverse, statistics.count});
    if (bias.defined()) ctx->saved_data["bias"] = bias.scalar_type();
    ctx->saved_data["layer"] =
        c10::IValue::make_capsule(c10::make_intrusive<Saved>(arguments.layer));
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      throw InvalidArgumentError(
          "convert_sync_batchnorm: there are no derivatives of the gradients (create_graph) of "
          "BatchNorm over all ranks");
    }
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& inverse = saved[3];
    const auto& layer = static_cast<const Saved&>(*ctx->saved_data["layer"].toCapsule()).layer;
    const auto dimensions = reduced_dimensions(input);
    const at::Tensor dy = wide(gradients[0]);
    const at::Tensor normal =
        (wide(input) - by_channel(saved[2], input)) * by_channel(inverse, input);
    const at::Tensor mine = at::stack({dy.sum(dimensions), (dy * normal).sum(dimensions)});
    const at::Tensor means = allreduce(mine, AllreduceOptions(layer.name + ".backward")
                                                 .op(ReduceOp::Sum)
                                                 .process_set(layer.process_set)) /
                             saved[4].clamp_min(1);
    at::Tensor of_input =
        (dy - by_channel(means[0], input) - normal * by_channel(means[1], input)) *
        by_channel(inverse, input);
    if (weight.defined()) of_input.mul_(by_channel(wide(weight), input));
    at::Tensor of_weight;
    at::Tensor of_bias;
    if (weight.defined()) of_weight = mine[1].to(weight.scalar_type());
    const auto bias = ctx->saved_data.find("bias");
    if (bias != ctx->saved_data.end()) of_bias = mine[0].to(bias->second.toScalarType());
    return {of_input.to(input.scalar_type()), of_weight, of_bias, at::Tensor()};
  }
};

std::optional<at::Tensor> if_defined(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? tensor : std::nullopt;
}

at::Tensor or_undefined(const std::optional<at::Tensor>& tensor) {
  return tensor.value_or(at::Tensor());
}

// Replaces aten::batch_norm.
at::Tensor batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias,
                      const std::optional<at::Tensor>& running_mean,
                      const std::optional<at::Tensor>& running_var, bool training, double momentum,
                      double eps, bool cudnn_enabled) {
  std::optional<Layer> layer;
  if (training) layer = layers().find(running_mean);
  if (training && !layer) layer = layers().find(weight);
  // A module without running statistics uses the batch in evaluation, too; each rank alone.
  const std::shared_ptr<torch::nn::Module> module = layer ? layer->module.lock() : nullptr;
  if (module == nullptr || !module->is_training() || !is_initialized() ||
      layer->process_set.size() == 1) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training,
                                  momentum, eps, cudnn_enabled);
  }
  return BatchNorm::apply(input, if_defined(weight), if_defined(bias),
                          Arguments{or_undefined(running_mean), or_undefined(running_var), momentum,
                                    eps, *std::move(layer)});
}

// LibTorch's function stays registered for the composite key; these two keys take precedence.
void intercept_batch_norm() {
  static const auto* const libraries = [] {
    auto* const made = new std::vector<torch::Library>;
    for (const c10::DispatchKey key :
         {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
      made->emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      made->back().impl("batch_norm", TORCH_FN(batch_norm));
    }
    return made;
  }();
  static_cast<void>(libraries);
}

// Returns false for a module of another kind.
template <std::size_t D, class Impl>
bool convert(const std::shared_ptr<torch::nn::Module>& module, const std::string& name,
             const ProcessSet& process_set) {
  auto* const norm = dynamic_cast<torch::nn::BatchNormImplBase<D, Impl>*>(module.get());
  if (norm == nullptr) return false;
  if (!norm->weight.defined() && !norm->running_mean.defined()) {
    throw InvalidArgumentError("convert_sync_batchnorm: '" + name +
                               "' has neither parameters nor running statistics; give it one of "
                               "them (affine, track_running_stats)");
  }
  const Layer layer{layers().next_name(process_set, name), process_set, module};
  for (const at::Tensor& tensor : {norm->weight, norm->running_mean})
    if (tensor.defined()) layers().add(tensor, layer);
  return true;
}

}  // namespace

std::size_t detail::convert_sync_batchnorm(torch::nn::Module& module,
                                           const ProcessSet& process_set) {
  intercept_batch_norm();
  std::size_t count = 0;
  for (const auto& named : module.named_modules()) {
    const std::shared_ptr<torch::nn::Module>& one = named.value();
    const std::string& name = named.key();
    if (convert<1, torch::nn::BatchNorm1dImpl>(one, name, process_set) ||
        convert<2, torch::nn::BatchNorm2dImpl>(one, name, process_set) ||
        convert<3, torch::nn::BatchNorm3dImpl>(one, name, process_set)) {
      ++count;
    }
  }
  return count;
}

}  // namespace kolo
